"""Regression harness with golden fixtures for JAX kernels. Importing it imports neither jax nor NumPy."""

__version__ = "0.1.0"
