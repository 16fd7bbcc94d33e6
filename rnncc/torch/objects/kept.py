# pyright: basic, reportMissingImports=false
"""Tensors that a cell keeps in objects of its own from one step to the next.

A snapshot before a step and one after it tell where they are: attributes and buffers of modules,
entries of dicts, lists and deques, attributes of other objects, wherever the cell's code leads.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from rnncc.errors import CompileError
from rnncc.frontends.torch.unrolled.functional import unwrapped
from rnncc.records import record
from rnncc.torch.objects.places import NOTHING, is_alike, package_of, value_at
from rnncc.torch.objects.trees import leaves

_LEADS_NOWHERE = (
    *(str, bytes, int, float, complex, type(None), torch.Tensor),
    *(type, ModuleType, BuiltinFunctionType),
)
_NOTHING = NOTHING, 0
_LISTS = (list, deque)
_HOLDERS = (dict, *_LISTS)
_WINDOW = 8
"""Entries of a list of which steps may drop one for each that they append."""
_OWN = ("_parameters", "_buffers", "_modules")
"""Attributes of modules that stand for others."""


@record(eq=False)
class StatePlace:
    """An attribute of an object, or an entry of a dict or list.

    Attributes:
        in_place: whether a step changes the tensor that is there.
        silent: whether PyTorch does so without counting it as a change, as batch norm does.
        is_number: whether there is a number of Python's, which the loop carries as a tensor.
    """

    owner: Any
    key: Any
    in_place: bool = False
    silent: bool = False
    is_number: bool = False

    @property
    def value(self) -> Any:
        """What is there."""
        return get(self.owner, self.key)

    def __str__(self) -> str:
        if isinstance(self.owner, _HOLDERS):
            return f"[{self.key!r}]"
        return f"{type(self.owner).__name__}.{self.key}"


def get(owner: Any, key: Any) -> Any:
    """What is at a place; TorchDynamo reads this too."""
    if isinstance(owner, _HOLDERS):
        return owner[key]
    return getattr(owner, key)


def put(owner: Any, key: Any, value: Any) -> None:
    """Put something at a place; TorchDynamo reads this too."""
    if isinstance(owner, _HOLDERS):
        owner[key] = value
    else:
        setattr(owner, key, value)


class Snapshot:
    """What all objects that a cell leads to hold at a moment."""

    def __init__(self, cell: Callable[..., Any]) -> None:
        self._held = {id(owner): (owner, _entries(owner)) for owner in _owners(cell)}

    def changed(self) -> list[StatePlace]:
        """Where tensors are that were put there, or have been changed in place, since then.

        Raises:
            CompileError: a list has grown, a parameter was changed, or a tensor that is in several
                places was changed in place.
        """
        places = list[StatePlace]()
        for place, is_new in self._differing():
            _check(place.owner, place.key, place.value, is_new)
            places.append(place)
        _check_shared(places)
        return places

    def most_filling(self) -> int:
        """How many steps may fill the lists and deques that have more tensors than then: windows
        that are not full yet. 0 where there are none."""
        if not any(isinstance(owner, _LISTS) for owner, _ in self._held.values()):
            return 0
        grown = [place.owner for place, is_new in self._differing() if is_new]
        lengths = (getattr(x, "maxlen", None) or _WINDOW for x in grown if isinstance(x, _LISTS))
        return min(lengths, default=0)

    def assigned(self) -> list[StatePlace]:
        """Where tensors are that were put there since then, parameters and buffers aside; and where
        there are other numbers."""
        tensors = [place for place, _ in self._differing() if not place.in_place]
        return [place for place in [*tensors, *self.numbers()] if not _is_registered(place)]

    def tensors(self) -> list[torch.Tensor]:
        """All that there were, but for parameters."""
        values = (value for _, before in self._held.values() for value, _ in before.values())
        tensors = {id(x): x for value in values for x in tensors_of(value)}
        return [x for x in tensors.values() if not isinstance(x, torch.nn.Parameter)]

    def numbers(self) -> list[StatePlace]:
        """Where other numbers are than then."""
        places = list[StatePlace]()
        for owner, before in self._held.values():
            entries = _entries(owner).items()
            numbers = {key: value for key, (value, _) in entries if isinstance(value, int | float)}
            changed = [key for key, value in numbers.items() if before.get(key) != (value, 0)]
            places += [StatePlace(owner, key, is_number=True) for key in changed]
        return places

    def take_back(self, carried: Collection[StatePlace] = ()) -> list[StatePlace]:
        """Put back the numbers that have been replaced since then; gives where.

        Args:
            carried: places whose values a loop carried then, so that nothing was there.
        """
        known = {(id(place.owner), place.key) for place in carried}
        places = [p for p in self.numbers() if (id(p.owner), p.key) not in known]
        for place in places:
            old, _ = self._held[id(place.owner)][1].get(place.key, _NOTHING)
            if old is not NOTHING:
                put(place.owner, place.key, old)
            elif not isinstance(place.owner, _HOLDERS):
                delattr(place.owner, place.key)
        return places

    def _differing(self) -> Iterator[tuple[StatePlace, bool]]:
        """Where there are other tensors, or changed ones, and whether nothing was there before.

        In a deque where one entry is another, those that are the same may have come from next to
        them.
        """
        for owner, before in self._held.values():
            entries = _entries(owner)
            pairs = ((value, before.get(key, _NOTHING)[0]) for key, (value, _) in entries.items())
            moved = isinstance(owner, deque) and any(new is not old for new, old in pairs)
            for key, (value, version) in entries.items():
                old, old_version = before.get(key, (None, 0))
                in_place = value is old and version != old_version
                if (in_place or value is not old or moved) and tensors_of(value):
                    yield StatePlace(owner, key, in_place), key not in before

    def places_of(self, tensors: Iterable[torch.Tensor]) -> list[StatePlace]:
        """Where tensors are that are changed in place, though no version of theirs tells."""
        ids = {id(tensor) for tensor in tensors}
        places = list[StatePlace]()
        for owner, _ in self._held.values():
            for key, (value, _) in _entries(owner).items():
                if id(value) in ids:
                    _check(owner, key, value, is_new=False)
                    places.append(StatePlace(owner, key, in_place=True, silent=True))
        _check_shared(places)
        return places

    def restore(self) -> None:
        """Put back what was replaced."""
        for owner, before in self._held.values():
            if isinstance(owner, _LISTS) and len(owner) != len(before):
                owner.clear()
                owner.extend(value for value, _ in before.values())
                continue
            now = _entries(owner)
            for key, (value, _) in before.items():
                if key not in now or now[key][0] is not value:
                    if isinstance(owner, torch.nn.Module) and key in owner._parameters:
                        delattr(owner, key)  # or it could be nothing else
                    put(owner, key, value)


@contextmanager
def at_end_of(module: torch.nn.Module, look: Callable[[], object]) -> Generator[None]:
    """While it lasts, look after each call of the module."""
    hook = module.register_forward_hook(lambda *_: look() and None)
    try:
        yield
    finally:
        hook.remove()


class Holdings:
    """What all objects and functions hold that something leads to, to the last number."""

    def __init__(self, x: Any) -> None:
        with torch._C.DisableTorchFunction():
            self._held = [(owner, _held_by(owner)) for owner in _reached(x)]

    def changed(self) -> StatePlace | None:
        """A place where there is something else now, if there is one."""
        with torch._C.DisableTorchFunction():
            return next((place for place, _, _ in self._changes()), None)

    def places(self) -> list[StatePlace]:
        """All of them."""
        with torch._C.DisableTorchFunction():
            return [place for place, _, _ in self._changes()]

    def take_back(self) -> list[tuple[StatePlace, int | float]]:
        """Put back numbers that others have replaced; gives where, and the others."""
        with torch._C.DisableTorchFunction():
            taken = [x for x in self._changes() if _is_number(*x)]
        for place, old, _ in taken:
            put(place.owner, place.key, old)
        return [(place, new) for place, _, new in taken]

    def _changes(self) -> Iterator[tuple[StatePlace, Any, Any]]:
        """Places where there is something else now, with what was there and what is."""
        for owner, before in self._held:
            now = _held_by(owner)
            for key in (*before, *(key for key in now if key not in before)):
                if isinstance(owner, torch.nn.RNNBase) and str(key).startswith("_flat_weight"):
                    continue  # which they list anew
                pair = before.get(key, _NOTHING), now.get(key, _NOTHING)
                if not _is_same(*pair):
                    yield StatePlace(owner, key), pair[0][0], pair[1][0]


def _is_number(place: StatePlace, old: Any, new: Any) -> bool:
    numbers = all(isinstance(x, int | float) for x in (old, new))
    return numbers and not isinstance(place.owner, FunctionType)


def _held_by(x: Any) -> dict[Any, tuple[Any, int]]:
    """The same of functions: the variables that they close over, but for changes in place."""
    if not isinstance(x, FunctionType):
        return _entries(x) if _is_owner(x) else {}
    return {name: (value_at(x, n), 0) for n, name in enumerate(x.__code__.co_freevars)}


def _is_same(one: tuple[Any, int], other: tuple[Any, int]) -> bool:
    (x, version), (y, version_of_other) = one, other
    return version == version_of_other and is_alike(x, y)


def together(known: Iterable[StatePlace], more: Iterable[StatePlace]) -> list[StatePlace]:
    """The places of both."""
    by_place = {(id(place.owner), place.key): place for place in known}
    for place in more:
        old = by_place.get((id(place.owner), place.key), place)
        flags = place.in_place and old.in_place, place.silent and old.silent, place.is_number
        by_place[id(place.owner), place.key] = StatePlace(place.owner, place.key, *flags)
    return list(by_place.values())


def tensors_of(value: Any) -> list[torch.Tensor]:
    """The tensors in a nest of tuples, lists and dicts."""
    return [x for x in leaves(value) if isinstance(x, torch.Tensor)]


def _is_registered(place: StatePlace) -> bool:
    owner = place.owner
    held = isinstance(owner, torch.nn.Module)
    return held and (place.key in owner._parameters or place.key in owner._buffers)


def _check(owner: Any, key: Any, value: Any, is_new: bool) -> None:
    if isinstance(owner, _LISTS) and is_new:
        what = "a step appends tensors to a list that it keeps"
        raise CompileError("", what, "return them as part of y")
    if isinstance(value, torch.nn.Parameter):
        raise CompileError("", f"a step changes the parameter {key}", "keep a buffer instead")


def _check_shared(places: Iterable[StatePlace]) -> None:
    """Refuse a change in place that other places would see."""
    tensors = [(place, x) for place in places for x in tensors_of(place.value)]
    storages = [(place, unwrapped(x).untyped_storage()) for place, x in tensors]
    count = Counter(memory._cdata for _, memory in storages)
    for place, memory in storages:
        if place.in_place and count[memory._cdata] > 1:
            what = f"{place} is changed in place, and its memory is kept elsewhere too"
            raise CompileError("", what)


def _owners(cell: Any) -> Iterator[Any]:
    """The objects, dicts and lists that a cell leads to."""
    functions = FunctionType, MethodType, partial
    return (x for x in _reached(cell) if not isinstance(x, functions) and _is_owner(x))


def _reached(cell: Any) -> Iterator[Any]:
    """All that a cell leads to, functions too."""
    seen, waiting = dict[int, Any](), [cell]
    while waiting:
        x = waiting.pop()
        if id(x) in seen or isinstance(x, _LEADS_NOWHERE) or _is_compiled(x):
            continue
        seen[id(x)] = x
        yield x
        waiting += what_is_within(x)


def _is_compiled(x: Any) -> bool:
    """Whether it is of this compiler's own: what code holds is no state of a cell's."""
    return _is_ours(type(x)) and not isinstance(x, torch.nn.Module)


def _is_ours(x: Any) -> bool:
    return package_of(x) in ("rnncc", "rnncc_runtime")


def _is_owner(x: Any) -> bool:
    return isinstance(x, _HOLDERS) or _dict_of(x) is not None


def _dict_of(x: Any) -> Mapping[str, Any] | None:
    """Its attributes; some classes answer this name, too, with something else."""
    own = getattr(x, "__dict__", None)
    return own if isinstance(own, Mapping) else None


def what_is_within(x: Any) -> Iterable[Any]:
    """What one leads to."""
    if isinstance(x, FunctionType):
        return () if package_of(x) == "torch" else _of_function(x)
    if isinstance(x, MethodType):
        return x.__self__, x.__func__
    if isinstance(x, partial):
        return x.func, *x.args, *x.keywords.values()
    if isinstance(x, dict):
        return x.values()
    if isinstance(x, (list, tuple, set, frozenset, deque)):
        return x
    return _attributes(x).values()


def _of_function(function: Any) -> list[Any]:
    """What a function closes over, its defaults, and the globals that it names."""
    values = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    for cell in function.__closure__ or ():
        try:
            values.append(cell.cell_contents)
        except ValueError:  # not there yet
            continue
    names = () if _is_ours(function) else names_of(function.__code__)
    return [*values, *(function.__globals__[n] for n in names if n in function.__globals__)]


def names_of(code: Any) -> set[str]:
    """The names that code loads and stores, and code within it."""
    inner = (const for const in code.co_consts if hasattr(const, "co_names"))
    return set(code.co_names).union(*map(names_of, inner))


def _attributes(x: Any) -> dict[str, Any]:
    attributes = dict(_dict_of(x) or {})
    if isinstance(x, torch.nn.Module):
        for name in _OWN:
            attributes |= attributes.pop(name, {})
    return attributes


def _entries(owner: Any) -> dict[Any, tuple[Any, int]]:
    """What an owner holds by key, with the version of tensors."""
    if isinstance(owner, _LISTS):
        items: Any = enumerate(owner)
    else:
        items = (owner if isinstance(owner, dict) else _attributes(owner)).items()
    return {key: (value, version_of(value)) for key, value in items}


def version_of(value: Any) -> int:
    """How often a tensor was changed in place; 0 for what is none, or has no count."""
    is_tensor = isinstance(value, torch.Tensor) and not value.is_inference()
    return value._version if is_tensor else 0
