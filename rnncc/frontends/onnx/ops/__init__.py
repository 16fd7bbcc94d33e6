"""Operators by family: each a function that builds what its docstring says."""
