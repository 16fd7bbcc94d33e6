"""From a net to the graph that is drawn: an equation is a box, a loop a box around a step's.

What has a name of its own, or several readers, or is long, is an equation; all else is written out
where it is read. Weights and numbers stand in equations by their names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import wrap

from xdsl.ir import Block, Operation, SSAValue

from rnncc.drawing.formulas import TRANSPARENT, Formulas, seen_through
from rnncc.ir.attributes import get_dim
from rnncc.ir.naming import kind_of, name_of, source_of
from rnncc.ir.ops.chunks import Chunks
from rnncc.ir.ops.control import Scan, Yield, terminator
from rnncc.ir.ops.source import Iota
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of
from rnncc.netdef.drawing.graph import LONGEST, DrawnGraph, DrawnNode, Line, line

LONG = 7
"""Operations of a formula that is written out in another."""


def read(program: Program) -> DrawnGraph:
    """The graph of a program."""
    net = program.net
    block = net.body.block
    drawn = _Block(block, Formulas())
    for name, value in net.inputs.items():
        drawn.label("input", value, name)
    drawn.equations()
    for name, value in net.outputs.items():
        drawn.result(value, name)
    return drawn.graph


class _Block:
    """The graph of the net, or of a step of a loop.

    Args:
        formulas: with the names of weights that come from outside.
    """

    def __init__(self, block: Block, formulas: Formulas) -> None:
        self.block, self.formulas, self.graph = block, formulas, DrawnGraph()
        self.nodes = dict[SSAValue, int]()
        self._alive = dict.fromkeys(_alive(block))
        self._lengths = dict[SSAValue, int]()
        self._taken = set(formulas.names.values())
        self._weights = set[SSAValue](value for value in block.args if value in formulas.names)
        for op in self._alive:
            self._note_weights(op)

    def label(self, kind: str, value: SSAValue, name: str, note: str = "") -> None:
        """Something that comes in."""
        self._called(value, name)
        self.nodes[value] = self.graph.add(
            DrawnNode(kind, _lines("blob", [_sized(name, value)]) + _lines("note", [note]), name)
        )

    def result(self, value: SSAValue, name: str, note: str = "") -> None:
        """Something that goes out."""
        lines = _lines("blob", [_sized(name, value)]) + _lines("note", [note])
        node = self.graph.add(DrawnNode("output", lines, name))
        if value in self._weights:
            self.graph.nodes[node] = DrawnNode(
                "output", (*lines, line(self._of(value), "note")), name
            )
        self.graph.edges += [(source, node) for source in self._sources([value])]

    def equations(self) -> None:
        """The boxes, in the order of the operations."""
        for op in self._alive:
            if isinstance(op, (Scan, Chunks)):
                self._loop(op)
                continue
            for value in op.results:
                if value not in self._weights and self._has_box(value):
                    self._equation(value)

    def _note_weights(self, op: Operation) -> None:
        """What no input decides; long formulas get names."""
        if isinstance(op, (Scan, Chunks)) or any(v not in self._weights for v in op.operands):
            return
        length = 1 + sum(self._lengths.get(v, 0) for v in op.operands)
        for value in op.results:
            self._weights.add(value)
            self._lengths[value] = 0 if length >= LONG else length
            if length >= LONG:
                self._called(value, name_of(value))

    def _equation(self, value: SSAValue) -> None:
        assert isinstance(value.owner, Operation)
        text, sources = self._of(value), self._sources(value.owner.operands)
        name = self._called(value, name_of(value))
        head = (line(_sized(name, value), "type"),)
        node = DrawnNode(
            "op", head + _lines("note", _wrapped(text)), _told(f"{name} = {text}", value)
        )
        self._add(value, node, sources)

    def _loop(self, op: Scan | Chunks) -> None:
        shown = [value for value in op.results if self.is_read(value)]
        ends = zip(op.body.block.args, op.operands, strict=True)
        weights: dict[SSAValue, str] = {a: self._of(v) for a, v in ends if v in self._weights}
        inner = _step(op, self.formulas, weights, shown)
        sources = self._sources(op.operands)
        where = source_of(op.results[0]) if op.results else ""
        source = _lines("name", [where.rpartition(": ")[2]])
        heads = (line(_title(op, self.formulas), "type"), *source)
        node = DrawnNode("op", heads, where, ((_each(op), inner),))
        number = self.graph.add(node)
        self.graph.edges += [(source, number) for source in sources]
        for value in shown:
            name = self._called(value, _result_name(value))
            self._add(
                value, DrawnNode("blob", _lines("blob", [_sized(name, value)]), name), [number]
            )

    def _add(self, value: SSAValue, node: DrawnNode, sources: Iterable[int]) -> None:
        number = self.nodes[value] = self.graph.add(node)
        self.graph.edges += [(source, number) for source in sources]

    def _called(self, value: SSAValue, name: str) -> str:
        """A name that nothing else in this block has."""
        unique, count = name, 1
        while unique in self._taken:
            count += 1
            unique = f"{name}.{count}"
        self._taken.add(unique)
        self.formulas.names[value] = unique
        return unique

    def _of(self, value: SSAValue) -> str:
        return self.formulas.called(value)

    def _sources(self, values: Iterable[SSAValue]) -> list[int]:
        """The boxes that formulas over these values read, each once."""
        sources, waiting = dict[int, None](), list(values)[::-1]
        while waiting:
            value = waiting.pop()
            if value in self.nodes:
                sources[self.nodes[value]] = None
            elif isinstance(value.owner, Operation) and value not in self._weights:
                waiting += list(value.owner.operands)[::-1]
        return list(sources)

    def is_read(self, value: SSAValue) -> bool:
        """Whether something that is drawn reads it."""
        readers = (use.operation for use in value.uses)
        return any(op in self._alive or op is self.block.last_op for op in readers)

    def _has_box(self, value: SSAValue) -> bool:
        """Whether it is an equation; else how long its formula is, is kept."""
        op = value.owner
        assert isinstance(op, Operation)
        operands = [seen_through(v) for v in op.operands if v not in self._weights]
        length = 1 + sum(self._lengths.get(v, 0) for v in operands)
        if isinstance(op, TRANSPARENT):
            self._lengths[value] = length - 1
            return False
        readers = set(_readers(value))
        is_end = any(isinstance(reader, Yield) or reader.regions for reader in readers)
        is_own = bool(_told_name(value)) or len(readers) > 1 or length >= LONG or is_end
        self._lengths[value] = 0 if is_own else length
        return is_own


def _step(
    op: Scan | Chunks,
    around: Formulas,
    weights: Mapping[SSAValue, str],
    shown: Sequence[SSAValue],
) -> DrawnGraph:
    """The graph of a loop's body.

    Args:
        around: what values are called outside.
        weights: the body's arguments that are weights, by name.
        shown: the loop's results that are read.
    """
    block, carried = op.body.block, len(op.inits)
    outside = dict(zip(block.args, op.operands, strict=True))
    yielded = terminator(block)
    names = _carry_names(op, yielded[:carried])
    consts, carry = block.args[: len(op.consts)], block.args[len(op.consts) :][:carried]
    parts = _Block(block, Formulas({arg: weights[arg] for arg in consts if arg in weights}))
    for arg, name in zip(carry, names, strict=True):
        if parts.is_read(arg):
            parts.label("input", arg, f"{name}'", f"at first {around.called(outside[arg])}")
    for arg in block.args:
        if parts.is_read(arg) and arg not in parts.formulas.names:
            name = around.called(outside[arg])
            is_number = isinstance(seen_through(outside[arg]).owner, Iota)
            of_step = "t" if is_number else f"{name}[t]"
            parts.label("input", arg, name if arg in consts else of_step)
    parts.equations()
    for value, name in zip(yielded, names, strict=False):
        parts.result(value, name, "for the next step")
    for value, y in zip(yielded[carried:], op.results[carried:], strict=True):
        if y in shown:
            parts.result(value, f"{_result_name(y)}[t]")
    return parts.graph


def _result_name(value: SSAValue) -> str:
    """Of a loop's result: what it is called further on."""
    return name_of(value).removesuffix(".scan").removesuffix(".chunks")


def _carry_names(op: Scan | Chunks, carried: Sequence[SSAValue]) -> list[str]:
    """What is carried, by the name of its next value, its first one or its last one."""
    ends = zip(carried, op.inits, op.results, strict=False)
    names = [_told_name(seen_through(v)) or _told_name(f) or _told_name(i) for v, i, f in ends]
    return [name or f"state {number}" for number, name in enumerate(names)]


def _told_name(value: SSAValue) -> str:
    """A name that tells more than the operation, as `add_tensor` does not."""
    name, op = value.name_hint or "", value.owner
    return "" if isinstance(op, Operation) and name.startswith(kind_of(op)) else name


def _title(op: Scan | Chunks, around: Formulas) -> str:
    length = get_dim(op.length)
    if isinstance(op, Scan) and op.gate is not None:
        gate = around.called(op.operands[op.gate.data])
        return f"if {gate}" if length == 1 else f"while {gate}, at most {length} times"
    if length == 1:
        return "one step"
    return f"for t = {length - 1} … 0" if op.reverse else f"for t = 0 … {length - 1}"


def _each(op: Scan | Chunks) -> str:
    return "a run of steps" if isinstance(op, Chunks) else "a step"


def _alive(block: Block) -> list[Operation]:
    """The operations that lead to the block's results, in order."""
    needed, waiting = set[Operation](), list(terminator(block))
    while waiting:
        op = waiting.pop().owner
        if isinstance(op, Operation) and op not in needed:
            needed.add(op)
            waiting += op.operands
    return [op for op in block.ops if op in needed]


def _readers(value: SSAValue) -> Iterator[Operation]:
    """Those of a value, and of what only shows it in another shape."""
    waiting = [value]
    while waiting:
        for use in waiting.pop().uses:
            if isinstance(use.operation, TRANSPARENT):
                waiting += use.operation.results
            else:
                yield use.operation


def _sized(name: str, value: SSAValue) -> str:
    dims = dims_of(value)
    return f"{name} [{', '.join(map(str, dims))}]" if dims else name


def _told(text: str, value: SSAValue) -> str:
    where = source_of(value)
    return f"{text}\n{where}" if where else text


def _wrapped(text: str) -> list[str]:
    """A formula in lines of a bearable length; what is far too long ends early."""
    rows = wrap(text, LONGEST - 4, break_long_words=False)
    return [*rows[:5], "…"] if len(rows) > 6 else rows


def _lines(style: str, texts: Iterable[str]) -> tuple[Line, ...]:
    return tuple(line(text, style) for text in texts if text)
