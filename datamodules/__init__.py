"""Every benchmark of the paper as a data set for sequence models."""
