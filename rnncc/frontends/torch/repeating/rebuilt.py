# pyright: basic, reportMissingImports=false
"""Variables as they are after the steps for which one was read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import copy
from typing import Any

from torch._dynamo.variables.base import ValueMutationNew
from torch._dynamo.variables.builder import wrap_fx_proxy
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.tensor import SymNodeVariable, TensorVariable
from torch.fx import Node, Proxy

from rnncc.frontends.torch.repeating.pictures import CONTAINERS, Differs, Picture, Sight
from rnncc.frontends.torch.repeating.traps import Withheld


class Rebuilder:
    """Puts the nodes of copies in the place of those that were read.

    Args:
        before, after: what code can reach around the step that was read.
        whole: lists whose entries are given otherwise.
    """

    def __init__(self, tx: Any, before: Picture, after: Picture, whole: Collection[Any]) -> None:
        self._tx, self._before, self._after, self._whole = tx, before, after, whole
        self._values: Mapping[Node, Any] = {}
        self._done: dict[int, Any] = {}
        self._is_last = False
        self._tensors = {value.node: value.variable for value in before.tensors()}

    def begin(self, values: Mapping[Node, Any], is_last: bool) -> None:
        """Go on with a copy.

        Args:
            values: its nodes, and numbers, by the nodes that were read.
            is_last: whether the variables are those after all steps.
        """
        self._values, self._done, self._is_last = values, {}, is_last

    def put(self) -> None:
        """Let the frame, and all that code can reach, hold the values of the last copy."""
        tx = self._tx
        for (where, place), value in self._after.roots.items():
            if (new := self.rebuilt(value)) is not value.variable:
                if where == "local":
                    tx.symbolic_locals[place] = new
                elif where == "stack":
                    tx.stack[place] = new

    def rebuilt(self, value: Sight) -> Any:
        """A variable with the copy's nodes; what code can change stays the same object."""
        variable = value.variable
        if id(variable) in self._done:
            return self._done[id(variable)]
        self._done[id(variable)] = variable
        new = self._done[id(variable)] = self._new(value)
        return new

    def _new(self, value: Sight) -> Any:
        variable = value.variable
        kind = type(variable)
        if kind is Withheld:
            return variable.held
        if kind is TensorVariable or kind is SymNodeVariable:
            return self._of_node(value)
        if variable in self._whole:
            return variable
        parts = {key: self.rebuilt(part) for key, part in value.parts.items()}
        changed = {key: new for key, new in parts.items() if new is not value.parts[key].variable}
        if not changed:
            return variable
        if not issubclass(kind, CONTAINERS):
            for (name, _), new in changed.items():
                if name != "attribute" and type(new) is ConstantVariable:
                    raise Differs  # it may have been made of the number, as texts are
        own = self._own(variable)
        for (name, key), part in changed.items():
            self._set(own, own is not variable, name, key, part)
        return own

    def _of_node(self, value: Sight) -> Any:
        """A tensor, or a number that was a symbol."""
        variable, node = value.variable, value.variable.proxy.node
        held = self._values.get(node, node)
        if held is node:
            return variable
        if not isinstance(held, Node):
            return ConstantVariable.create(held)
        proxy = Proxy(held, variable.proxy.tracer)
        if type(variable) is SymNodeVariable:
            return variable.clone(proxy=proxy, sym_num=held.meta["example_value"])
        if held not in self._tensors:
            fake = held.meta.pop("example_value")
            self._tensors[held] = wrap_fx_proxy(self._tx, proxy, example_value=fake)
        return self._tensors[held]

    def _own(self, variable: Any) -> Any:
        """The variable whose parts change: each step but the last has made one of its own."""
        if variable.mutation_type is None:
            return copy(variable)
        if self._is_last or self._before.has(variable):
            return variable
        own = copy(variable)
        own.mutation_type = ValueMutationNew()
        return own

    def _set(self, own: Any, is_copy: bool, name: str, key: Any, part: Any) -> None:
        if name == "attribute":
            self._tx.output.side_effects.store_attr_mutations[own][key] = part
            return
        held: Any = own.__dict__[name]
        kind = type(held)
        if key is None and not issubclass(kind, list | tuple | dict):
            setattr(own, name, part)
        elif issubclass(kind, tuple):
            setattr(own, name, kind(part if at == key else old for at, old in enumerate(held)))
        else:
            if is_copy:
                held = copy(held)
                setattr(own, name, held)
            held[key] = part
