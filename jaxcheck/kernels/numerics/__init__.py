"""Kernels of the numerics battery: operations whose values move between releases, at points that hurt.

Related functions share a kernel and the battery shares a few shapes, because eager execution compiles every
primitive anew for each shape. References are float64 NumPy and closed forms; a reference may leave out the
outputs that it has no formula for.
"""
