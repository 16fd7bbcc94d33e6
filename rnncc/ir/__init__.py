"""The two dialects, their types and their meaning in NumPy."""
