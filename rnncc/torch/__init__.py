"""Recurrent nets of PyTorch, compiled (docs/torch.md).

    ys, state = rnncc.torch.scan(cell, xs, state)     # a loop of one's own cell, with gradients
"""

from __future__ import annotations

from rnncc.torch.scanning import scan

__all__ = ["scan"]
