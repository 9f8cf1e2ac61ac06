"""What a run leaves behind: its folder, checkpoints, metrics, callbacks and results."""
