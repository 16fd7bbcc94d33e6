"""What backward computes again, where no values are named."""

RULES = ("auto", "none", "all")
"""The values of the option `recompute` that are no names."""
