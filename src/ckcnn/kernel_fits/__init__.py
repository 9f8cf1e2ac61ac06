"""``ckcnn fit-kernel``: which functions a kernel net can become."""
