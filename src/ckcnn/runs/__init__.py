"""What a run leaves: its folder, checkpoints, the table of metrics, the results of tests."""
