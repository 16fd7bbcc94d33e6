"""Sizes that the run counts or decides, and tensors of which only so many rows count."""
