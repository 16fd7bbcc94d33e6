# pyright: basic, reportMissingImports=false
"""`scan`: a cell of one's own as a compiled loop over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakSet

import torch
from torch._C._functorch import is_functionaltensor, is_functorch_wrapped_tensor
from torch._subclasses.fake_tensor import is_fake

from rnncc.errors import CompileError
from rnncc.frontends.torch.node_context import UNREAD_SCAN
from rnncc.frontends.torch.trace import KeepsTensors
from rnncc.options import check_flag
from rnncc.torch.all_steps import Manner, all_steps, device_of
from rnncc.torch.autograd import check_untraced
from rnncc.torch.captured import Counts
from rnncc.torch.devices import PLAIN_TENSORS, check_tensor
from rnncc.torch.exporting import exported_scan
from rnncc.torch.first_steps import first_steps_apart
from rnncc.torch.nets import check_precision
from rnncc.torch.objects.trees import has_gaps, leaves, make_known
from rnncc.torch.stand_ins import row_types
from rnncc.torch.state_numbers import has_numbers, is_number, scan_with_numbers
from rnncc.torch.tracing import code_of

_keeping: WeakSet[Any] = WeakSet()
"""Cells that keep tensors, or numbers that change, in objects of their own."""


@torch.compiler.disable(reason=UNREAD_SCAN)
def scan(
    cell: Callable[[Any, Any], tuple[Any, Any]],
    xs: Any,
    state: Any,
    *,
    reverse: bool = False,
    precision: str = "fp32",
) -> tuple[Any, Any]:
    """Run a cell over time as one compiled loop: `y_t, state = cell(x_t, state)`.

    Args:
        cell: a module or a function of tensors, read once as a graph; whatever tensors it reads
            besides (parameters, what it closes over) get their gradients too.
        xs: tensors of T rows, in any nest of tuples, lists and dicts; the cell gets a row of each.
        state: tensors before the first step, in any such nest, and numbers or flags that steps
            change; the cell gives the next ones, of the same shapes.
        reverse: whether the last row comes first.
        precision: fp32, or bf16 for tensors on a GPU, whose products are of rounded values then,
            those of gradients too; all else stays float32 (docs/precision.md).

    Returns:
        The ys, each with T rows, and the state after the last step.

    Raises:
        CompileError: the cell cannot be read, or does what is not supported; the message names the
            user's line where PyTorch knows it.
    """
    sequences = _leaves(xs, "xs")
    counts = has_numbers(make_known(state)) and not any(map(_is_fake, sequences))
    states = _leaves(state, "the state", optional=True, numbers=counts)
    device_of(sequences, states)
    check_precision(precision)
    check_flag(reverse, "reverse")
    if any(map(_is_fake, (*sequences, *states))):
        if precision != "fp32":
            what = "an exported module has one precision, which is not scan's to choose"
            raise CompileError("", what, f"compile(module, ..., precision={precision!r})")
        return exported_scan(cell, xs, state, reverse)
    check_untraced()
    row_types(sequences)
    run = scan_with_numbers if counts else _scanned
    try:
        return run(cell, xs, state, Manner(reverse, precision))
    except CompileError as error:
        if error.hint is None and (hint := _batch_first(sequences, states)):
            raise CompileError(error.location, error.what, hint) from error
        raise


def _scanned(cell: Callable[..., Any], xs: Any, state: Any, how: Manner) -> tuple[Any, Any]:
    code = code_of(cell)
    if code not in _keeping and not has_gaps(state):
        try:
            ys, finals, _ = all_steps(cell, xs, state, [], how, is_first=True)
            return ys, finals
        except KeepsTensors:
            pass
        except Counts as error:
            if error.before is None:
                raise
            error.before.take_back()
        _keeping.add(code)
    return first_steps_apart(cell, xs, state, how)


def _batch_first(xs: Sequence[torch.Tensor], states: Sequence[torch.Tensor]) -> str | None:
    """What to do where the first axis of xs is as long as that of the states: no time.

    Rows have all axes of a state, so that xs has one more.
    """
    batches = {len(state) for state in states if state.dim() > 0}
    rank = 1 + max((state.dim() for state in states), default=1)
    if len(batches) != 1 or any(x.dim() < rank or len(x) not in batches for x in xs):
        return None
    if all(x.shape[1] in batches for x in xs):
        return None
    return "the first axis of xs is time, not the batch: scan(cell, xs.transpose(0, 1), state)"


def _is_fake(x: torch.Tensor) -> bool:
    """As PyTorch's `is_fake`, in a tenth of the time where a tensor is as most are."""
    wraps_none = not (is_functionaltensor(x) or is_functorch_wrapped_tensor(x))
    return not (type(x) in PLAIN_TENSORS and wraps_none) and is_fake(x)


def _leaves(
    tree: Any, name: str, optional: bool = False, numbers: bool = False
) -> list[torch.Tensor]:
    """The tensors in a tree; `optional`: None may stand in the place of some; so may numbers."""
    tensors: list[Any] = [x for x in leaves(make_known(tree)) if x is not None or not optional]
    if numbers:
        tensors = [x for x in tensors if not is_number(x)]
    for leaf in tensors:
        if not isinstance(leaf, torch.Tensor):
            what = f"{name}: {type(leaf).__name__} {leaf!r:.40} stands where a tensor should"
            raise CompileError("", what, "torch.tensor(n), for a number that steps count")
        check_tensor(leaf)
    return tensors
