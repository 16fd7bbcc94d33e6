"""A net in a few lines, for docstrings: `y = matmul(x, w)`, loops with what they are given."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IntAttr, StringAttr
from xdsl.ir import Attribute, Block, SSAValue

from rnncc.ir.ops.chunks import Chunks
from rnncc.ir.ops.control import Scan, terminator
from rnncc.ir.ops.source import Fill, Param
from rnncc.ir.program import Program


def show(program: Program, named: bool = False) -> str:
    """The ops of a net, a line each; inputs, parameters and hinted values go by their names.

    Args:
        named: whether outputs are told by theirs.
    """
    names = {value: name for name, value in program.net.inputs.items()}
    lines = list(_lines(program.net.body.block, names))
    outputs = program.net.outputs.items()
    results = ", ".join(f"{o}={names[v]}" if named else names[v] for o, v in outputs)
    return "\n".join([*lines, f"return {results}"])


def _lines(block: Block, names: dict[SSAValue, str]) -> Iterator[str]:
    for op in block.ops:
        if isinstance(op, Param):
            names[op.y] = op.param_name.data
        elif isinstance(op, Fill):
            names[op.y] = f"{op.value.value.data:g}"
        elif isinstance(op, Scan | Chunks):
            yield from _loop(op, names)
        elif op.results:
            operands = [names[v] for v in op.operands]
            operands += [f"{n}={_text(a)}" for n, a in op.properties.items() if _counts(a)]
            (result,) = op.results
            names[result] = _fresh(result, names)
            yield f"{names[result]} = {op.name.removeprefix('rnn.')}({', '.join(operands)})"


def _loop(loop: Scan | Chunks, names: dict[SSAValue, str]) -> Iterator[str]:
    """Row t of a sequence s is s[t]; the carry c is c[t-1] before a step, c[t] after it.

    A loop over runs counts them by r: the rows of run r are s[r].
    """
    t, runs = ("t", "") if isinstance(loop, Scan) else ("r", f" runs of {loop.extent.data}")
    trips = loop.steps if isinstance(loop, Scan) else loop.trip_count
    consts, carry, *rows = loop.groups
    outer = (*loop.xs, *(loop.marks if isinstance(loop, Chunks) else ()))
    made = (*loop.ys, *(loop.marked if isinstance(loop, Chunks) else ()))
    names |= {arg: names[value] for arg, value in zip(consts, loop.consts, strict=True)}
    args = [arg for group in rows for arg in group]
    names |= {arg: f"{names[value]}[{t}]" for arg, value in zip(args, outer, strict=True)}
    before, last = (f"{t}+1", "0") if loop.reverse else (f"{t}-1", f"{trips}-1")
    heads, stems = list[str](), list[str]()
    for arg, init, final in zip(carry, loop.inits, loop.finals, strict=True):
        stems.append(names[init] if names[init].isidentifier() else _stem(names, stems))
        names[arg], names[final] = f"{stems[-1]}[{before}]", f"{stems[-1]}[{last}]"
        heads.append(f"{stems[-1]} from {names[init]}")
    body = list(_lines(loop.body.block, names))
    for y in made:
        names[y] = _fresh(y, names)
    order = "reversed " if loop.reverse else ""
    yield f"for {t} in {order}0..{trips}{runs}{''.join(f', {head}' for head in heads)}:"
    yield from (f"    {line}" for line in body)
    places = [f"{name}[{t}]" for name in (*stems, *(names[y] for y in made))]
    for place, value in zip(places, terminator(loop.body.block), strict=True):
        yield f"    {place} = {names[value]}"


def _stem(names: dict[SSAValue, str], others: Sequence[str]) -> str:
    """A letter for a carry that starts from no name."""
    taken = {name.partition("[")[0] for name in (*names.values(), *others)}
    return next(letter for letter in "cdefg" if letter not in taken)


def _fresh(value: SSAValue, names: dict[SSAValue, str]) -> str:
    """A value's own name, or the next number."""
    taken, hint = set(names.values()), value.name_hint
    if hint and hint not in taken:
        return hint
    return next(name for i in range(1, 1000) if (name := f"v{i}") not in taken)


def _counts(attribute: Attribute) -> bool:
    """Whether a property says something: not that a flag is off."""
    return str(attribute) not in ("false", "0 : i1")


def _text(attribute: Attribute) -> str:
    match attribute:
        case StringAttr() | IntAttr():
            return str(attribute.data)
        case FloatAttr():
            return f"{attribute.value.data:g}"
        case ArrayAttr():
            return f"[{', '.join(_text(a) for a in attribute.data)}]"
        case _:
            return str(attribute)


def titled(**programs: Program) -> str:
    """Several programs by what they are called, with what they take and give."""
    lines = list[str]()
    for title, program in programs.items():
        lines.append(f"{title}({', '.join(program.net.inputs)}):")
        lines += [f"    {line}" for line in show(program, named=True).splitlines()]
    return "\n".join(lines)


def shown_in(text: str | None) -> list[str]:
    """The nets that a docstring shows."""
    found = re.findall(
        r"^(?:Before|After):\n\n((?:    .*\n?)+)", inspect.cleandoc(text or ""), re.M
    )
    return [inspect.cleandoc(block) for block in found]
