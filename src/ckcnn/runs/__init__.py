"""What a run writes: its folder, checkpoints, metrics, callbacks and results."""
