"""Recurrent nets of PyTorch, compiled (docs/torch.md).

ys, state = rnncc.torch.scan(cell, xs, state)  # a loop of one's own cell, with gradients
net = rnncc.torch.compile(module, (x,))  # a whole module
rnncc.torch.build(module, (x,), out="build")  # the same as a library
"""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("torch") is None:
    raise ImportError("rnncc.torch needs PyTorch 2.11 or later: pip install 'rnncc[torch]'")

from rnncc.torch.elementwise import elementwise
from rnncc.torch.modules import CompiledModule, build, compile, export
from rnncc.torch.scanning import scan

__all__ = ["CompiledModule", "build", "compile", "elementwise", "export", "scan"]
