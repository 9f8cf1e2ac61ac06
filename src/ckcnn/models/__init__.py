"""What is trained: the LightningModule that all models share, the CKCNN, the baselines, and their networks."""
