"""Branches and loops on what tensors hold: both ways in one graph, and what masks select."""
