"""``ckcnn search``: which omega_0, and which other settings, give the best validation metric, with Optuna.

A trial is an ordinary ``ckcnn fit`` in its own process: `objective` starts it, reads its ``metrics.csv`` and stops
it if it is worse than the others. So there is nothing of the search in the training code, and a trial may use any
number of devices.
"""
