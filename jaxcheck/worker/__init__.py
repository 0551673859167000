"""The process that imports JAX: it runs kernels and answers its parent in JSON lines over a private pipe."""
