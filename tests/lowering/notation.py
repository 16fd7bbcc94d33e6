"""Kernels in a few lines, for docstrings: what each reads and writes at a point of its domain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Operation, SSAValue

from rnncc.ir.attributes import get_dim
from rnncc.ir.dims import Dim
from rnncc.ir.ops.control import Yield
from rnncc.ir.ops.source import Fill, Size
from rnncc.kern.access import Access, dense, get_access
from rnncc.kern.dialect import Buffer, For, Row, ShiftedRow
from rnncc.kern.kernels import Contract, Gemm, Index, Kernel, Reduce
from rnncc.kern.moves import Gather, ListRows, Pack, Reverse, Scatter
from rnncc.kern.program import KernelProgram

AXES = "ijklmn"
SIGNS = {"rnn.add": " + ", "rnn.sub": " - ", "rnn.mul": " * ", "rnn.div": " / "}
Names = dict[SSAValue, str]


def show(program: KernelProgram) -> str:
    """Buffers that are neither inputs nor whole outputs, then loops and kernels, a line each.

    Dense accesses are a name alone; others show the element at the point i, j, ... of the domain.
    """
    return "\n".join(_lines(program.func.body.block, {}))


def _lines(block: Block, names: Names) -> Iterator[str]:
    for op in block.ops:
        match op:
            case Buffer():
                names[op.y] = op.label.data
                yield from _buffer(op)
            case Row():
                names[op.y] = f"{names[op.buffer]}[{op.index.data}]"
            case ShiftedRow():
                at = get_dim(op.index) + op.step.data
                names[op.y] = f"({names[op.buffer]}[{at}] or {names[op.init]})"
            case For():
                yield from _loop(op, names)
            case Kernel():
                yield _kernel(op, names)
            case Yield():
                pass
            case _:
                yield _move(op, names)


def _move(op: Operation, names: Names) -> str:
    """What moves elements, or lists rows, and the sums of what is in memory already."""
    match op:
        case Contract():
            k, m, n = op.sizes
            terms = f"{names[op.a]}[k, m] * {names[op.b]}[k, n]"
            sums = f"{_start(op.init, names)}sum k in {k} {terms}"
            return f"contract m in {m}, n in {n}: {names[op.out]} = {sums}"
        case Pack():
            return f"pack {names[op.out]} = {', '.join(names[v] for v in op.ins)}"
        case ListRows():
            flags = _element(names[op.flags], get_access(op.access), op.dims)
            return f"list {names[op.out]} = rows where {flags}"
        case Reverse():
            return f"reverse {names[op.out]} = {names[op.x]} by {names[op.lengths]}"
        case Gather():
            return f"gather {names[op.out]} = {names[op.x]} by {names[op.index]}"
        case Scatter():
            rows = f"{_start(op.init, names)}{names[op.x]}"
            return f"scatter {names[op.out]} = {rows} by {names[op.index]}"
        case _:
            raise NotImplementedError(op.name)


def _start(init: SSAValue | None, names: Names) -> str:
    return f"{names[init]} + " if init is not None else ""


def _buffer(op: Buffer) -> Iterator[str]:
    role, notes = op.role.data, list[str]()
    if op.rows_kept is not None:
        notes.append(f"ring of {op.rows_kept}")
    if op.fallback_size != 0:
        notes.append(f"stand-in of {op.fallback_size}")
    if op.default is not None:
        notes.append(f"or {op.default.data}")
    if role in ("scratch", "state") or notes:
        yield f"{role} {op.label.data}: {', '.join([op.size.data, *notes])}"


def _loop(loop: For, names: Names) -> Iterator[str]:
    index, head = loop.index.data, ""
    for arg, init, final in zip(loop.body.block.args, loop.inits, loop.finals, strict=True):
        names[arg] = names[final] = next(p for p in "pqrs" if p not in names.values())
        head += f", {names[arg]} from {names[init]}"
    start, count = get_dim(loop.start), get_dim(loop.count)
    order, chunk = "reversed " if loop.reverse else "", ""
    if loop.extent is not None:
        chunk = f" in chunks of {loop.extent.data}"
    yield f"for {index} in {order}{start}..{start + count}{chunk}{head}:"
    body = list(_lines(loop.body.block, names))
    yield from (f"    {line}" for line in body)
    for arg, value in zip(loop.body.block.args, loop.yields, strict=True):
        yield f"    {names[arg]} = {names[value]}"


def _kernel(op: Kernel, names: Names) -> str:
    dims = op.dims
    values = Names(_arguments(op, names))
    for inner in op.body.block.ops:
        if inner.results:
            values[inner.results[0]] = _expression(inner, values)
    kept = len(dims) - (op.reduced.data if isinstance(op, Reduce) else 0)
    outs = [
        f"{_element(names[v], a, dims[:kept])} = {_sum(op, kept, names)}{_bare(values[y])}"
        for v, a, y in zip(op.outs, op.out_accesses, op.yields, strict=True)
    ]
    domain = ", ".join(f"{axis} in {size}" for axis, size in zip(AXES, dims[:kept], strict=False))
    rows = ""
    if op.active_rows is not None:
        rows = f" of {names[op.active_rows.rows]}" if op.active_rows.where else ""
        rows = rows or f" not of {names[op.active_rows.rows]}"
    return f"{op.name.removeprefix('kern.')} {domain}{rows}: {'; '.join(outs)}"


def _arguments(op: Kernel, names: Names) -> Iterator[tuple[SSAValue, str]]:
    args = list(op.body.block.args)
    slots = op.slots.data if isinstance(op, Gemm) else 0
    if isinstance(op, Gemm):
        weights = names[op.weights]
        axes = AXES[: len(op.dims) - 1] + "def"[: len(op.k_dims)]
        left = _element(names[op.a], get_access(op.a_access), (*op.dims[:-1], *op.k_dims), axes)
        for slot, arg in enumerate(args[:slots]):
            yield arg, f"{left}·{weights}" + (f".{slot}" if slots > 1 else "")
    for arg, value, access in zip(args[slots:], op.ins, op.in_accesses, strict=True):
        yield arg, _element(names[value], access, op.dims)


def _sum(op: Kernel, kept: int, names: Names) -> str:
    if not isinstance(op, Reduce):
        return ""
    axes = zip(AXES[kept:], op.dims[kept:], strict=False)
    over = ", ".join(f"{axis} in {size}" for axis, size in axes)
    return f"{_start(op.init, names)}{op.kind.data} {over} "


def _element(name: str, access: Access, dims: Sequence[Dim], axes: str = AXES) -> str:
    """A buffer's element at a point."""
    if access.offset == 0 and access.strides[: len(dims)] == dense(dims):
        return name
    terms = [
        axis if stride == 1 else f"{stride}*{axis}"
        for axis, stride in zip(axes, access.strides, strict=False)
        if stride != 0
    ]
    terms += [str(access.offset)] if access.offset != 0 or not terms else []
    return f"{name}[{' + '.join(terms)}]".replace("+ -", "- ")


def _expression(op: Operation, values: Names) -> str:
    if isinstance(op, Index):
        return AXES[op.axis.data]
    if isinstance(op, Fill):
        return f"{op.value.value.data:g}"
    if isinstance(op, Size):
        return op.dim.data
    operands = [values[v] for v in op.operands]
    sign = SIGNS.get(op.name)
    if sign is not None:
        return f"({sign.join(operands)})"
    kind = op.properties.get("kind")
    name = kind.data if isinstance(kind, StringAttr) else op.name.removeprefix("rnn.")
    return f"{name}({', '.join(map(_bare, operands))})"


def _bare(text: str) -> str:
    """Without the parentheses of a sum or product, which nothing is around of here."""
    depths = list(accumulate((c == "(") - (c == ")") for c in text))
    return text[1:-1] if text.startswith("(") and depths.index(0) == len(text) - 1 else text
