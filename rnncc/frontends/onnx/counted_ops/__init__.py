"""Operators on tensors of which the run decides how many rows count."""
