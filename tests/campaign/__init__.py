"""The fault campaign: bad inputs that a generator makes up, and what the command line does with each."""
