"""The functions that a library exports, and what they check."""
