"""`ckcnn report`: all runs of a folder on one page that opens from disk."""
