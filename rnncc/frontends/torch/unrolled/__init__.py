"""Loops over time that Python unrolled while PyTorch read them, found in the graph again.

`rolling.py` is the entry: repeats of equal labels (`repeats.py`) are compared node by node
(`roles.py`), and what proves to be one body becomes PyTorch's operator `scan` (`rolled.py`).
"""
