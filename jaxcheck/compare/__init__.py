"""Arrays against arrays: statistics, comparators and their words. NumPy only; never jax."""
