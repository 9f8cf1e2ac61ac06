"""The command line: Lightning's CLI on presets and run folders, its messages, and the smaller commands."""
