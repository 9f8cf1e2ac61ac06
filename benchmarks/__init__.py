"""Speed and memory of a training step, side by side with the textbook formulation and with other sequence models."""
