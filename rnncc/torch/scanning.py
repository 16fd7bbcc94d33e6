# pyright: basic, reportMissingImports=false
"""`scan`: a cell of one's own as a compiled loop over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import torch
import torch._dynamo
from torch._C._functorch import is_functionaltensor, is_functorch_wrapped_tensor
from torch._subclasses.fake_tensor import is_fake
from torch.autograd import forward_ad
from torch.utils import _pytree as pytree

from rnncc.errors import CompileError
from rnncc.frontends.torch.node_context import UNREAD_SCAN
from rnncc.frontends.torch.trace import KeepsTensors
from rnncc.records import record
from rnncc.torch.autograd import apply
from rnncc.torch.branching.values import OF_NUMBERS
from rnncc.torch.captured import CellCall, Counts
from rnncc.torch.devices import PLAIN_TENSORS, check_tensor, common_device, single_device
from rnncc.torch.exporting import exported_scan
from rnncc.torch.kept import Snapshot, StatePlace, put, tensors_of, together
from rnncc.torch.nests import put_into
from rnncc.torch.nets import TorchNet, check_precision
from rnncc.torch.tracing import code_of, read
from rnncc.torch.transforms import within_transforms
from rnncc.torch.trees import alike, leaves, make_known, mapped

MOST_APART = 2
"""Steps that PyTorch does before a loop that is to be compiled."""
_Type = tuple[torch.Size, torch.dtype]
_fixed: WeakSet[Any] = WeakSet()
"""Cells that are read for one batch size at a time."""
_keeping: WeakSet[Any] = WeakSet()
"""Cells that keep tensors, or numbers that change, in objects of their own."""
_counting: WeakKeyDictionary[Any, set[tuple[type, Any]]] = WeakKeyDictionary()
"""The classes and keys of the numbers."""


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
        state: tensors before the first step, in any such nest; the cell gives the next ones, of the
            same shapes.
        reverse: whether the last row comes first.
        precision: fp32, or bf16 for tensors on a GPU, whose products are of rounded values then,
            those of gradients too; all else stays float32 (docs/precision.md).

    Returns:
        The ys, each with T rows, and the state after the last step.

    Raises:
        CompileError: the cell cannot be read, or does what is not supported; the message names the
            user's line where PyTorch knows it.
    """
    sequences, states = _leaves(xs, "xs"), _leaves(state, "the state", optional=True)
    _device(sequences, states)
    check_precision(precision)
    if any(map(_is_fake, (*sequences, *states))):
        if precision != "fp32":
            what = "an exported module has one precision, which is not scan's to choose"
            raise CompileError("", what, f"compile(module, ..., precision={precision!r})")
        return exported_scan(cell, xs, state, reverse)
    _row_types(sequences)
    try:
        return _scanned(cell, xs, state, Manner(reverse, precision))
    except CompileError as error:
        if error.hint is None and (hint := _batch_first(sequences, states)):
            raise CompileError(error.location, error.what, hint) from error
        raise


@record
class Manner:
    """How a loop runs: as of `scan`."""

    reverse: bool
    precision: str


def _scanned(cell: Callable[..., Any], xs: Any, state: Any, how: Manner) -> tuple[Any, Any]:
    code = code_of(cell)
    if code not in _keeping and not any(x is None for x in leaves(state)):
        try:
            return _all_steps(cell, xs, state, how)
        except KeepsTensors:
            pass
        except Counts as error:
            if error.before is None:
                raise
            error.before.take_back()
        _keeping.add(code)
    return _first_steps_apart(cell, xs, state, how)


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


def _all_steps(cell: Callable[..., Any], xs: Any, state: Any, how: Manner) -> tuple[Any, Any]:
    ys, finals, _ = _loop(cell, xs, state, [], how, is_first=True)
    return ys, finals


def _first_steps_apart(
    cell: Callable[..., Any], xs: Any, state: Any, how: Manner
) -> tuple[Any, Any]:
    """Let PyTorch do the first step, which shows where the cell keeps tensors and numbers that
    change, and of what types.

    It may make what is kept, or the state itself, out of None, numbers and empty tensors. Another
    step shows what the first has put where it was already.
    """
    before, known, ys = Snapshot(cell), list[StatePlace](), list[Any]()
    refusal = CompileError("", "a cell that keeps tensors, or makes its state, needs a step")
    try:
        while _steps(xs) > 0 and len(ys) < MOST_APART:
            last = Snapshot(cell)
            row, xs = _parted(xs, how.reverse)
            y, state = cell(row, state)
            ys.append(pytree.tree_map(_as_sequence, y))
            if _steps(xs) == 0:
                return _joined(ys, how.reverse), state
            known = together(known, last.changed())
            try:
                rest, finals = _other_steps(cell, xs, state, known, last, how)
                return _joined([*ys, rest], how.reverse), finals
            except KeepsTensors as error:
                refusal = error
        raise refusal
    except CompileError:
        before.restore()
        raise


def _other_steps(
    cell: Callable[..., Any],
    xs: Any,
    state: Any,
    known: Sequence[StatePlace],
    last: Snapshot,
    how: Manner,
) -> tuple[Any, Any]:
    """The steps after those that PyTorch has done; reading them may show further places.

    Args:
        known: where the last of those has put tensors.
        last: what the cell's objects held before it.
    """
    numbers = _counting.setdefault(code_of(cell), set())
    counted = [place for place in last.numbers() if (type(place.owner), place.key) in numbers]
    refusal = None
    while True:
        places = together(known, counted)
        try:
            return _with_places(cell, xs, state, places, how)
        except KeepsTensors as error:
            known = together(known, last.places_of(error.tensors))
            if len(together(known, counted)) == len(places):
                raise
        except Counts as error:
            if error.before is None or not (changed := error.before.take_back(places)):
                raise
            numbers |= {(type(place.owner), place.key) for place in changed}
            counted, refusal = together(counted, changed), error
        except CompileError as error:
            if refusal is not None:  # something takes no tensor in a number's place
                raise refusal from error
            if not counted:
                raise
            counted = []  # another cell of the class counts with these
            numbers.clear()


def _steps(xs: Any) -> int:
    return leaves(xs)[0].shape[0]


def _parted(xs: Any, reverse: bool) -> tuple[Any, Any]:
    """The row that comes first, and the other ones."""
    sequences, spec = pytree.tree_flatten(xs)
    others = len(sequences[0]) - 1
    if reverse:
        parts = [x.split([others, 1])[::-1] for x in sequences]
    else:
        parts = [x.split([1, others]) for x in sequences]
    rows, left = [first[0] for first, _ in parts], [rest for _, rest in parts]
    return pytree.tree_unflatten(rows, spec), pytree.tree_unflatten(left, spec)


def _with_places(
    cell: Callable[..., Any], xs: Any, state: Any, places: Sequence[StatePlace], how: Manner
) -> tuple[Any, Any]:
    """All steps, with what the cell keeps taken from its places and put back at the end."""
    values = [place.value for place in places]
    device = leaves(xs)[0].device
    kept = [_carried(*both, device) for both in zip(places, values, strict=True)]
    for place in places:
        put(place.owner, place.key, None)  # what guards see there is always the same
    try:
        ys, finals, results = _loop(cell, xs, state, kept, how, False, places)
    finally:
        for place, value in zip(places, values, strict=True):
            put(place.owner, place.key, value)
    for place, value, new in zip(places, values, results, strict=True):
        if place.in_place:
            (value.data if place.silent else value).copy_(new)
        elif place.is_number:
            put(place.owner, place.key, type(value)(new.item()))
        else:
            put(place.owner, place.key, new)
    return ys, finals


def _carried(place: StatePlace, value: Any, device: torch.device) -> Any:
    """What a loop carries of what a cell keeps at a place."""
    if place.is_number:
        dtype = next(dtype for kind, dtype in OF_NUMBERS.items() if isinstance(value, kind))
        return torch.full((), value, dtype=dtype, device=device)
    return pytree.tree_map(torch.clone, value) if place.in_place else value


def _joined(ys: Sequence[Any], reverse: bool) -> Any:
    """The ys of the first steps and of the others, one after another."""
    for other in ys[1:]:
        _check_same("y", ys[0], other)

    def join(*parts: Any) -> Any:
        return None if parts[0] is None else torch.cat(parts[::-1] if reverse else parts)

    return ys[0] if len(ys) == 1 else pytree.tree_map(join, *ys)


def _as_sequence(y: Any) -> Any:
    return None if y is None else y.unsqueeze(0)


def _loop(
    cell: Callable[..., Any],
    xs: Any,
    state: Any,
    kept: Sequence[Any],
    how: Manner,
    is_first: bool,
    places: Sequence[StatePlace] = (),
) -> tuple[Any, Any, Any]:
    """The ys, the last state, and what the cell keeps at its places after the last step."""
    sequences, carried = leaves(xs), (state, list(kept))
    states = tensors_of(carried)
    names = [f"state {i}" for i in range(len(tensors_of(state)))]
    for place, value in zip(places, kept, strict=True):
        names += [str(place)] * len(tensors_of(value))
    device = _device(sequences, states)
    row_types = _row_types(sequences)
    kinds = *row_types, *((x.shape, x.dtype) for x in states)
    first_kept = len(states) - len(tensors_of(list(kept)))
    plain = None if _is_transformed() else frozenset(_without_gradients(places, kept, first_kept))
    counters = frozenset(_numbers(places, kept, first_kept))

    def run(
        loop: TorchNet, taken: Sequence[int], consts: Sequence[torch.Tensor]
    ) -> Sequence[torch.Tensor]:
        tensors = [*(sequences[i] for i in taken), *states, *consts]
        return within_transforms(apply, loop, tensors)

    def attempt(batches: frozenset[int]) -> tuple[Any, Any, Any, bool]:
        stand_ins = _stand_ins(kinds, batches, device)
        rows, starts = stand_ins[: len(sequences)], stand_ins[len(sequences) :]
        kind = how.reverse, how.precision
        reading = CellCall(cell, rows, starts, names, is_first, plain, *kind, run, counters)
        operands = _in_place_of(rows, xs), *_in_place_of(starts, carried)

        def read_once(reading: CellCall) -> tuple[Any, Any, Any, bool]:
            return read(cell, operands[0], operands[1], places, operands[2], reading, bool(batches))

        results = read_once(reading)
        if _steps(xs) > 1 and reading.used[-1][0].counts:
            _check_counts(reading, read_once)
        return results

    ys, finals, after, in_place = _open_or_fixed(cell, attempt, _batches(row_types))
    _check_same("the state", state, finals)
    if in_place:
        put_into(state, finals)
        finals = state
    for place, old, new in zip(places, kept, after, strict=True):
        _check_same(f"what is kept in {place}", old, new)
    return ys, finals, after


def _check_counts(reading: CellCall, read_once: Callable[[CellCall], Any]) -> None:
    """Refuse a cell whose steps differ by numbers that Python keeps, unless these soon stay."""
    again = replace(reading, run=None)
    for _ in range(MOST_APART):
        read_once(again)
        if again.used[-1][0] is again.used[-2][0]:
            return
    raise Counts(again.used[-1][0], again)


def _is_transformed() -> bool:
    """Whether tensors may have gradients or tangents that `requires_grad` does not tell of."""
    return torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0


def _without_gradients(
    places: Sequence[StatePlace], kept: Sequence[Any], number: int
) -> Iterable[int]:
    """The numbers of the states that are changed in place and need no gradient before."""
    for place, value in zip(places, kept, strict=True):
        for tensor in tensors_of(value):
            if place.in_place and not tensor.requires_grad:
                yield number
            number += 1


def _numbers(places: Sequence[StatePlace], kept: Sequence[Any], number: int) -> Iterable[int]:
    """The numbers of the states that are numbers of Python's."""
    for place, value in zip(places, kept, strict=True):
        if place.is_number:
            yield number
        number += len(tensors_of(value))


def _in_place_of(tensors: Sequence[torch.Tensor], tree: Any) -> Any:
    """A tree with other tensors in the place of its own."""
    left = iter(tensors)
    return mapped(lambda x: next(left) if isinstance(x, torch.Tensor) else x, tree)


def _check_same(name: str, before: Any, after: Any) -> None:
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


def _is_fake(x: torch.Tensor) -> bool:
    """As PyTorch's `is_fake`, in a tenth of the time where a tensor is as most are."""
    wraps_none = not (is_functionaltensor(x) or is_functorch_wrapped_tensor(x))
    return not (type(x) in PLAIN_TENSORS and wraps_none) and is_fake(x)


def _leaves(tree: Any, name: str, optional: bool = False) -> list[torch.Tensor]:
    """The tensors in a tree; `optional`: None may stand in the place of some."""
    tensors: list[Any] = [x for x in leaves(make_known(tree)) if x is not None or not optional]
    for leaf in tensors:
        if not isinstance(leaf, torch.Tensor):
            what = f"{name}: {type(leaf).__name__} {leaf!r:.40} stands where a tensor should"
            raise CompileError("", what, "torch.tensor(n), for a number that steps count")
        check_tensor(leaf)
    return tensors


def _device(xs: Sequence[torch.Tensor], states: Sequence[torch.Tensor]) -> torch.device:
    device = single_device([*xs, *states])
    if device is not None:
        return device
    names = [f"{n} {i}" for n, group in (("xs", xs), ("state", states)) for i in range(len(group))]
    return common_device(names, [*xs, *states])


def _row_types(xs: Sequence[torch.Tensor]) -> list[_Type]:
    """Of one row of each; all have as many."""
    if not xs:
        raise CompileError("", "xs holds no tensor, so the number of steps is not known")
    for x in xs:
        if x.dim() == 0 or x.shape[0] != xs[0].shape[0]:
            shapes = ", ".join(str(list(x.shape)) for x in xs)
            raise CompileError("", f"xs have shapes {shapes}: the first sizes must be one T")
    return [(x.shape[1:], x.dtype) for x in xs]


def _batches(row_types: Iterable[_Type]) -> frozenset[int]:
    """The first sizes of rows that have more axes: of how many sequences they are."""
    return frozenset(shape[0] for shape, _ in row_types if len(shape) > 1)


@lru_cache(maxsize=1024)
def _stand_ins(
    types: tuple[_Type, ...], batches: frozenset[int], device: torch.device
) -> Sequence[torch.Tensor]:
    """A tensor of each type; all differ, and the same call gets the same ones.

    The batch's size is left open, where one axis has it: the last one, behind others, has units.
    """
    seen, tensors = Counter[_Type](), list[torch.Tensor]()
    for kind in types:
        shape = kind[0][:-1] or kind[0]
        axes = [axis for axis, size in enumerate(shape) if size in batches]
        axis = axes[0] if len(axes) == 1 else None
        tensors.append(_stand_in(*kind, device, seen[kind], axis))
        seen[kind] += 1
    return tensors


@lru_cache(maxsize=1024)
def _stand_in(
    shape: torch.Size,
    dtype: torch.dtype,
    device: torch.device,
    number: int,
    batch_axis: int | None,
) -> torch.Tensor:
    tensor = torch.empty(shape, dtype=dtype, device=device)
    if batch_axis is not None:
        torch._dynamo.maybe_mark_dynamic(tensor, batch_axis)
    return tensor
