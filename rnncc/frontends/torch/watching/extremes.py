# pyright: basic, reportMissingImports=false
"""Lets TorchDynamo tell `max` of sizes from `min` while `torch.export` replaces both.

It takes each function that is not the builtin `max` for `min`; during an export that name stands
for a function of PyTorch's own, which calls the true ones.
"""

from __future__ import annotations

from torch._dynamo.variables import builtin

_EXTREMES = {"max": max, "min": min}


def tell_extremes_apart() -> None:
    """Let its module compare with the true ones, whatever the builtins are."""
    for name, function in _EXTREMES.items():
        setattr(builtin, name, function)
