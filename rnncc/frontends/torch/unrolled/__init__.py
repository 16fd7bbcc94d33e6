"""Loops over time that Python unrolled while PyTorch read them, found in the graph again.

`rolling.py` is the entry. Reads of rows that were changed before become what was put there
(`forwarding.py`), and tensors of a step's number sums with it (`fills.py`). Repeats of equal labels
(`repeats.py`) are compared node by node (`roles.py`), and what proves to be one body becomes
PyTorch's operator `scan` (`rolled.py`).
"""
