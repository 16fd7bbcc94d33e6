"""A net in a few lines, for docstrings: `y = matmul(x, w)`, loops with what they are given."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IntAttr, StringAttr
from xdsl.ir import Attribute, Block, SSAValue

from rnncc.ir.ops.control import Scan, terminator
from rnncc.ir.ops.source import Fill, Param
from rnncc.ir.program import Program


def show(program: Program) -> str:
    """The ops of a net, a line each; inputs, parameters and hinted values go by their names."""
    names = {value: name for name, value in program.net.inputs.items()}
    lines = list(_lines(program.net.body.block, names))
    results = ", ".join(names[v] for v in program.net.outputs.values())
    return "\n".join([*lines, f"return {results}"])


def _lines(block: Block, names: dict[SSAValue, str]) -> Iterator[str]:
    for op in block.ops:
        if isinstance(op, Param):
            names[op.y] = op.param_name.data
        elif isinstance(op, Fill):
            names[op.y] = f"{op.value.value.data:g}"
        elif isinstance(op, Scan):
            yield from _scan(op, names)
        elif op.results:
            operands = [names[v] for v in op.operands]
            operands += [f"{n}={_text(a)}" for n, a in op.properties.items() if _counts(a)]
            (result,) = op.results
            names[result] = _fresh(result, names)
            yield f"{names[result]} = {op.name.removeprefix('rnn.')}({', '.join(operands)})"


def _scan(scan: Scan, names: dict[SSAValue, str]) -> Iterator[str]:
    """Row t of a sequence s is s[t]; the carry c is c[t-1] before a step, c[t] after it."""
    consts, carry, rows = scan.groups
    names |= {arg: names[outer] for arg, outer in zip(consts, scan.consts, strict=True)}
    names |= {arg: f"{names[outer]}[t]" for arg, outer in zip(rows, scan.xs, strict=True)}
    before, last = ("t+1", "0") if scan.reverse else ("t-1", f"{scan.steps}-1")
    heads, stems = list[str](), list[str]()
    for arg, init, final in zip(carry, scan.inits, scan.finals, strict=True):
        stems.append(names[init] if names[init].isidentifier() else "c")
        names[arg], names[final] = f"{stems[-1]}[{before}]", f"{stems[-1]}[{last}]"
        heads.append(f"{stems[-1]} from {names[init]}")
    body = list(_lines(scan.body.block, names))
    for y in scan.ys:
        names[y] = _fresh(y, names)
    order = "reversed " if scan.reverse else ""
    yield f"for t in {order}0..{scan.steps}{''.join(f', {head}' for head in heads)}:"
    yield from (f"    {line}" for line in body)
    places = [f"{name}[t]" for name in (*stems, *(names[y] for y in scan.ys))]
    for place, value in zip(places, terminator(scan.body.block), strict=True):
        yield f"    {place} = {names[value]}"


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
