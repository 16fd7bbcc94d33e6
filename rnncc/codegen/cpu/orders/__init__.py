"""Loops and kernels in another order than the program's, and passes that kernels share."""
