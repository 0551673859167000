"""Kernels of the shipped recipes, with their NumPy references and properties; imported by workers only.

A kernel is a pure function of arrays and pytrees. `NAME_reference` takes the same arguments as float64 NumPy
arrays and computes the same outputs by an independent formula. A property takes `(inputs, outputs)` and
raises AssertionError, with what was found, where it does not hold.
"""
