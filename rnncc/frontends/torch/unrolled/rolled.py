# pyright: basic, reportMissingImports=false
"""Writes a loop as PyTorch's operator `scan`, in the place of its repeats."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from rnncc.frontends.torch.graphs import held_graph
from rnncc.frontends.torch.unrolled.editor import Editor, aten
from rnncc.frontends.torch.unrolled.kinds import (
    BodyNode,
    Inner,
    Invariant,
    Numbers,
    OwnInputs,
    PlacedNode,
    Read,
    Repeats,
    Role,
    Write,
)
from rnncc.frontends.torch.unrolled.places import Sweep, write_of
from rnncc.frontends.torch.unrolled.roles import dtype_of_numbers
from rnncc.frontends.torch.unrolled.view import (
    Path,
    known,
    leaves_of,
    name_of,
    producer,
    value_of,
    with_leaves,
)

NAME = "rolled_loop"
_GETITEM = operator.getitem
_Value = tuple[int, Path]


def roll(loop: Repeats, editor: Editor) -> set[Node]:
    """Replace a loop's repeats; what is new among the graph's tensors of rows."""
    return _Rolling(loop, editor).roll()


class _Rolling:
    def __init__(self, loop: Repeats, editor: Editor) -> None:
        self.loop, self.editor, self.count = loop, editor, len(loop.rows)
        self.body = Graph()
        self.own = {node for row in loop.rows for node in row}
        self.copies = dict[int, Node]()
        """The nodes of the body, by number."""
        self.carry = dict[Any, tuple[Node, Node]]()
        """By value and inits: what stands for it in the body, and its first value outside."""
        self.rows = dict[Any, tuple[Node, Callable[[], Node]]]()
        """What a repeat gets of a sequence, and how the sequence is made."""
        self.held = dict[Node, Node]()
        self.parts = dict[str, GraphModule]()
        self.inputs = self.body.placeholder("inputs")

    def roll(self) -> set[Node]:
        """Write the body, then the loop, then what follows."""
        for number, kind in enumerate(self.loop.body):
            if isinstance(kind, PlacedNode):
                self.copies[number] = self._at_place(number, kind)
            elif isinstance(kind, BodyNode):
                self.copies[number] = self._copy(number, kind)
        finals, ys = self._outputs()
        next_carry = self._next()
        rows = [self._value(*value) for value in ys]
        rows += [self._written(kind) for kind in self._writes()]
        self._end([*next_carry, *rows])
        return self._insert(finals, ys)

    # The body

    def _copy(self, number: int, kind: BodyNode) -> Node:
        """A node of the first repeat, over what the body has."""
        node = self.loop.rows[0][number]
        leaves = leaves_of(node)
        args, kwargs = with_leaves(node, lambda i: self._operand(kind.roles[i], leaves[i], node))
        copy = self.body.create_node(node.op, node.target, args, kwargs, name_of(node))
        copy.meta = dict(node.meta)
        return copy

    def _at_place(self, number: int, kind: PlacedNode) -> Node:
        """The same with a row of numbers as the index."""
        node, axis = self.loop.rows[0][number], kind.axis
        dtype, device = torch.int64, value_of(node).device
        place = self._numbered(kind.numbers, dtype, device)
        index = self._made(aten.unsqueeze.default, place, 0)
        x = self._operand(kind.roles[0], node.args[0], node)
        if len(kind.roles) == 1:
            read = self._made(aten.index_select.default, x, axis, index)
            return self._made(aten.squeeze.dim, read, axis) if kind.drops else read
        source = self._written_to(kind.roles[1], node, value_of(node).dtype)
        source = self._made(aten.unsqueeze.default, source, axis) if kind.drops else source
        return self._made(aten.index_copy.default, x, axis, index, source)

    def _made(self, target: Any, *args: Any) -> Node:
        """A call of the body."""
        node = self.body.call_function(target, args)
        values: Any = map_arg(args, value_of)
        node.meta[self.editor.key] = self.editor.fake(target, *values)
        return node

    def _operand(self, role: Role, leaf: Any, user: Node) -> Any:
        """What a leaf of a node's arguments is in the body."""
        match role:
            case Sweep():
                return self._row(role, lambda: self.editor.rows(role, self.count), value_of(leaf))
            case OwnInputs():
                return self._row(role, lambda: self._stacked(role), value_of(leaf))
            case Numbers():
                return self._number(role, user)
            case Inner() if isinstance(self.loop.body[role.number], Invariant) and not role.lag:
                return self._from_outside(leaf)
            case Inner():
                return self._carried(role) if role.lag else self._value(role.number, role.path)
            case _:
                return self._from_outside(leaf) if isinstance(leaf, Node) else leaf

    def _value(self, number: int, path: Path) -> Node:
        """A result of one of the body's nodes."""
        kind = self.loop.body[number]
        if isinstance(kind, Read):
            row = value_of(self.loop.rows[0][number])
            sweep = kind.sweep
            return self._row(sweep, lambda: self.editor.rows(sweep, self.count), row)
        if isinstance(kind, Invariant):
            return self._from_outside(self._result(0, number, path))
        node = self.copies[number]
        if path is None:
            return node
        part = self.body.call_function(_GETITEM, (node, path))
        part.meta = {self.editor.key: value_of(node)[path]}
        return part

    def _result(self, repeat: int, number: int, path: Path) -> Node:
        node = self.loop.rows[repeat][number]
        return next(n for n in (node, *node.users) if producer(n) == (node, path))

    def _placeholder(self, name: str, value: Any) -> Node:
        with self.body.inserting_before(self.inputs):
            place = self.body.placeholder(f"{name}_{len(self.body.nodes)}")
        place.meta[self.editor.key] = value
        return place

    def _row(self, key: Any, make: Callable[[], Node], value: Any) -> Node:
        if key not in self.rows:
            self.rows[key] = self._placeholder("row", value), make
        return self.rows[key][0]

    def _stacked(self, role: OwnInputs) -> Node:
        return self.editor.new(aten.stack.default, list(role.inputs))

    def _number(self, role: Numbers, user: Node) -> Node:
        """A number of each repeat, as a tensor of rank 0."""
        dtype = dtype_of_numbers(user, role.values)
        assert dtype is not None
        return self._numbered(role, dtype, value_of(user).device)

    def _numbered(self, role: Numbers, dtype: torch.dtype, device: torch.device) -> Node:
        key = role, dtype
        value = self.editor.fake(torch.empty, (), dtype=dtype, device=device)
        return self._row(key, lambda: self.editor.constant(role.values, dtype, device), value)

    def _from_outside(self, node: Node) -> Node:
        part = held_graph(node)
        if part is not None:
            name = str(node.target).replace(".", "_")
            self.parts[name] = part
            return self.body.get_attr(name)
        if node not in self.held:
            self.held[node] = self._placeholder("held", value_of(node))
        return self.held[node]

    def _carried(self, role: Inner) -> Node:
        return self._register((role.number, role.path), role.inits)

    def _register(self, value: _Value, inits: tuple[Node, ...]) -> Node:
        """A value as it was len(inits) repeats ago; inits[0] in the first repeat."""
        key = value, inits
        if key not in self.carry:
            place = self._placeholder("carry", value_of(inits[0]))
            self.carry[key] = place, inits[0]
            if len(inits) > 1:
                self._register(value, inits[1:])
        return self.carry[key][0]

    def _next(self) -> list[Node]:
        """What the carry is after a repeat."""
        return [
            self._value(*value) if len(inits) == 1 else self.carry[value, inits[1:]][0]
            for value, inits in self.carry
        ]

    def _writes(self) -> list[Write]:
        return [kind for kind in self.loop.body if isinstance(kind, Write)]

    def _written(self, kind: Write) -> Node:
        """The row that a repeat writes."""
        number = self.loop.body.index(kind)
        row = self.loop.rows[0][number]
        return self._written_to(kind.source, row, value_of(kind.init).dtype)

    def _written_to(self, role: Role, node: Node, dtype: torch.dtype) -> Node:
        """What a node writes, of the type of what it is written to."""
        written = write_of(node)
        assert written is not None
        value = self._operand(role, written[1], node)
        if value_of(written[1]).dtype == dtype:
            return value
        cast = self.body.call_function(aten._to_copy.default, (value,), {"dtype": dtype})
        cast.meta[self.editor.key] = self.editor.fake(torch.Tensor.to, value_of(written[1]), dtype)
        return cast

    def _end(self, results: list[Node]) -> None:
        """Close the body; results share no memory with what comes in."""
        outputs = []
        for node in results:
            if self.editor.plain:
                outputs.append(node)
                continue
            options: Any = {"memory_format": torch.contiguous_format}
            copy = self.body.call_function(aten.clone.default, (node,), options)
            copy.meta[self.editor.key] = value_of(node)
            outputs.append(copy)
        self.results = outputs
        self.body.output(tuple(outputs))

    # What is read behind the loop

    def _outputs(self) -> tuple[dict[_Value, Any], list[_Value]]:
        """Results of the last repeat alone, by the carry that has them, and those of more."""
        finals, ys = dict[_Value, Any](), list[_Value]()
        for value, repeats in self._used().items():
            key = self._final(value) if repeats == {self.count - 1} else None
            if key is None:
                ys.append(value)
            else:
                finals[value] = key
        return finals, ys

    def _used(self) -> dict[_Value, set[int]]:
        """Which results are read behind the loop, and of which repeats."""
        steps_by_value = dict[_Value, set[int]]()
        for i, row in enumerate(self.loop.rows):
            for number, node in enumerate(row):
                if isinstance(self.loop.body[number], BodyNode):
                    for path in self._leaving(node):
                        steps_by_value.setdefault((number, path), set()).add(i)
        return steps_by_value

    def _leaving(self, node: Node) -> set[Path]:
        paths = set[Path]()
        for user in node.users:
            source, path = producer(user)
            if source is node and path is not None:
                if any(after not in self.own for after in user.users):
                    paths.add(path)
            elif user not in self.own:
                paths.add(None)
        return paths

    def _final(self, value: _Value) -> Any:
        """The carry that is a value after the last repeat."""
        for key in self.carry:
            if key[0] == value and len(key[1]) == 1:
                return key
        tensor = value_of(self._value(*value))
        shape = [known(size) for size in tensor.shape]
        if None in shape:
            return None
        new = self.editor
        with new.graph.inserting_before(self.loop.rows[0][0]):
            init = new.new(aten.full.default, shape, 0, dtype=tensor.dtype, device=tensor.device)
        self._register(value, (init,))
        return value, (init,)

    # The loop

    def _insert(self, finals: dict[_Value, Any], ys: list[_Value]) -> set[Node]:
        new, last = self.editor, self.loop.rows[-1][-1]
        new.like = self.loop.rows[0][0]
        with new.graph.inserting_after(last):
            anchor = new.graph.call_function(_GETITEM, (None, 0))  # keeps the order of what is new
        with new.graph.inserting_before(anchor):
            scan = self._scan()
            carried = {key: new.taken(scan, i) for i, key in enumerate(self.carry)}
            rows = [
                new.taken(scan, len(self.carry) + i)
                for i in range(len(scan.meta[new.key]) - len(carried))
            ]
            for value, key in finals.items():
                self._replace(value, self.count - 1, carried[key])
            for value, sequence in zip(ys, rows, strict=False):
                self._replace_rows(value, sequence)
            for kind, sequence in zip(self._writes(), rows[len(ys) :], strict=True):
                number = self.loop.body.index(kind)
                whole = new.filled(kind.init, kind.sweep, sequence, self.count)
                self.loop.rows[-1][number].replace_all_uses_with(whole)
        new.graph.erase_node(anchor)
        self._erase()
        return set(rows)

    def _scan(self) -> Node:
        new = self.editor
        inits = [new.apart(init) for _, init in self.carry.values()]
        rows = [(place, new.apart(make())) for place, make in self.rows.values()]
        if not rows:
            rows.append((self._placeholder("row", None), new.new(aten.zeros.default, [self.count])))
        if not inits:
            inits = [self._nothing()]
        held = [new.apart(node) for node in self.held]
        carries = [place for place, _ in self.carry.values()]
        self._order([*carries, *(place for place, _ in rows), *self.held.values()])
        part = GraphModule(self.parts, self.body)
        attribute = new.part(part, NAME)
        args = (attribute, inits, [row for _, row in rows], tuple(held))
        return new.call(torch.ops.higher_order.scan, args, {}, self._results(len(inits)))

    def _nothing(self) -> Node:
        """A carry for a loop that has none, which PyTorch's operator does not take."""
        init = self.editor.new(aten.zeros.default, [])
        place = self._placeholder("carry", value_of(init))
        self.carry[(-1, None), (init,)] = place, init
        copy = self.body.call_function
        with self.body.inserting_before(self.body.output_node()):
            same = copy(aten.clone.default, (place,))
        same.meta[self.editor.key] = value_of(init)
        self.results.insert(0, same)
        self.body.output_node().args = (tuple(self.results),)
        return init

    def _results(self, carried: int) -> tuple[Any, ...]:
        def rows(value: torch.Tensor) -> torch.Tensor:
            return self.editor.fake(value.new_empty, (self.count, *value.shape))

        values = [value_of(node) for node in self.results]
        return (*values[:carried], *map(rows, values[carried:]))

    def _order(self, places: list[Node]) -> None:
        """The body's inputs in the order of the operator's."""
        for place in places:
            self.inputs.prepend(place)
        self.body.erase_node(self.inputs)

    def _replace(self, value: _Value, repeat: int, new: Node) -> None:
        old = self._result(repeat, *value)
        old.replace_all_uses_with(new, lambda user: user not in self.own)

    def _replace_rows(self, value: _Value, sequence: Node) -> None:
        row = None
        for repeat in range(self.count):
            node = self.loop.rows[repeat][value[0]]
            if value[1] in self._leaving(node):
                row = self.editor.select(sequence, 0, repeat, like=row)
                self._replace(value, repeat, row)

    def _erase(self) -> None:
        for row in reversed(self.loop.rows):
            for node in reversed(row):
                for user in list(node.users):
                    if producer(user)[1] is not None and not user.users:
                        self.editor.graph.erase_node(user)
                if not node.users:
                    self.editor.graph.erase_node(node)
