"""Readers of other formats; each is imported only when it is used."""
