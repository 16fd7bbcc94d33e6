# pyright: basic, reportMissingImports=false
"""What code that TorchDynamo reads can reach at a moment."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import torch
from torch._dynamo.bytecode_analysis import livevars_analysis
from torch._dynamo.variables.base import (
    AttributeMutationNew,
    ValueMutationNew,
    VariableTracker,
)
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.dicts import ConstDictVariable
from torch._dynamo.variables.functions import LocalGeneratorObjectVariable
from torch._dynamo.variables.lists import DequeVariable, ListVariable, TupleVariable
from torch._dynamo.variables.misc import RandomVariable
from torch._dynamo.variables.tensor import SymNodeVariable, TensorVariable
from torch.fx import Node

from rnncc.frontends.torch.repeating.traps import Growing, Withheld

_ASIDE = frozenset({
    "source", "mutation_type", "proxy", "user_code_variable_name", "parents_tracker",
    "nn_module_stack_source", "source_location", "_looked_up_attrs", "_subobj_from_class",
})  # fmt: skip
"""Fields of variables that say nothing of their values."""


_LEAVES = TensorVariable, ConstantVariable, SymNodeVariable, Withheld
CONTAINERS = ListVariable, TupleVariable, ConstDictVariable
_HIDDEN = LocalGeneratorObjectVariable, RandomVariable
"""What changes where variables do not show it."""


class Differs(Exception):
    """Something is not as it was before."""


@dataclass(eq=False)
class Sight:
    """A variable as it is at a moment.

    Attributes:
        variable: TorchDynamo's.
        like: what is the same in values that code cannot tell apart, but for `parts`.
        parts: the variables within it, by their places.
        node: a tensor's.
    """

    variable: Any
    like: Any
    parts: dict[Any, Sight] = field(default_factory=dict)
    node: Node | None = None

    @property
    def is_number(self) -> bool:
        return type(self.variable) is ConstantVariable


class Picture:
    """All values that a frame, those that call it, and side effects hold.

    Attributes:
        roots: by what holds them. Names that the frame no longer reads are not among them.
    """

    def __init__(self, tx: Any, live: frozenset[str]) -> None:
        self._values: dict[int, Sight] = {}
        self._effects: dict[Any, dict[str, Any]] = tx.output.side_effects.store_attr_mutations
        self.roots: dict[Any, Sight] = {}
        for name, variable in tx.symbolic_locals.items():
            if name in live:
                self.roots["local", name] = self.of(variable)
        for place, variable in enumerate(tx.stack[:-1]):
            self.roots["stack", place] = self.of(variable)
        for variable in _held(tx):
            self.roots["held", id(variable)] = self.of(variable)

    def has(self, variable: Any) -> bool:
        """Whether code could reach a variable."""
        return id(variable.unwrap()) in self._values

    def can_make(self, value: Sight) -> bool:
        """Whether a later value can be made again: new objects must be lists and the like."""
        if type(value.variable) in _LEAVES or self.has(value.variable):
            return True
        if not issubclass(type(value.variable), CONTAINERS):
            return False
        parts = value.parts.items()
        return all(at[0] not in ("attribute", "key") and self.can_make(part) for at, part in parts)

    def values(self) -> Iterator[Sight]:
        """All that there are."""
        return iter(self._values.values())

    def tensors(self) -> Iterator[Sight]:
        """Those that are tensors."""
        return (value for value in self.values() if type(value.variable) is TensorVariable)

    def of(self, variable: Any) -> Sight:
        """The value of a variable."""
        variable = variable.unwrap()
        if (known := self._values.get(id(variable))) is not None:
            return known
        kind = type(variable)
        value = self._values[id(variable)] = Sight(variable, kind)
        if kind is Withheld:
            return value
        if kind is TensorVariable:
            value.node = variable.proxy.node
            value.like = kind, *_type_of(variable)
        elif kind is ConstantVariable:
            value.like = kind, type(variable.value), variable.value
        elif kind is SymNodeVariable:
            value.like = kind, *plain(variable.sym_num)
            value.node = variable.proxy.node
        elif kind in _HIDDEN:
            value.like = object()
        else:
            value.like = kind, *self._fields(value)
        for name, held in self._effects.get(variable, {}).items():
            value.parts["attribute", name] = self.of(held)
        return value

    def _fields(self, value: Sight) -> Iterator[Any]:
        """A variable's fields: other variables become its parts."""
        for name, held in value.variable.__dict__.items():
            if name in _ASIDE or (name == "state" and type(value.variable) is DequeVariable):
                continue  # the latter counts changes
            yield name, type(held)
            if isinstance(held, dict):
                for key in held:  # which may be tensors or symbols
                    if type(own := getattr(key, "vt", None)) in (TensorVariable, SymNodeVariable):
                        value.parts["key", id(own)] = self.of(own)
            for key, entry in _entries(name, held):
                if _is_variable(entry):
                    value.parts[name, key] = self.of(entry)
                elif name != "value" or value.variable.source is not None:
                    yield name, key, plain(entry)  # what code has made has no value yet


def _entries(name: str, held: Any) -> Iterable[tuple[Any, Any]]:
    """What a field holds, by its places."""
    if isinstance(held, list | tuple):
        return enumerate(list.__iter__(held) if isinstance(held, list) else held)
    if isinstance(held, dict):
        return held.items()
    if name == "_cache":  # what is not yet read may be made of variables
        return vars(held).items()
    return [(None, held)]


def live_names(tx: Any, step: Any) -> frozenset[str]:
    """The names of a frame's variables that code may read from an instruction on."""
    cells = {*tx.f_code.co_cellvars, *tx.f_code.co_freevars}
    return frozenset(livevars_analysis(tx.instructions, step) | cells)


def frames(tx: Any) -> Iterator[Any]:
    """A frame and those that call it."""
    while tx is not None:
        yield tx
        tx = getattr(tx, "parent", None)


def _held(tx: Any) -> Iterator[Any]:
    """What other frames and side effects hold.

    But for tensors, as a loop cannot put others there, and for objects that code has made, which it
    reaches by way of others.
    """
    effects = tx.output.side_effects
    for variable in chain(effects.store_attr_mutations, effects.id_to_variable.values()):
        if not isinstance(variable.mutation_type, AttributeMutationNew | ValueMutationNew):
            yield variable
    for frame in frames(tx):
        own = () if frame is tx else chain(frame.symbolic_locals.values(), frame.stack)
        for variable in chain(own, frame.symbolic_globals.values()):
            if _is_variable(variable) and type(variable.unwrap()) is not TensorVariable:
                yield variable


def _is_variable(held: Any) -> bool:
    return issubclass(type(held), VariableTracker)  # `isinstance` would read what is not yet read


def _type_of(tensor: Any) -> Iterator[Any]:
    for name in ("dtype", "device", "layout", "requires_grad", "class_type", "has_grad_fn"):
        yield getattr(tensor, name, None)
    fake = tensor.proxy.node.meta["example_value"]
    yield tuple(map(plain, fake.shape))
    yield tuple(map(plain, fake.stride())) if fake.layout is torch.strided else None


def plain(held: Any) -> Any:
    """What can be compared without that PyTorch notes a decision."""
    if isinstance(held, torch.SymInt | torch.SymFloat | torch.SymBool):
        return type(held), held.node.expr
    if isinstance(held, int | float | str | torch.dtype | torch.device | type | None):
        return type(held), held
    if type(held).__name__ == "SideEffectsProxyDict":  # by which code sees side effects
        return type(held)
    return id(held)


@dataclass
class Change:
    """How values at a later moment are to those at an earlier one.

    Attributes:
        nodes: the tensors' nodes by those before.
        grown: lists that have only grown.
        numbers: numbers that are not what they were: what holds each, where, and both.
        counters: the nodes of symbols that stand for numbers before the step.
        counted: what those are after it, in symbols.
    """

    nodes: dict[Node, Node] = field(default_factory=dict)
    grown: list[Any] = field(default_factory=list)
    numbers: list[tuple[Sight | None, Any, Sight, Sight]] = field(default_factory=list)
    counters: Collection[Node] = ()
    counted: dict[Node, Any] = field(default_factory=dict)
    _pairs: dict[int, Sight] = field(default_factory=dict)
    _back: dict[Any, Any] = field(default_factory=dict)

    @staticmethod
    def between(
        before: Picture, after: Picture, counters: Collection[Node] | None = None
    ) -> Change:
        """Compare two pictures of one frame.

        Args:
            counters: the nodes of symbols that stand for numbers before. Without them, numbers may
                differ, and lists that are no `Growing` may have grown.

        Raises:
            Differs: something else is not as it was.
        """
        change, may_vary = Change(counters=counters or ()), counters is None
        own = {root for root in after.roots if root[0] != "held"}
        if own != {root for root in before.roots if root[0] != "held"}:
            raise Differs
        for root, value in before.roots.items():
            if root not in after.roots:
                raise Differs
            change._compare(value, after.roots[root], None, root, may_vary)
        return change

    def compare_last(self, old: Sight, new: Sight) -> None:
        """Compare tensors, or tuples of them, at one distance from the end of a list."""
        if not _is_fixed(old) or not _is_fixed(new):
            raise Differs
        self._compare(old, new, None, None, False)

    def _compare(self, old: Sight, new: Sight, holder: Sight | None, at: Any, vary: bool) -> None:
        if type(old.variable) is TensorVariable:
            self._compare_tensors(old, new)
        elif self._is_number(old) or old.is_number or new.is_number:
            self._compare_numbers(old, new, holder, at, vary)
        elif (known := self._pairs.get(id(old))) is not new:
            if known is not None or not _alike(old, new):
                raise Differs
            if self._back.setdefault(id(new), old) is not old:
                raise Differs
            self._pairs[id(old)] = new
            if old.parts.keys() != new.parts.keys():
                _check_grown(old, new, vary)
                self.grown.append(new.variable)
                return
            for key, part in old.parts.items():
                self._compare(part, new.parts[key], new, key, vary)

    def _compare_tensors(self, old: Sight, new: Sight) -> None:
        """Tensors of one type; where one is held twice, so is the other."""
        if old.like != new.like or old.parts or new.parts:
            raise Differs
        assert old.node is not None and new.node is not None
        if self.nodes.setdefault(old.node, new.node) is not new.node:
            raise Differs
        if self._back.setdefault(new.node, old.node) is not old.node:
            raise Differs

    def _is_number(self, old: Sight) -> bool:
        return type(old.variable) is Withheld or old.node in self.counters

    def _compare_numbers(
        self, old: Sight, new: Sight, holder: Sight | None, at: Any, vary: bool
    ) -> None:
        is_number = new.is_number or type(new.variable) is SymNodeVariable
        if old.node is not None and old.node in self.counters:
            if not is_number or new.like[1] not in (int, torch.SymInt):
                raise Differs
            self.counted[old.node] = new.like[-1]
        elif type(old.variable) is Withheld:
            if not is_number and new.variable is not old.variable:  # another, moved here unread
                raise Differs
        elif old.like != new.like:
            if not (vary and old.is_number and new.is_number):
                raise Differs
            self.numbers.append((holder, at, old, new))


def _is_fixed(value: Sight) -> bool:
    kind = type(value.variable)
    if kind is TupleVariable:
        return all(map(_is_fixed, value.parts.values()))
    return kind is TensorVariable


def _alike(old: Sight, new: Sight) -> bool:
    if old.variable is not new.variable:
        sources = old.variable.source, new.variable.source
        if sources[0] is not sources[1] and sources[0] != sources[1]:
            return False
    return old.like == new.like


def _check_grown(old: Sight, new: Sight, vary: bool) -> None:
    """Check that a list has entries more than before, and is else the same."""
    same = old.variable is new.variable and len(old.parts) < len(new.parts)
    expected = [("items", i) for i in range(len(new.parts))]
    growing = type(new.variable.__dict__.get("items")) in ((list,) if vary else (Growing,))
    if not (same and growing and list(new.parts) == expected):
        raise Differs
    if any(old.parts[key].variable is not new.parts[key].variable for key in old.parts):
        raise Differs
