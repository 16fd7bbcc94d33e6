# pyright: basic, reportMissingImports=false
"""A method of TorchScript, all that it calls within it, written as a function of Python."""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Callable, Generator, Mapping, Sequence
from keyword import iskeyword
from typing import Any

import torch

from rnncc.errors import CompileError, Location
from rnncc.frontends.torch.scripted import operators
from rnncc.frontends.torch.scripted.calls import write_operator
from rnncc.frontends.torch.scripted.text import Text

_FOREVER = 2**63 - 1
"""The trip count of a `while`."""
_TORCH = str(torch.__path__[0])
_PLACE = re.compile(r'File "([^"]+)", line (\d+)')


class WrittenFunction(Text):
    """A function, and what it is of.

    Attributes:
        attributes: what it reads and writes that is no module: paths of modules, and names.
    """

    def __init__(self, owner: Any, method: Any) -> None:
        """Write `method` of the module `owner`, as C++ has both.

        Raises:
            CompileError: it does what has no Python code here.
        """
        super().__init__(method.name)
        self.attributes = set[tuple[tuple[str, ...], str]]()
        graph, parameters = method.graph.copy(), method.schema.arguments
        torch._C._jit_pass_inline(graph)
        torch._C._jit_pass_dce(graph)
        this, *values = graph.inputs()
        self._modules: dict[str, tuple[Any, tuple[str, ...]]] = {this.debugName(): (owner, ())}
        """Values that are modules: they, and their paths."""
        for value, parameter in zip((this, *values), parameters, strict=True):
            self.take(value, parameter.name)
        if (place := next(_places(graph), None)) is not None:
            self.file, self.line = place
        self.put(f"def {self.name}({', '.join(p.name for p in parameters)}):")
        self.depth += 1
        self._nodes(graph)
        self.put(f"return {', '.join(self.read(value) for value in graph.outputs())}")

    def _nodes(self, block: Any) -> None:
        for node in block.nodes():
            place = _place_of(node)
            if place is not None and place[0] == self.file:
                self.line = place[1]
            self._node(node)

    def _node(self, node: Any) -> None:
        space, _, kind = node.kind().partition("::")
        write = _NODES.get(node.kind())
        if write is not None:
            write(self, node)
        elif space == "aten":
            write_operator(self, node, kind)
        elif space == "prim" and kind in operators.ATTRIBUTES:
            self.assign(node, f"{self.read(node.inputsAt(0))}.{kind}")
            if kind == "dtype":
                self.types.add(self.names[node.output().debugName()])
        elif space == "prim" and kind in operators.CALLED:
            call = operators.CALLED[kind]
            self.assign(node, f"{call}({', '.join(map(self.read, node.inputs()))})")
        else:
            call = self._custom(node)
            self._refuse(node) if call is None else self.assign(node, call)

    def _refuse(self, node: Any) -> None:
        what = f"{node.kind()} of torch.jit.script is not supported"
        raise CompileError(Location(f"{self.file}:{self.line}", self.name), what)

    def _constant(self, node: Any) -> None:
        output = node.output()
        if output.type().kind() == "FunctionType":
            return  # of what is inlined
        self.names[output.debugName()] = self._literal(output.toIValue())

    def _literal(self, thing: Any) -> str:
        if isinstance(thing, torch.Tensor):
            return self.hold("constant", thing)
        if isinstance(thing, float) and not abs(thing) < float("inf"):
            return f"float({str(thing)!r})"
        if isinstance(thing, torch.device):
            return f"torch.device({str(thing)!r})"
        if isinstance(thing, bool | int | float | complex | str | None):
            return f"({thing!r})" if isinstance(thing, int | float) and thing < 0 else repr(thing)
        return self.hold("constant", thing)

    def _attribute(self, node: Any) -> None:
        owner, path = self._modules[node.input().debugName()]
        name, output = node.s("name"), node.output()
        if not owner.hasattr(name):
            self._refuse(node)
        thing = owner.getattr(name)
        text = _member(self.names[node.input().debugName()], name)
        if isinstance(thing, torch._C.ScriptModule):
            self.names[output.debugName()] = text
            self._modules[output.debugName()] = thing, (*path, name)
            return
        self.attributes.add((path, name))
        self.assign(node, text)

    def _set_attribute(self, node: Any) -> None:
        target, value = node.inputs()
        _, path = self._modules[target.debugName()]
        self.attributes.add((path, node.s("name")))
        member = _member(self.names[target.debugName()], node.s("name"))
        self.put(f"{member} = {self.read(value)}")

    def _same(self, node: Any) -> None:
        """Another type of the same value."""
        operand, output = node.inputsAt(0).debugName(), node.output().debugName()
        self.names[output] = self.names[operand]
        if operand in self.sizes:
            self.sizes.add(output)

    def _size_as_tensor(self, node: Any) -> None:
        self._same(node)
        self.sizes.add(node.output().debugName())

    def _tuple(self, node: Any) -> None:
        kind, parts = node.output().type(), list(map(self.read, node.inputs()))
        if fields := _fields(kind):
            name = kind.annotation_str.rpartition(".")[2]
            held = self.hold(name, namedtuple(name, fields))
            self.assign(node, f"{held}({', '.join(parts)})")
        else:
            self.assign(node, f"({''.join(f'{part}, ' for part in parts)})")

    def _list(self, node: Any) -> None:
        self.assign(node, f"[{', '.join(map(self.read, node.inputs()))}]")

    def _dict(self, node: Any) -> None:
        parts = list(map(self.read, node.inputs()))
        pairs = zip(parts[::2], parts[1::2], strict=True)
        self.assign(node, f"{{{', '.join(f'{key}: {value}' for key, value in pairs)}}}")

    def _unpack(self, node: Any) -> None:
        names = "".join(f"{self.new(value)}, " for value in node.outputs())
        text = self.read(node.input())
        self.put(f"({names}) = {text}" if names else text)

    def _item(self, node: Any) -> None:
        self.assign(node, "{}[{}]".format(*map(self.read, node.inputs())))

    def _is_instance(self, node: Any) -> None:
        """Whether a value is of a type, where its own tells."""
        own, kinds = node.input().type(), node.tys("types")
        known = any(map(own.isSubtypeOf, kinds))
        if not known and any(kind.isSubtypeOf(own) for kind in kinds):
            self._refuse(node)
        self.same(node, str(known))

    def _raise(self, node: Any) -> None:
        self.put(f"raise RuntimeError({self.read(node.inputsAt(0))})")

    def _nothing(self, node: Any) -> None:
        self.same(node, "None")

    def _if(self, node: Any) -> None:
        condition, outputs = self.read(node.input()), list(node.outputs())
        names = [self.new(value) for value in outputs]
        line = self.line
        for head, block in zip((f"if {condition}:", "else:"), node.blocks(), strict=True):
            self.line = line
            self.put(head)
            self.depth += 1
            self._nodes(block)
            results = [self.read(value) for value in block.outputs()]
            self.put(_assigned(names, results))
            self.depth -= 1

    def _loop(self, node: Any) -> None:
        most, go, *inits = map(self.read, node.inputs())
        body = next(node.blocks())
        index, *carried = [self.new(value) for value in body.inputs()]
        self.put(_assigned(carried, inits))
        goes_on = next(body.outputs())
        counted = go == "True" and _is_true(goes_on)
        running = f"{index}_goes"
        if counted:
            self.put(f"for {index} in range({most}):")
        else:
            self.put(f"{index}, {running} = 0, {go}")
            limit = "" if most == str(_FOREVER) else f" and {index} < {most}"
            self.put(f"while {running}{limit}:")
        self.depth += 1
        self._nodes(body)
        go, *results = map(self.read, body.outputs())
        self.put(_assigned(carried, results))
        if not counted:
            self.put(f"{index}, {running} = {index} + 1, {go}")
        self.depth -= 1
        for output, name in zip(node.outputs(), carried, strict=True):
            self.names[output.debugName()] = name

    def _custom(self, node: Any) -> str | None:
        """A call of an operator of somebody's own library."""
        space, _, kind = node.kind().partition("::")
        if space == "prim" or not hasattr(getattr(torch.ops, space), kind):
            return None
        return f"torch.ops.{space}.{kind}({', '.join(map(self.read, node.inputs()))})"


_NODES: Mapping[str, Callable[[WrittenFunction, Any], None]] = {
    "prim::Constant": WrittenFunction._constant,
    "prim::GetAttr": WrittenFunction._attribute,
    "prim::SetAttr": WrittenFunction._set_attribute,
    "prim::TupleConstruct": WrittenFunction._tuple,
    "prim::TupleUnpack": WrittenFunction._unpack,
    "prim::TupleIndex": WrittenFunction._item,
    "prim::ListConstruct": WrittenFunction._list,
    "prim::ListUnpack": WrittenFunction._unpack,
    "prim::DictConstruct": WrittenFunction._dict,
    "prim::If": WrittenFunction._if,
    "prim::Loop": WrittenFunction._loop,
    "prim::isinstance": WrittenFunction._is_instance,
    "prim::RaiseException": WrittenFunction._raise,
    "prim::Uninitialized": WrittenFunction._nothing,
    "prim::Print": WrittenFunction._nothing,
    "prim::NumToTensor": WrittenFunction._size_as_tensor,
    "prim::unchecked_cast": WrittenFunction._same,
    "prim::unchecked_unwrap_optional": WrittenFunction._same,
    "aten::_unwrap_optional": WrittenFunction._same,
}


def _places(block: Any) -> Generator[tuple[str, int]]:
    """Those of all nodes."""
    for node in block.nodes():
        if (place := _place_of(node)) is not None:
            yield place
        for inner in node.blocks():
            yield from _places(inner)


def _place_of(node: Any) -> tuple[str, int] | None:
    """The user's file and line; None where what a file says of them is damaged."""
    try:
        places = _PLACE.findall(node.sourceRange())
    except RuntimeError:  # it is read when it is asked for
        return None
    for file, line in places:
        if not file.startswith(_TORCH):
            return file, int(line)
    return None


def _member(text: str, name: str) -> str:
    plain = name.isidentifier() and not iskeyword(name)
    return f"{text}.{name}" if plain else f"getattr({text}, {name!r})"


def _assigned(names: Sequence[str], values: Sequence[str]) -> str:
    return f"{', '.join(names)} = {', '.join(values)}" if names else "pass"


def _is_true(value: Any) -> bool:
    node = value.node()
    return node.kind() == "prim::Constant" and value.toIValue() is True


def _fields(kind: Any) -> list[str]:
    """The names of a named tuple's."""
    text = kind.str()
    return re.findall(r"(\w+) :", text) if text.startswith("NamedTuple(") else []
