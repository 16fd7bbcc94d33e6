# pyright: basic, reportMissingImports=false
"""Lets PyTorch remember shapes of whole operators only, and of all that it may, while this thread
reads.

To remember what an operator makes of fake tensors, PyTorch makes it once more from what it would
remember. It does so for the operators, too, that one is composed of, at every depth: with open
sizes that takes three quarters of the time of an operator that is met for the first time.

Of an operator that takes a real tensor, such as a weight that a cell finds in a dict, it remembers
nothing: it computes the shape each time, for ten times as long as it takes to look one up. Here the
tensor's fake, which it makes anyway, is what it is asked about. Nor does it remember anything of
`_unsafe_view`, whose shapes it computes by the function that computes those of `view`, nor of this
package's operators: the marks of branches and loops have no shapes, and do all that they do here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from rnncc.frontends.torch.branches.marks import MARK
from rnncc.frontends.torch.fake_memory import has_memory, result_of
from rnncc.frontends.torch.numbers.known_constants import forget_written, note_mark
from rnncc.frontends.torch.patches import ThreadScope, once
from rnncc.frontends.torch.readings import readings

remembering_shapes = ThreadScope()
"""Within it a thread's shapes are remembered so, too, though it reads nothing."""
_ALIKE: dict[Any, Any] = {torch.ops.aten._unsafe_view.default: torch.ops.aten.view.default}
_PLAIN = torch.Tensor, torch.nn.Parameter
_NUMBERS: Callable[[Any], bool] | None = getattr(
    fake_tensor, "should_allow_numbers_as_tensors", None
)
"""PyTorch's answer, whether an operator of known tensors alone is computed, and not its shape."""


@once
def remember_whole_operators() -> None:
    """Switch the memory of a mode off where it looks into an operator, and let it be used for
    operators of real tensors."""
    kind: Any = FakeTensorMode
    own = getattr(kind, "_dispatch_impl", None)
    remembered = getattr(kind, "_cached_dispatch_impl", None)
    if own is None or remembered is None:  # PyTorch computes shapes in another way
        return
    is_quick = has_memory()

    @wraps(own)
    def dispatch(mode: Any, *args: Any, **kwargs: Any) -> Any:
        if not _is_on() or not getattr(mode, "cache_enabled", False):
            return own(mode, *args, **kwargs)
        mode.cache_enabled = False
        try:
            return own(mode, *args, **kwargs)
        finally:
            mode.cache_enabled = True

    @wraps(remembered)
    def look_up(mode: Any, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if _is_on() and isinstance(func, OpOverload):
            if func is MARK:
                return note_mark(*args)
            forget_written(mode, func, args, kwargs)
            func = _ALIKE.get(func, func)
            if _may_be_fakes(mode, func, args):
                convert = mode.fake_tensor_converter.from_real_tensor
                args = [convert(mode, x) if type(x) in _PLAIN else x for x in args]
            if is_quick:
                return result_of(remembered, mode, func, types, args, kwargs)
        return remembered(mode, func, types, args, kwargs)

    kind._dispatch_impl = dispatch
    if _NUMBERS is not None:
        kind._cached_dispatch_impl = look_up


def _is_on() -> bool:
    return bool(readings.stack or remembering_shapes)


def _may_be_fakes(mode: Any, func: Any, args: Sequence[Any]) -> bool:
    """Whether some operands are real tensors, and PyTorch would take their fakes in their places:
    it refuses some, and computes with numbers where no operand is a fake."""
    if not any(type(x) in _PLAIN for x in args):
        return False
    if not mode.allow_non_fake_inputs or func._schema.is_mutable or func in mode.lift_fns:
        return False
    assert _NUMBERS is not None
    return not _NUMBERS(func) or any(isinstance(x, FakeTensor) for x in args)
