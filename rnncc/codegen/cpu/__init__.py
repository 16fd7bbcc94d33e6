"""Kernels as loops and vectors of a cpu."""
