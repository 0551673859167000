"""YAML to frozen recipes, every fault with its place in the file. Imports neither jax nor NumPy."""
