"""`ckcnn reproduce`: the paper's tables, each cell an ordinary run that was trained and tested."""
