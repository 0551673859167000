"""Goldens: the codec of arrays and trees, the files that hold them, and the folder that holds the files.

NumPy only: nothing here imports jax, and ml_dtypes only where an extended dtype occurs.
"""
