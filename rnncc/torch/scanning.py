# pyright: basic, reportMissingImports=false
"""`scan`: a cell of one's own as a compiled loop over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any
from weakref import WeakSet

import torch
import torch._dynamo
from torch._subclasses.fake_tensor import is_fake
from torch.utils import _pytree as pytree

from rnncc.errors import CompileError
from rnncc.torch.autograd import apply, check_mode
from rnncc.torch.captured import Reading
from rnncc.torch.devices import check_tensor, common_device
from rnncc.torch.exporting import exported_scan
from rnncc.torch.nets import TorchNet
from rnncc.torch.tracing import code_of, read

_Type = tuple[torch.Size, torch.dtype]
_fixed: WeakSet[Any] = WeakSet()
"""Cells that are read for one batch size at a time."""


@torch.compiler.disable(reason="rnncc compiles the loop")
def scan(
    cell: Callable[[Any, Any], tuple[Any, Any]], xs: Any, state: Any, *, reverse: bool = False
) -> tuple[Any, Any]:
    """Run a cell over time as one compiled loop: `y_t, state = cell(x_t, state)`.

    Args:
        cell: a module or a function of tensors, read once as a graph; whatever tensors it reads
            besides (parameters, what it closes over) get their gradients too.
        xs: tensors of T rows, in any nest of tuples, lists and dicts; the cell gets a row of each.
        state: tensors before the first step, in any such nest; the cell gives the next ones, of the
            same shapes.
        reverse: whether the last row comes first.

    Returns:
        The ys, each with T rows, and the state after the last step.

    Raises:
        CompileError: the cell cannot be read, or does what is not supported; the message names the
            user's line where PyTorch knows it.
    """
    sequences, row_spec = _leaves(xs, "xs")
    states, state_spec = _leaves(state, "the state")
    device = _device(sequences, states)
    check_mode(device)
    if any(is_fake(tensor) for tensor in (*sequences, *states)):
        return exported_scan(cell, xs, state, reverse)
    row_types = _row_types(sequences)
    kinds = [*row_types, *((x.shape, x.dtype) for x in states)]

    def run(loop: TorchNet, held: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        return apply(loop, [*sequences, *states, *held])

    def attempt(batches: frozenset[int]) -> tuple[Any, Any]:
        stand_ins = _stand_ins(kinds, batches, device)
        rows, starts = stand_ins[: len(sequences)], stand_ins[len(sequences) :]
        reading = Reading(rows, starts, reverse, run)
        given = pytree.tree_unflatten(rows, row_spec), pytree.tree_unflatten(starts, state_spec)
        return read(cell, *given, reading, bool(batches))

    ys, finals = _open_or_fixed(cell, attempt, _batches(row_types))
    after = pytree.tree_structure(finals)
    if after != state_spec:
        raise CompileError("", f"the state is {state_spec} before a step and {after} after it")
    return ys, finals


def _open_or_fixed(
    cell: Callable[..., Any], attempt: Callable[[frozenset[int]], Any], batches: frozenset[int]
) -> Any:
    """Read with the batch's size left open; where the cell does not allow that, as it is."""
    code = code_of(cell)
    if batches and code not in _fixed:
        try:
            return attempt(batches)
        except CompileError:
            pass  # what is wrong is said without symbols
    results = attempt(frozenset())
    if batches:
        _fixed.add(code)
    return results


def _leaves(tree: Any, name: str) -> tuple[list[torch.Tensor], pytree.TreeSpec]:
    leaves, spec = pytree.tree_flatten(tree)
    for leaf in leaves:
        if not isinstance(leaf, torch.Tensor):
            raise CompileError("", f"{name}: a {type(leaf).__name__} stands where a tensor should")
        check_tensor(leaf)
    return leaves, spec


def _device(xs: Sequence[torch.Tensor], states: Sequence[torch.Tensor]) -> torch.device:
    names = [f"{n} {i}" for n, group in (("xs", xs), ("state", states)) for i in range(len(group))]
    return common_device(names, [*xs, *states])


def _row_types(xs: Sequence[torch.Tensor]) -> list[_Type]:
    """Of one row of each; all have as many."""
    if not xs:
        raise CompileError("", "xs holds no tensor, so the number of steps is not known")
    for x in xs:
        if x.dim() == 0 or len(x) != len(xs[0]):
            shapes = ", ".join(str(list(x.shape)) for x in xs)
            raise CompileError("", f"xs have shapes {shapes}: the first sizes must be one T")
    return [(x.shape[1:], x.dtype) for x in xs]


def _batches(row_types: Iterable[_Type]) -> frozenset[int]:
    """The first sizes of rows that have more axes: of how many sequences they are."""
    return frozenset(shape[0] for shape, _ in row_types if len(shape) > 1)


def _stand_ins(
    types: Iterable[_Type], batches: frozenset[int], device: torch.device
) -> list[torch.Tensor]:
    """A tensor of each type; all differ, and the same call gets the same ones.

    The batch's size is left open, where one axis has it: the last one, behind others, has units.
    """
    seen, made = Counter[_Type](), list[torch.Tensor]()
    for kind in types:
        shape = kind[0][:-1] or kind[0]
        axes = [axis for axis, size in enumerate(shape) if size in batches]
        axis = axes[0] if len(axes) == 1 else None
        made.append(_stand_in(*kind, device, seen[kind], axis))
        seen[kind] += 1
    return made


@lru_cache(maxsize=1024)
def _stand_in(
    shape: torch.Size,
    dtype: torch.dtype,
    device: torch.device,
    number: int,
    batch_axis: int | None,
) -> torch.Tensor:
    made = torch.empty(shape, dtype=dtype, device=device)
    if batch_axis is not None:
        torch._dynamo.maybe_mark_dynamic(made, batch_axis)
    return made
