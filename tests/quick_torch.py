"""PyTorch without what it measures and logs of its own: it does both at each reading of a loop.

Nothing of that is tested here, and it took about a tenth of the time of the tests of PyTorch.
"""

from __future__ import annotations

import logging
import sys
from functools import cache
from typing import Any


class _AnyCallable(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return callable(instance)


class _Unsaid(metaclass=_AnyCallable):
    """In the place of `Callable`, of any arguments and results."""

    def __class_getitem__(cls, parameters: Any) -> None:
        return None


def quicken() -> None:
    """Once all tests are imported, and PyTorch with them."""
    # pytest listens to all loggers that do not hand on what they get; where somebody listens to
    # this one, PyTorch writes down each graph and each guard.
    logging.getLogger("torch.__trace").propagate = True
    modules: dict[str, Any] = {**sys.modules}
    if "torch._dynamo.guards" in modules:
        modules["torch._dynamo.config"].run_gc_after_compile = False
        # It empties the caches first, to measure how long guards take from memory.
        modules["torch._dynamo.guards"].profile_guard_manager = lambda *_: 0.0
    if "torch._ops" in modules:
        # A function in it whose annotations are evaluated is made ten thousand times for each
        # program that is taken apart, which took half of that.
        modules["torch._ops"].Callable = _Unsaid
    if "torch._export.utils" in modules:
        utils, dispatcher = modules["torch._export.utils"], modules["torch"]._C
        look_up = cache(lambda _, real=utils._materialize_cpp_cia_ops: real())
        # Once for the operators that there are, not a dozen times for each program.
        utils._materialize_cpp_cia_ops = lambda: look_up(
            tuple(
                dispatcher._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")
            )
        )
