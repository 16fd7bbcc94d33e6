# pyright: basic, reportMissingImports=false
"""The first steps of a cell done by PyTorch, and a loop over the others.

So it is where the cell keeps tensors or numbers that change in objects of its own, or makes its
state: these steps show where, and of what types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.utils import _pytree as pytree

from rnncc.errors import CompileError
from rnncc.frontends.torch.trace import KeepsTensors
from rnncc.frontends.torch.unrolled.functional import unwrapped
from rnncc.torch.all_steps import Manner, all_steps, check_same, count_of_steps
from rnncc.torch.branching.values import OF_NUMBERS
from rnncc.torch.captured import Counts
from rnncc.torch.objects.kept import Snapshot, StatePlace, put, tensors_of, together, version_of
from rnncc.torch.objects.trees import leaves, mapped, with_tensors
from rnncc.torch.tracing import code_of

MOST_APART = 2
"""Steps that PyTorch does before a loop that is to be compiled."""
MOST_FILLING = 64
"""Steps that fill windows, such as `deque(maxlen=3)`, which PyTorch does before those."""
_counting: WeakKeyDictionary[Any, set[tuple[type, Any]]] = WeakKeyDictionary()
"""The classes and keys of the numbers that cells keep."""


def first_steps_apart(
    cell: Callable[..., Any],
    xs: Any,
    state: Any,
    how: Manner,
    numbers: Sequence[StatePlace] = (),
) -> tuple[Any, Any]:
    """Let PyTorch do the first step, which shows where the cell keeps tensors and numbers that
    change, and of what types.

    It may make what is kept, or the state itself, out of None, numbers and empty tensors. Another
    step shows what the first has put where it was already. Steps that fill a list or deque come
    before those: the loop starts when it drops a row for each one that it appends.

    Args:
        numbers: where numbers are that steps change, though the first ones may not.
    """
    before, known, ys, filling = Snapshot(cell), list[StatePlace](), list[Any](), 0
    originals = _copies([state, before.tensors()])
    refusal = CompileError("", "a cell that keeps tensors, or makes its state, needs a step")
    try:
        while count_of_steps(xs) > 0 and len(ys) < filling + MOST_APART:
            last = Snapshot(cell) if ys else before
            row, xs = _parted(xs, how.reverse)
            originals += _copies(row)
            types = _types(state)
            y, state = cell(row, state)
            types_stay = types == _types(state)
            ys.append(mapped(_as_sequence, y))
            if count_of_steps(xs) == 0:
                return _joined(ys, how.reverse), state
            if len(ys) <= min(last.most_filling(), MOST_FILLING):
                filling = len(ys)
                continue
            known = together(known, last.changed())
            try:
                rest, finals = _other_steps(cell, xs, state, known, last, how, numbers)
                if types_stay and not known:
                    rest = pytree.tree_map(_typed_as, ys[-1], rest)
                return _joined([*ys, rest], how.reverse), finals
            except KeepsTensors as error:
                refusal = error
        raise refusal
    except CompileError:
        before.restore()
        _put_back(originals)
        raise


def _copies(tree: Any) -> list[tuple[torch.Tensor, int, torch.Tensor]]:
    """The tensors of a tree, which a step may change in place; their versions, and copies."""
    return [(x, version_of(x), x.clone()) for x in tensors_of(tree)]


def _put_back(originals: Iterable[tuple[torch.Tensor, int, torch.Tensor]]) -> None:
    """Let tensors be what they were, to autograd too, and write to none that is: its memory may be
    one that nobody may write to."""
    for x, version, copy in originals:
        if version_of(x) != version or (x.is_inference() and torch.is_inference_mode_enabled()):
            _write(x, copy)  # those of inference mode have no versions
        elif _may_differ(x):
            both = x.data.double(), copy.double()
            if not torch.allclose(*both, rtol=0, atol=0, equal_nan=True):
                x.data.copy_(copy)


def _may_differ(x: torch.Tensor) -> bool:
    """Whether a tensor of a version may have been another: batch norm does not count changes."""
    plain = unwrapped(x) is x and x.layout is torch.strided and not x.is_meta
    return plain and x.is_floating_point() and not (x.requires_grad or x.is_inference())


def _write(x: torch.Tensor, copy: torch.Tensor) -> None:
    """Write to each place once, though `expand` shows the same memory many times."""
    strides = x.stride() if x.layout is torch.strided else ()
    for axis, stride in enumerate(strides):
        if stride == 0 and x.shape[axis] > 1:
            x, copy = x.narrow(axis, 0, 1), copy.narrow(axis, 0, 1)
    x.copy_(copy)


def _other_steps(
    cell: Callable[..., Any],
    xs: Any,
    state: Any,
    known: Sequence[StatePlace],
    last: Snapshot,
    how: Manner,
    changing: Sequence[StatePlace],
) -> tuple[Any, Any]:
    """The steps after those that PyTorch has done; reading them may show further places.

    Args:
        known: where the last of those has put tensors.
        last: what the cell's objects held before it.
        changing: where numbers are that steps change, besides those that are known to change.
    """
    numbers = _counting.setdefault(code_of(cell), set())
    counted = [place for place in last.numbers() if (type(place.owner), place.key) in numbers]
    counted = together(counted, changing)
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


def _parted(xs: Any, reverse: bool) -> tuple[Any, Any]:
    """The row that comes first, and the other ones."""
    others = count_of_steps(xs) - 1
    first, rest, sizes = (1, 0, [others, 1]) if reverse else (0, 1, [1, others])
    parts = [x.split(sizes) for x in leaves(xs)]
    rows, left = [part[first][0] for part in parts], [part[rest] for part in parts]
    return with_tensors(xs, rows), with_tensors(xs, left)


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
        ys, finals, results = all_steps(cell, xs, state, kept, how, False, places)
    finally:
        for place, value in zip(places, values, strict=True):
            put(place.owner, place.key, value)
    for place, value, new in zip(places, values, results, strict=True):
        if place.in_place:
            (value.data if place.silent else value).copy_(new)
        elif place.is_number:
            put(place.owner, place.key, type(value)(_number_in(new, place)))
        else:
            put(place.owner, place.key, new)
    return ys, finals


def _number_in(tensor: torch.Tensor, place: StatePlace) -> Any:
    """The number that a loop gives, within transforms of torch.func, too: steps of `vmap` change
    one number of Python's for all instances."""
    first, *others = unwrapped(tensor).flatten().tolist()
    if any(other != first for other in others):
        what = f"what is kept in {place} is a number, of which each instance of vmap has another"
        raise CompileError("", what, "a tensor")
    return first


def _carried(place: StatePlace, value: Any, device: torch.device) -> Any:
    """What a loop carries of what a cell keeps at a place."""
    if place.is_number:
        dtype = next(dtype for kind, dtype in OF_NUMBERS.items() if isinstance(value, kind))
        if dtype == torch.int64 and not -(2**63) <= value < 2**63:
            what = f"what is kept in {place} is an integer beyond 64 bits, which steps change"
            raise CompileError("", what, "a float")
        return torch.full((), value, dtype=dtype, device=device)
    return pytree.tree_map(torch.clone, value) if place.in_place else value


def _types(state: Any) -> list[torch.dtype]:
    return [x.dtype for x in tensors_of(state)]


def _typed_as(first: Any, rest: Any) -> Any:
    """Rows of the type that PyTorch gives them: integers by a float of Python's are float32, but
    by a tensor that stands for it they are float64."""
    return rest if rest is None or rest.dtype == first.dtype else rest.to(first.dtype)


def _joined(ys: Sequence[Any], reverse: bool) -> Any:
    """The ys of the first steps and of the others, one after another."""
    for other in ys[1:]:
        check_same("y", ys[0], other)

    def join(*parts: Any) -> Any:
        return None if parts[0] is None else torch.cat(parts[::-1] if reverse else parts)

    return pytree.tree_map(join, *ys)  # one alone too: steps may change it in place later


def _as_sequence(y: Any) -> Any:
    return None if y is None else y.unsqueeze(0)
