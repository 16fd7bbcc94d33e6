# pyright: basic, reportMissingImports=false
"""A loop over all steps of a cell: the cell is read, and what was read is compiled and run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakSet

import torch
from torch.autograd import forward_ad
from torch.utils import _pytree as pytree

from rnncc.errors import CompileError
from rnncc.frontends.torch.trace import KeepsTensors
from rnncc.records import record
from rnncc.torch.autograd import apply
from rnncc.torch.captured import CellCall, Counts
from rnncc.torch.changed_states import check_apart, counted_together
from rnncc.torch.devices import common_device, single_device
from rnncc.torch.nets import TorchNet
from rnncc.torch.objects.kept import StatePlace, tensors_of
from rnncc.torch.objects.nests import TWICE, is_any, put_into_same, stands_twice
from rnncc.torch.objects.trees import alike, leaves, with_tensors
from rnncc.torch.stand_ins import batches_of, row_types, stand_ins_of
from rnncc.torch.tracing import code_of, read
from rnncc.torch.transforms import within_transforms

MOST_COUNTED = 2
"""Steps in which numbers of Python's may still change, before they stay as they are."""
_fixed: WeakSet[Any] = WeakSet()
"""Cells that are read for one batch size at a time."""


@record
class Manner:
    """How a loop runs: as of `scan`."""

    reverse: bool
    precision: str


@record
class _Carried:
    """What goes from step to step: the tensors of the state, then those that the cell keeps.

    Attributes:
        names: what messages call each.
        plain: the numbers of those that are changed in place and need no gradient before.
        counters: of those that are numbers of Python's.
    """

    tensors: list[torch.Tensor]
    names: list[str]
    plain: frozenset[int]
    counters: frozenset[int]

    @staticmethod
    def of(state: Any, kept: Sequence[Any], places: Sequence[StatePlace]) -> _Carried:
        """What a state and a cell that keeps values at these places carry."""
        tensors = tensors_of(state)
        names = [f"state {i}" for i in range(len(tensors))]
        plain, counters = set[int](), set[int]()
        for place, value in zip(places, kept, strict=True) if places else ():
            for tensor in tensors_of(value):
                if place.in_place and not tensor.requires_grad:
                    plain.add(len(tensors))
                if place.is_number:
                    counters.add(len(tensors))
                tensors.append(tensor)
                names.append(str(place))
        return _Carried(tensors, names, frozenset(plain), frozenset(counters))


def all_steps(
    cell: Callable[..., Any],
    xs: Any,
    state: Any,
    kept: Sequence[Any],
    how: Manner,
    is_first: bool,
    places: Sequence[StatePlace] = (),
) -> tuple[Any, Any, Any]:
    """Do all steps as one loop.

    Args:
        cell, xs, state: as of `scan`.
        kept: what the cell keeps at its places, before the first step.
        how: the loop's manner.
        is_first: whether no step was done before.
        places: where the cell keeps it.

    Returns:
        The ys, the last state, and what the cell keeps after the last step.

    Raises:
        KeepsTensors: the cell keeps tensors elsewhere.
        Counts: it keeps numbers that change from step to step.
        CompileError: it cannot be read, or is not supported.
    """
    sequences, carried = leaves(xs), _Carried.of(state, kept, places)
    device = device_of(sequences, carried.tensors)
    rows_like = row_types(sequences)
    kinds = *rows_like, *[(x.shape, x.dtype) for x in carried.tensors]

    def run(
        loop: TorchNet,
        taken: Sequence[int],
        consts: Sequence[torch.Tensor],
        changed: Collection[int],
    ) -> Sequence[torch.Tensor]:
        check_apart(changed, carried.tensors, (*sequences, *consts))
        tensors = [*(sequences[i] for i in taken), *carried.tensors, *consts]
        copied = [len(taken) + i for i in counted_together(changed, carried.tensors)]
        return within_transforms(_applied, loop, tensors, copied)

    def attempt(batches: frozenset[int]) -> tuple[Any, ...]:
        stand_ins = stand_ins_of(kinds, batches, device)
        rows, starts = stand_ins[: len(sequences)], stand_ins[len(sequences) :]
        kind = None if _is_transformed() else carried.plain, how.reverse, how.precision
        reading = CellCall(
            cell, rows, starts, carried.names, is_first, *kind, run, len(places), carried.counters
        )
        operands = with_tensors(xs, rows), *with_tensors((state, list(kept)), starts)

        def read_once(reading: CellCall) -> tuple[Any, Any, Any, Any]:
            return read(cell, operands[0], operands[1], places, operands[2], reading, bool(batches))

        results = read_once(reading)
        if count_of_steps(xs) > 1 and reading.used and reading.used[-1][0].counts:
            _check_counts(reading, read_once)
        return *results, reading.used[-1][0].changed if reading.used else ()

    ys, finals, after, same, changed = _open_or_fixed(cell, attempt, batches_of(rows_like))
    check_same("the state", state, finals)
    if is_any(same) and stands_twice(state, []):
        raise CompileError("", TWICE)
    if changed:
        last = _left_in(carried.tensors, tensors_of(finals), changed, count_of_steps(xs) > 0)
        finals = with_tensors(finals, last)
    finals = put_into_same(state, finals, same)
    for place, old, new in zip(places, kept, after, strict=True):
        check_same(f"what is kept in {place}", old, new)
    return ys, finals, after


def _applied(
    loop: TorchNet, tensors: list[torch.Tensor], copied: Sequence[int]
) -> Sequence[torch.Tensor]:
    """A loop's results; backward reads copies of what changes when the loop has run."""
    for number in copied:
        tensors[number] = tensors[number].clone()
    return apply(loop, tensors)


def _left_in(
    first: Sequence[torch.Tensor],
    last: Sequence[torch.Tensor],
    changed: Collection[int],
    has_steps: bool,
) -> list[torch.Tensor]:
    """The last states, of which those that steps change in place are the first ones' tensors."""
    if has_steps:
        for number in changed:
            first[number].copy_(last[number])
    return [first[number] if number in changed else new for number, new in enumerate(last)]


def _check_counts(reading: CellCall, read_once: Callable[[CellCall], Any]) -> None:
    """Refuse a cell whose steps differ by numbers that Python keeps, unless these soon stay."""
    again = replace(reading, run=None)
    for _ in range(MOST_COUNTED):
        read_once(again)
        if again.used[-1][0] is again.used[-2][0]:
            return
    raise Counts(again.used[-1][0], again)


def device_of(xs: Sequence[torch.Tensor], states: Sequence[torch.Tensor]) -> torch.device:
    """Where all of them lie.

    Raises:
        CompileError: they lie on several devices.
    """
    device = single_device([*xs, *states])
    if device is not None:
        return device
    names = [f"{n} {i}" for n, group in (("xs", xs), ("state", states)) for i in range(len(group))]
    return common_device(names, [*xs, *states])


def count_of_steps(xs: Any) -> int:
    """T, of which all xs have as many rows."""
    return leaves(xs)[0].shape[0]


def _is_transformed() -> bool:
    """Whether tensors may have gradients or tangents that `requires_grad` does not tell of."""
    return torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0


def check_same(name: str, before: Any, after: Any) -> None:
    """Refuse what is another nest after a step, or has tensors elsewhere."""
    if not alike(before, after, _alike):
        texts = [pytree.tree_map(_shown, x) for x in (before, after)]
        raise CompileError("", f"{name} is {texts[0]} before a step and {texts[1]} after it")


def _alike(old: Any, new: Any) -> bool:
    """Whether both are tensors, or the same that is none."""
    tensors = isinstance(old, torch.Tensor), isinstance(new, torch.Tensor)
    return all(tensors) or (not any(tensors) and (old is new or old == new))


def _shown(x: Any) -> Any:
    return torch.Tensor if isinstance(x, torch.Tensor) else x


def _open_or_fixed(
    cell: Callable[..., Any], attempt: Callable[[frozenset[int]], Any], batches: frozenset[int]
) -> Any:
    """Read with the batch's size left open; where the cell does not allow that, as it is."""
    code = code_of(cell)
    if batches and code not in _fixed:
        try:
            return attempt(batches)
        except (KeepsTensors, Counts):
            raise
        except CompileError:
            pass  # what is wrong is said without symbols
    results = attempt(frozenset())
    if batches:
        _fixed.add(code)
    return results
