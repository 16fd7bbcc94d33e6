# pyright: basic, reportMissingImports=false
"""Tensors and numbers that a module puts into attributes, dicts and lists while it is exported.

A graph does not show them, and calls of compiled code leave nothing there. Where the next call of
the module would read what this one left, compiled code would compute something else.
"""

from __future__ import annotations

import math
import random
import sys
import warnings
from collections import deque
from collections.abc import Generator, Mapping, Sequence, Set
from contextlib import contextmanager
from operator import is_
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.export import ExportedProgram
from torch.func import functional_call
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from rnncc.errors import CompileError
from rnncc.frontends.torch.checks import expected
from rnncc.frontends.torch.fake_costs import remembering_shapes
from rnncc.frontends.torch.graphs import forget_tensors_of
from rnncc.frontends.torch.numbers import counters
from rnncc.frontends.torch.own_operators.recurrent_op import kept_whole
from rnncc.frontends.torch.watching.reading import asking_frame
from rnncc.records import record
from rnncc.torch.objects.caches import Caches, is_made_up
from rnncc.torch.objects.kept import Snapshot, StatePlace, at_end_of, tensors_of
from rnncc.torch.objects.known_values import knowing_values


@contextmanager
def refusing_state(
    module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Generator[list[bool]]:
    """While it lasts, `module` is exported; what it leaves elsewhere is taken away at the end.

    Returns:
        Gets whether the program has graphs within (`has_graphs_within`).
    Raises:
        CompileError: a call of the module reads what an earlier one put somewhere.
    """
    before, places, nested = Snapshot(module), list[StatePlace](), list[bool]()
    drawn, caches = _random_states(), Caches(module)

    def look() -> None:
        with torch._C.DisableTorchFunction():
            places.extend(_assigned(module, before))
            caches.clear()

    try:
        with at_end_of(module, look):
            yield nested
    finally:
        _put_back(before, places)
        caches.clear()
    if _random_states() != drawn:
        what = "random numbers of Python and NumPy would be the same at each call"
        raise CompileError(type(module).__name__, what, "torch.rand, or take them as an argument")
    if places or not any(nested):
        try:
            _judge(module, args, kwargs, before, sorted({str(place) for place in places}))
        finally:
            caches.clear()


def has_graphs_within(program: ExportedProgram) -> bool:
    """Whether it has operators that PyTorch compiles where they are called, such as `cond`."""
    return any(node.op == "get_attr" for node in program.graph.nodes)


def _random_states() -> tuple[Any, ...]:
    """Of the generators that all share."""
    name, keys, *rest = np.random.get_state()
    return random.getstate(), name, bytes(np.asarray(keys)), rest


def _judge(
    module: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    before: Snapshot,
    places: Sequence[str],
) -> None:
    """Refuse a module whose second call would compute with what a first one left, and tell of
    others that what they leave is not left by compiled code."""
    name, calls = type(module).__name__, _call_twice(module, args, kwargs, before, places)
    if calls.changes_arguments:
        what = "it changes a list or dict among its arguments, which compiled code leaves as it is"
        raise CompileError(name, what, "change a copy, and return it")
    names = ", ".join(calls.places)
    if names if calls.failed else calls.carries:
        with_what = names or "what it keeps somewhere (an iterator, a class, a variable)"
        what = f"the next call may compute with {with_what}, which compiled code does not keep"
        raise CompileError(name, what, "register_buffer, or take it as an argument and return it")
    if names:
        warnings.warn(f"{name}: compiled code leaves {names} as it was", stacklevel=9)


@record
class _TwoCalls:
    """What two calls of a module in a row have shown.

    Attributes:
        changes_arguments: whether a call changes a list or dict among its arguments.
        places: those that hold what a call has computed.
        carries: whether the second call computes with what the first one left, or other things.
        failed: whether a call could not end: the rest is then what was seen until there.
    """

    changes_arguments: bool
    places: Sequence[str]
    carries: bool
    failed: bool


def _call_twice(
    module: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    before: Snapshot,
    places: Sequence[str],
) -> _TwoCalls:
    """Call a module twice with stand-ins for all tensors, and leave it as it was."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)

    def fake(x: Any) -> Any:
        return mode.from_tensor(x) if isinstance(x, torch.Tensor) else x

    held = {key: fake(x) for key, x in [*module.named_parameters(), *module.named_buffers()]}
    positional, keywords = pytree.tree_map(fake, (tuple(args), dict(kwargs)))
    arguments, structure = pytree.tree_flatten((positional, keywords))
    follower = _Follower([*held.values(), *arguments])
    failed = changed = False
    drawing = torch.random.fork_rng(devices=[])
    with (
        mode,
        follower,
        _AsExported(),
        knowing_values(),
        kept_whole(),
        remembering_shapes,
        torch.no_grad(),
        drawing,
        _as_they_lie(module),
    ):
        try:
            follower.end(functional_call(module, dict(held), positional, keywords))
            after = pytree.tree_flatten((positional, keywords))
            changed = after[1] != structure or not all(map(is_, after[0], arguments))
            left = (place for place in before.assigned() if not _is_weights_again(place))
            computed = {str(place) for place in left if follower.knows(place.value)}
            places = [place for place in places if place in computed]
            follower.begin_second()
            follower.end(functional_call(module, dict(held), positional, keywords))
        except Exception:  # a part that PyTorch exports in another way, such as a loop of `scan`
            failed = True
        finally:
            _put_back(before, _assigned(module, before))
            forget_tensors_of(mode)
    carries = not failed and (follower.carries or follower.differs)
    return _TwoCalls(changed, places, carries, failed)


@contextmanager
def _as_they_lie(module: torch.nn.Module) -> Generator[None]:
    """Meanwhile recurrent layers leave their weights where they are: once these are on a GPU, the
    first call moves them to where cuDNN wants them, and the second does not."""
    name, layers = "flatten_parameters", list[dict[str, Any]]()
    for layer in module.modules():
        if isinstance(layer, torch.nn.RNNBase) and name not in layer.__dict__:
            layers.append(layer.__dict__)
            layer.__dict__[name] = lambda: None
    try:
        yield
    finally:
        for layer in layers:
            del layer[name]


def _assigned(module: torch.nn.Module, before: Snapshot) -> list[StatePlace]:
    """Places of other tensors than the module's parameters and buffers, as they are now."""
    own = {id(x) for x in (*module.parameters(), *module.buffers())}
    places = before.assigned()
    tensors_by_place = ((place, tensors_of(place.value)) for place in places)
    return [place for place, xs in tensors_by_place if not xs or any(id(x) not in own for x in xs)]


def _is_weights_again(place: StatePlace) -> bool:
    """Where recurrent layers list their weights, anew at each call if these are computed."""
    return isinstance(place.owner, torch.nn.RNNBase) and place.key == "_flat_weights"


def _put_back(before: Snapshot, places: Sequence[StatePlace]) -> None:
    before.restore()
    for place in {(id(p.owner), p.key): p for p in places}.values():
        _remove(place)


def _remove(place: StatePlace) -> None:
    """Take away what only an export has put there."""
    owner, key = place.owner, place.key
    if isinstance(owner, (list, deque)):
        kept = [x for x in owner if not is_made_up(x)]
        owner.clear()
        owner.extend(kept)
    elif isinstance(owner, dict):
        if is_made_up(owner.get(key)):
            del owner[key]
    elif is_made_up(getattr(owner, key, None)):
        delattr(owner, key)


class _AsExported(TorchFunctionMode):
    """Lets code that raises an error for some values, and decides nothing else, go on, and numbers
    in tensors be indices, as where it is exported."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function of PyTorch."""
        name = getattr(func, "__name__", "")
        if name == "__bool__" and isinstance(args[0], FakeTensor):
            answer = expected(asking_frame(sys._getframe(1)))
            if answer is not None:
                return answer
        elif name == "__getitem__" and counters.has_counter(args[1]):
            func = counters.taken
        elif name == "__setitem__" and counters.can_put(args[1]):
            func = counters.put
        return func(*args, **(kwargs or {}))


@record
class _Operation:
    """An operator that was called.

    Attributes:
        what: which, and with which numbers.
        read: the tensors that it took, by id.
        made: those that it gave.
        changes: whether it changes one.
    """

    what: Any
    read: Set[int]
    made: Set[int]
    changes: bool


class _Follower(TorchDispatchMode):
    """Follows what is computed of some tensors, and of random numbers.

    Attributes:
        carries: whether the second part has read what the first one computed of them.
    """

    supports_higher_order_operators = True

    def __init__(self, tensors: Sequence[Any]) -> None:
        super().__init__()
        self.carries = False
        self._given = tensors
        self._known, self._earlier = {id(x): x for x in tensors}, dict[int, Any]()
        self._calls, self._needed = list[_Operation](), list[list[Any]]()

    @property
    def differs(self) -> bool:
        """Whether the second part calls other operators of them for its results than the first, or
        with other numbers."""
        first, second = self._needed
        return first != second

    def end(self, results: Any) -> None:
        """A part ends with results; what others it has computed, and changed nothing with, was not
        needed: such as weights that are made anew to see whether they are still the same."""
        live, needed = set(map(id, pytree.tree_leaves(results))), list[Any]()
        for call in reversed(self._calls):
            if call.changes or live & call.made:
                live |= call.read
                needed.append(call.what)
        self._needed.append(needed)

    def begin_second(self) -> None:
        """The second part begins."""
        self._earlier, self._calls = self._known, []
        self._known = {id(x): x for x in self._given}
        for number in self._known:
            self._earlier.pop(number, None)

    def knows(self, value: Any) -> bool:
        """Whether a nest holds what was computed of them, or what is no tensor."""
        held = tensors_of(value)
        return not held or any(id(x) in self._known for x in held)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call an operator."""
        leaves = pytree.tree_leaves((args, kwargs or {}))
        read = {id(x) for x in leaves if isinstance(x, torch.Tensor)}
        result = func(*args, **(kwargs or {}))
        self.carries |= any(number in self._earlier for number in read)
        results = tensors_of(result)
        draws = torch.Tag.nondeterministic_seeded in getattr(func, "tags", ())
        if results and (draws or any(number in self._known for number in read)):
            what = func, [x for x in map(_number, leaves) if x is not None]
            schema = getattr(func, "_schema", None)  # operators with bodies have none
            changes = schema is None or schema.is_mutable
            self._calls.append(_Operation(what, read, {id(x) for x in results}, changes))
            self._known |= {id(x): x for x in results}
        return result


def _number(leaf: Any) -> Any:
    """A number of Python's, or one that a tensor was made of."""
    constant = getattr(leaf, "constant", None)
    if isinstance(constant, torch.Tensor) and constant.numel() == 1:
        leaf = constant.item()
    if isinstance(leaf, float) and math.isnan(leaf):
        return math.nan  # lists are equal if they hold the same NaN
    return leaf if isinstance(leaf, int | float) else None
