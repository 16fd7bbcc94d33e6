# pyright: basic, reportMissingImports=false
"""Lets PyTorch remember shapes of whole operators only, while this thread reads.

To remember what an operator makes of fake tensors, PyTorch makes it once more from what it would
remember. It does so for the operators, too, that one is composed of, at every depth: with open
sizes that takes three quarters of the time of an operator that is met for the first time.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from torch._subclasses.fake_tensor import FakeTensorMode

from rnncc.frontends.torch.patches import once
from rnncc.frontends.torch.readings import readings


@once
def remember_whole_operators() -> None:
    """Switch the memory of a mode off where it looks into an operator."""
    kind: Any = FakeTensorMode
    own = getattr(kind, "_dispatch_impl", None)
    if own is None:  # PyTorch computes shapes in another way
        return

    @wraps(own)
    def dispatch(mode: Any, *args: Any, **kwargs: Any) -> Any:
        if not (readings.stack and getattr(mode, "cache_enabled", False)):
            return own(mode, *args, **kwargs)
        mode.cache_enabled = False
        try:
            return own(mode, *args, **kwargs)
        finally:
            mode.cache_enabled = True

    kind._dispatch_impl = dispatch
