"""Operators of our own in PyTorch's graphs: what PyTorch would take apart, or has none for."""
