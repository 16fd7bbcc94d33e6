"""PyTorch without what it measures and logs of its own: it does both at each reading of a loop.

Nothing of that is tested here, and it took about a tenth of the time of the tests of PyTorch.
"""

from __future__ import annotations

import logging
import sys
from functools import cache
from typing import Any


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
    if "torch._export.utils" in modules:
        utils, dispatcher = modules["torch._export.utils"], modules["torch"]._C
        look_up = cache(lambda _, real=utils._materialize_cpp_cia_ops: real())
        # Once for the operators that there are, not a dozen times for each program.
        utils._materialize_cpp_cia_ops = lambda: look_up(
            tuple(
                dispatcher._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")
            )
        )
