"""Sizes that may be formulas: arithmetic with them, and what operators say of them."""
