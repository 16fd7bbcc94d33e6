# pyright: basic, reportMissingImports=false
"""Rolls the loops of a graph that were unrolled when it was made."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_aggregate

from rnncc.errors import CompileError
from rnncc.frontends.torch.graphs import drop_checks, held_graph
from rnncc.frontends.torch.node_context import location
from rnncc.frontends.torch.unrolled.editor import Editor
from rnncc.frontends.torch.unrolled.fills import add_numbers
from rnncc.frontends.torch.unrolled.forwarding import forward_parts
from rnncc.frontends.torch.unrolled.growing import JOINS, join_at_once
from rnncc.frontends.torch.unrolled.kinds import BodyNode, Repeats, Write
from rnncc.frontends.torch.unrolled.places import read_of
from rnncc.frontends.torch.unrolled.repeats import Repeat, repeats
from rnncc.frontends.torch.unrolled.roles import loops_of
from rnncc.frontends.torch.unrolled.rolled import roll
from rnncc.frontends.torch.unrolled.view import (
    is_call,
    is_number,
    leaves_of,
    name_of,
    producer,
    text_of,
    type_of,
    value_of,
)

LEAST = 4
"""Repeats that make a loop."""
QUESTIONS = {operator.eq, operator.ne, operator.is_, operator.is_not, torch.broadcast_shapes}
MOST_LAYERS = 8
"""Nodes of one kind that a body may have in a row."""


@dataclass
class Rolled:
    """What became of a graph's repeats.

    Attributes:
        lengths: how many repeats the loops have that were rolled.
        unrolled: the longest part that repeats and is no loop: its first node, and how often.
    """

    lengths: list[int] = field(default_factory=list[int])
    unrolled: tuple[Node, int] | None = None


def _roll(nodes: Sequence[Node], repeat: Repeat, editor: Editor) -> tuple[list[int], set[Node]]:
    """Roll what is a loop among some repeats; how often each loop runs, and the tensors of rows."""
    wider, lengths, sequences = _widest(nodes, repeat), list[int](), set[Node]()
    for loop in filter(_computes, loops_of(_rows(nodes, wider), LEAST)):
        sequences |= roll(loop, editor)
        lengths.append(len(loop.rows))
    return lengths, sequences


def _widest(nodes: Sequence[Node], repeat: Repeat) -> Repeat:
    """The repeats by ones, twos or more, of which the first loop has the most nodes.

    Layers that differ in their weights alone are repeats too, and so are the steps of a loop
    within a loop: the body has several of them.
    """
    best, most = repeat, 0
    for number in range(1, min(MOST_LAYERS, repeat.count // LEAST) + 1):
        wider = replace(repeat, period=number * repeat.period)
        loop = next(loops_of(_rows(nodes, wider), LEAST), None)
        size = 0 if loop is None else len(loop.rows) * wider.period
        if size > most:
            best, most = wider, size
        if most > repeat.end - repeat.start - best.period:
            break
    return best


def _is_work(nodes: Sequence[Node], repeat: Repeat) -> bool:
    """Whether repeats compute, with the same weights; layers read weights of their own."""
    first, second = (nodes[repeat.start + i * repeat.period :][: repeat.period] for i in (0, 1))
    leaves = zip(chain(*map(leaves_of, first)), chain(*map(leaves_of, second)), strict=True)
    own = any(one is not other and _is_input(one) and _is_input(other) for one, other in leaves)
    return not own and not all(read_of(node) for node in first)


def _is_input(leaf: Any) -> bool:
    named = isinstance(leaf, Node) and leaf.op in ("placeholder", "get_attr")
    return named and held_graph(leaf) is None


def unrolled(rolled: Rolled) -> CompileError:
    """What is wrong with repeats that are no loop, and what to write instead."""
    assert rolled.unrolled is not None
    node, count = rolled.unrolled
    what = f"{count} repeats of a loop's body are not one loop: they differ, or have no like here"
    hint = "ys, state = rnncc.torch.scan(cell, xs, state) loops over y, state = cell(x, state)"
    return CompileError(location(node), what, hint)


def may_roll(module: GraphModule) -> bool:
    """Whether a graph has repeats, with changes in place as its only side effects."""
    calls = [node for node in _calls(module) if name_of(node) not in JOINS]  # they may grow
    return bool(repeats(_labels(calls, strict=False), LEAST))


def _calls(module: GraphModule) -> list[Node]:
    return [n for n in module.graph.nodes if is_call(n) and producer(n)[1] is None]


def roll_loops(module: GraphModule, plain: bool) -> Rolled:
    """Roll the loops of a graph without side effects; one without repeats stays as it is.

    Args:
        module: nodes know their results as fakes; changed in place.
        plain: whether it is a graph of aten operators that is lowered as it is; else it is traced
            again.
    """
    drop_checks(module)
    if plain:
        _drop_copies(module)
    else:
        _read_rows_first(module)
    join_at_once(module)
    forward_parts(module, plain)
    add_numbers(module, plain)
    _drop_unread(module)
    done = _roll_all(module, plain)
    if done.lengths:
        module.graph.eliminate_dead_code()
        module.graph.lint()
        _drop_unused(module)
        module.recompile()
    return done


def _roll_all(module: GraphModule, plain: bool) -> Rolled:
    """Roll all repeats that are loops, the longest first.

    Those that are none are tried again after others: they may read the rows that a loop makes.
    """
    nodes = _calls(module)
    done, editor, free = Rolled(), None, [True] * len(nodes)
    waiting, rolls, sequences = repeats(_labels(nodes), LEAST), True, set[Node]()
    while waiting and rolls:
        tried, waiting, rolls = waiting, list[Repeat](), False
        for repeat in tried:
            repeat = _unclaimed(repeat, free)
            if repeat is None:
                continue
            editor = editor or Editor(module, plain)
            lengths, rolled = _roll(nodes, repeat, editor)
            done.lengths += lengths
            sequences |= rolled
            if lengths:
                free[repeat.start : repeat.end] = [False] * (repeat.end - repeat.start)
                rolls = True
            else:
                waiting.append(repeat)
    for user in sorted({user for y in sequences for row in y.users for user in row.users}):
        assert editor is not None  # only now, as repeats of another loop may line rows up, too
        editor.collect(user, sequences)
    works = [repeat for repeat in waiting if _is_work(nodes, repeat)]
    if works:
        longest = max(works, key=lambda repeat: repeat.count)
        done.unrolled = nodes[longest.start], longest.count
    return done


def _drop_unused(module: GraphModule) -> None:
    """Take away graphs that only the repeats named."""
    used = {str(node.target).split(".")[0] for node in module.graph.nodes if node.op == "get_attr"}
    for name, part in list(module.named_children()):
        if isinstance(part, GraphModule) and name not in used:
            delattr(module, name)


def _drop_unread(module: GraphModule) -> None:
    """Take away what is left of questions that were answered, as whether a tensor is None.

    They give no tensors, as which they would end a repeat. So do sizes that nobody reads.
    """
    for node in reversed(module.graph.nodes):
        is_answered = node.target in QUESTIONS or isinstance(value_of(node), torch.SymInt)
        if is_call(node) and is_answered and not node.users:
            module.graph.erase_node(node)


def _read_rows_first(module: GraphModule) -> None:
    """`x[:, t, None]` becomes `x[:, t][:, None]`: a row as any other, and then a new axis."""
    added = [node for node in module.graph.nodes if _adds_axes(node)]
    editor = Editor(module, plain=False) if added else None
    for node in added:
        assert editor is not None
        x, index = node.args
        editor.like = node
        with module.graph.inserting_before(node):
            part = editor.new(operator.getitem, x, tuple([e for e in index if e is not None]))
            whole = [
                slice(None) if isinstance(e, slice) else e for e in index if type(e) is not int
            ]
            row = editor.call(operator.getitem, (part, tuple(whole)), {}, value_of(node))
        node.replace_all_uses_with(row)
        module.graph.erase_node(node)


def _adds_axes(node: Node) -> bool:
    """Whether a node reads a place by numbers, and gives it new axes."""
    index: Any = node.args[1] if node.target is operator.getitem else None
    if not isinstance(index, tuple) or None not in index:
        return False
    known = all(e is None or e is Ellipsis or type(e) in (int, slice) for e in index)
    return known and any(type(e) is int for e in index)


def _drop_copies(module: GraphModule) -> None:
    """What is copied over a tensor of its own type stands for the copy."""
    copy = torch.ops.aten.copy.default
    for node in module.graph.find_nodes(op="call_function", target=copy):
        source: Any = node.args[1]
        if type_of(value_of(source)) == type_of(value_of(node)):
            node.replace_all_uses_with(source)
    module.graph.eliminate_dead_code()


def _computes(loop: Repeats) -> bool:
    return any(isinstance(kind, (BodyNode, Write)) for kind in loop.body)


def _labels(nodes: Sequence[Node], strict: bool = True) -> list[int]:
    """Equal numbers for nodes that may be the same one of two repeats.

    Args:
        nodes: calls.
        strict: whether calls that give no tensors are in no repeat.
    """
    numbers = dict[Any, int]()
    return [numbers.setdefault(_label(node, strict), len(numbers)) for node in nodes]


def _label(node: Node, strict: bool) -> Any:
    kind = type_of(value_of(node))
    if strict and not kind:
        return node
    shape: Any = map_aggregate((node.args, node.kwargs), _leaf_label)
    return node.op, node.target, repr(shape), kind


def _leaf_label(leaf: Any) -> Any:
    if isinstance(leaf, Node):
        part = held_graph(leaf)
        return "node" if part is None else text_of(part)
    return type(leaf).__name__ if is_number(leaf) else leaf


def _unclaimed(repeat: Repeat, free: Sequence[bool]) -> Repeat | None:
    """What is left of a part beside loops that are rolled already."""
    start, end = repeat.start, repeat.end
    while start < end and not free[start]:
        start += 1
    while end > start and not free[end - 1]:
        end -= 1
    if not all(free[start:end]):
        return None
    narrower = Repeat(start, end, repeat.period)
    return narrower if narrower.count >= LEAST else None


def _rows(nodes: Sequence[Node], repeat: Repeat) -> list[list[Node]]:
    """The nodes of each repeat, cut where the fewest values cross."""
    spare = (repeat.end - repeat.start) % repeat.period
    start = repeat.start + min(range(spare + 1), key=_crossings(nodes, repeat).__getitem__)
    period = repeat.period
    return [list(nodes[start + i * period :][:period]) for i in range(repeat.count)]


def _crossings(nodes: Sequence[Node], repeat: Repeat) -> list[int]:
    """How many values cross a cut in front of each of the nodes of a repeat in the middle."""
    period = repeat.period
    middle = repeat.start + (repeat.count // 2) * period
    window = nodes[max(repeat.start, middle - 2 * period) : middle + 2 * period]
    at = {node: i for i, node in enumerate(window, max(repeat.start, middle - 2 * period))}
    change = [0] * (period + 1)
    for node, place in at.items():
        last = max((at.get(user, -1) for user in _readers(node)), default=-1)
        first, behind = max(place + 1 - middle, 0), min(last + 1 - middle, period)
        if first < behind:
            change[first] += 1
            change[behind] -= 1
    total, crossings = 0, list[int]()
    for step in change[:period]:
        total += step
        crossings.append(total)
    return crossings


def _readers(node: Node) -> list[Node]:
    """What reads a node, or one of its results."""
    parts = [user for user in node.users if producer(user)[1] is not None]
    return [*node.users, *(user for part in parts for user in part.users)]
