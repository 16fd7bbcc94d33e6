"""Differentiation, and the two halves of training with the tape between them."""
