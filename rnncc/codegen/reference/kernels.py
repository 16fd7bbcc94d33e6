"""Kernels as C functions: loops over the domain, the body inside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from rnncc.codegen.reference import expressions as c
from rnncc.codegen.reference.region import statements
from rnncc.ir.attributes import get_dim, get_dims
from rnncc.ir.dims import Dim, product
from rnncc.ir.types import FLOATS, dtype_of, shape_text
from rnncc.kern.access import Access, buffer_dtype, dense, get_access
from rnncc.kern.kernels import Contract, Gemm, Kernel, Map, Reduce
from rnncc.kern.moves import Gather, IndexedMove, ListRows, Pack, Reverse, Scatter
from rnncc.kern.signatures import BAD_LENGTH

EMPTY = {
    "sum": {"f32": "0.0f", "f64": "0.0", "i32": "0", "i64": "0"},
    "max": {"f32": "-INFINITY", "f64": "-INFINITY", "i32": "INT32_MIN", "i64": "INT64_MIN"},
    "min": {"f32": "INFINITY", "f64": "INFINITY", "i32": "INT32_MAX", "i64": "INT64_MAX"},
}
"""What a reduction of no elements is."""


@dataclass
class Function:
    """A kernel's function.

    Attributes:
        about: what it computes, for the comment in front of it.
        body: its statements.
        pointers: those that it takes: the name of each, the value, whether it writes there.
        fails: whether it returns a code, 0 where all is well.
    """

    about: str
    body: list[str]
    pointers: dict[SSAValue, str]
    written: set[SSAValue] = field(default_factory=set[SSAValue])

    @property
    def fails(self) -> bool:
        return c.mentions(self.body, "return")

    def parameters(self, symbols: Mapping[str, str]) -> tuple[list[str], list[SSAValue], list[str]]:
        """What it takes: declarations, the pointers' values, and the sizes behind them.

        Args:
            symbols: sizes and loops' indices -> what they are called in C.
        """
        values = [v for v, name in self.pointers.items() if c.mentions(self.body, name)]
        sizes = [name for symbol, name in symbols.items() if c.asks(self.body, symbol)]
        declared = [
            f"{'' if v in self.written else 'const '}{c.C_TYPES[buffer_dtype(v)]} "
            f"*{self.pointers[v]}"
            for v in values
        ]
        return [*declared, *(f"int64_t {name}" for name in sizes)], values, sizes


def write_kernel(op: Operation, names: Mapping[SSAValue, str]) -> Function:
    """A kernel's function, given a name for each of its operands."""
    match op:
        case Map():
            about, body, outs = "Point by point", _map(op, names), op.outs
        case Reduce():
            about, body, outs = f"The {op.kind.data} of points", _reduce(op, names), op.outs
        case Gemm():
            about, body, outs = "Sums of products, then point by point", _gemm(op, names), op.outs
        case Contract():
            about, body, outs = "Sums of rows' products", _contract(op, names), op.outs
        case Pack():
            about, body, outs = "Weights in the order of their use", _pack(op, names), (op.out,)
        case Reverse():
            about, body, outs = "Sequences from last to first", _reverse(op, names), (op.out,)
        case Gather():
            about, body, outs = "Rows by number", _gather(op, names), (op.out,)
        case Scatter():
            about, body, outs = "Rows folded by number", _scatter(op, names), (op.out,)
        case ListRows():
            about, body, outs = "The rows that are computed", _list_rows(op, names), (op.out,)
        case _:
            raise AssertionError(f"{op.name} has no code")
    return Function(about, body, dict(names), set(outs))


def domain_text(op: Operation) -> str:
    """What a kernel runs over, for its comment."""
    return f" over {shape_text(op.dims)}" if isinstance(op, Kernel) and op.dims else ""


def _rows(op: Kernel, names: Mapping[SSAValue, str]) -> tuple[list[tuple[str, str]], list[str]]:
    """The loops over a domain's first axes where only listed rows are computed, and what they set:
    all axes that a row's number runs over; of other kernels, nothing."""
    listing = op.active_rows
    if listing is None:
        return [], []
    rows, dims = names[listing.rows], op.dims[: listing.axes]
    count, entry = f"{rows}[0]", f"{rows}[1 + n]"
    if not listing.where:
        # Rows whose flag is false are behind those whose flag is true.
        count, entry = f"{c.factor(product(dims))} - {rows}[0]", f"{rows}[1 + {rows}[0] + n]"
    lines, inner = list[str](), Dim.of(1)
    for number in reversed(range(listing.axes)):
        at = entry if inner == 1 else f"{entry} / {c.factor(inner)}"
        # The first axis needs no remainder: a row's number is within the domain.
        at = at if number == 0 else f"{at} % {c.factor(dims[number])}"
        lines.insert(0, f"const int64_t {c.axis(number)} = {at};")
        inner = inner * dims[number]
    return [("n", count)], lines


def _over(
    op: Kernel, names: Mapping[SSAValue, str], axes: int, body: Callable[[], list[str]]
) -> list[str]:
    """Loops over a domain's first axes."""
    listed, decoded = _rows(op, names)
    first = op.active_rows.axes if op.active_rows is not None else 0
    plain = [(c.axis(a), c.factor(op.dims[a])) for a in range(first, axes)]

    def inner() -> list[str]:
        code = c.loops(plain, body)
        # Compilers warn of an index that nobody reads.
        return [*(line for line in decoded if c.mentions(code, line.split()[2])), *code]

    return c.loops(listed, inner)


def _load(value: SSAValue, names: Mapping[SSAValue, str], access: Access) -> str:
    text = f"{names[value]}[{c.index(access)}]"
    return f"({text} != 0)" if buffer_dtype(value) == "i1" else text


def _arguments(
    op: Kernel, names: Mapping[SSAValue, str], before: Sequence[str] = ()
) -> tuple[list[str], dict[SSAValue, str]]:
    """Loads of a body's arguments, behind those that have an expression already."""
    arguments = op.body.block.args
    names_of_values = dict[SSAValue, str](zip(arguments, before, strict=False))
    lines = list[str]()
    reads = zip(arguments[len(before) :], op.ins, op.in_accesses, strict=True)
    for number, (argument, value, access) in enumerate(reads):
        # Compilers warn of a variable that nobody reads.
        if argument.first_use:
            names_of_values[argument] = f"x{number}"
            kind = c.VALUE_TYPES[dtype_of(argument)]
            lines.append(f"const {kind} x{number} = {_load(value, names, access)};")
    return lines, names_of_values


def _stores(op: Kernel, names: Mapping[SSAValue, str], values: Sequence[str]) -> list[str]:
    pairs = zip(op.outs, op.out_accesses, values, strict=True)
    return [f"{names[out]}[{c.index(access)}] = {value};" for out, access, value in pairs]


def _map(op: Map, names: Mapping[SSAValue, str]) -> list[str]:
    def point() -> list[str]:
        loads, known = _arguments(op, names)
        lines, values = statements(op.body.block, known, names.values())
        return [*loads, *lines, *_stores(op, names, values)]

    return _over(op, names, len(op.dims), point)


def _reduce(op: Reduce, names: Mapping[SSAValue, str]) -> list[str]:
    kept = len(op.dims) - op.reduced.data
    kind, dtype = op.kind.data, buffer_dtype(op.outs[0])

    def term() -> list[str]:
        loads, known = _arguments(op, names)
        lines, (value,) = statements(op.body.block, known, names.values())
        return [*loads, *lines, f"total = {_combined(kind, dtype, value)};"]

    def point() -> list[str]:
        place = op.out_accesses[0]
        at = f"[{c.index(place, kept)}]"
        start = EMPTY[kind][dtype] if op.init is None else f"{names[op.init]}{at}"
        axes = [(c.axis(a), c.factor(op.dims[a])) for a in range(kept, len(op.dims))]
        store = f"{names[op.outs[0]]}{at} = total;"
        first = f"{c.C_TYPES[dtype]} total = {start};"
        return [first, *c.loops(axes, term, op.order.data == "down"), store]

    return _over(op, names, kept, point)


def _combined(kind: str, dtype: str, value: str) -> str:
    if kind == "sum":
        if dtype in FLOATS:
            return f"total + {value}"
        # Sums that wrap around are undefined in C, but for unsigned numbers.
        unsigned = f"u{c.C_TYPES[dtype]}"
        return f"({c.C_TYPES[dtype]})(({unsigned})total + ({unsigned}){value})"
    if dtype in FLOATS:
        return f"rnncc_{kind}imum{c.ENDINGS[dtype]}(total, {value})"
    return f"total {'>' if kind == 'max' else '<'} {value} ? total : {value}"


def _gemm(op: Gemm, names: Mapping[SSAValue, str]) -> list[str]:
    """Weights are packed by units: for each k, one weight for each slot."""
    depth, slots, rows = op.depth.data, op.slots.data, len(op.dims) - 1
    unit, sums = c.axis(rows), [f"z{slot}" for slot in range(op.slots.data)]
    assert op.panel.data == 1, "weights of one unit stand together"
    access = get_access(op.a_access)
    row = Access(access.offset, access.strides[:-1])
    step, dtype = access.strides[-1], buffer_dtype(op.weights)
    real, zero = c.C_TYPES[dtype], EMPTY["sum"][dtype]

    def point() -> list[str]:
        left = c.index(Access(row.offset, (*row.strides,)))
        at = "k" if step == 1 else f"{c.factor(step)} * k"
        weights = f"{names[op.weights]} + {unit} * {depth * slots}"
        lines = [f"const {real} *const w = {weights};"]
        lines += [f"{real} {name} = {zero};" for name in sums]
        lines.append(f"for (int64_t k = 0; k < {depth}; k++) {{")
        lines.append(f"    const {real} a = {names[op.a]}[{left} + {at}];")
        for slot, name in enumerate(sums):
            place = "k" if slots == 1 else f"{slots} * k" + (f" + {slot}" if slot else "")
            lines.append(f"    {name} += a * w[{place}];")
        loads, known = _arguments(op, names, sums)
        body, values = statements(op.body.block, known, names.values())
        return [*lines, "}", *loads, *body, *_stores(op, names, values)]

    return _over(op, names, len(op.dims), point)


def _contract(op: Contract, names: Mapping[SSAValue, str]) -> list[str]:
    depth, rows, columns = op.sizes
    out = f"{names[op.out]}[i0 * {c.factor(columns)} + i1]"
    dtype = buffer_dtype(op.out)
    real, start = c.C_TYPES[dtype], EMPTY["sum"][dtype]
    if op.init is not None:
        start = f"{names[op.init]}[i0 * {c.factor(columns)} + i1]"
    left, right = _operand(op, names, False), _operand(op, names, True)
    m, n = ("i0", c.factor(rows)), ("i1", c.factor(columns))

    def row() -> list[str]:
        add = c.loops([n], lambda: [f"{out} += a * b[i1];"])
        return [f"const {real} a = ({left})[i0];", *add]

    def step() -> list[str]:
        return [f"const {real} *const b = {right};", *c.loops([m], row)]

    begin = c.loops([m, n], lambda: [f"{out} = {start};"])
    # k is the outermost loop, so that rows are read as they lie
    return [*begin, *c.loops([("k", c.factor(depth))], step, bool(op.reverse))]


def _operand(op: Contract, names: Mapping[SSAValue, str], of_b: bool) -> str:
    """Row k of an operand; where it is shifted, of the rows in front of it or behind it."""
    value, attribute = (op.b, op.b_access) if of_b else (op.a, op.a_access)
    access, width = get_access(attribute), op.sizes[2 if of_b else 1]
    stride = access.strides[0]

    def row(k: str) -> str:
        return f"{names[value]} + {c.factor(access.offset)} + ({k}) * {c.factor(stride)}"

    if op.first is None or bool(op.of_b) != of_b:
        return row("k")
    shift, first = c.factor(op.shifted_by), names[op.first]
    if op.late:
        # The rows that are shifted out at the front are not read; those of `first` follow the last.
        kept = f"{c.factor(op.sizes[0])} - {shift}"
        other = f"{first} + (k - ({kept})) * {c.factor(width)}"
        return f"k < {kept} ? {row(f'k + {shift}')} : {other}"
    return f"k < {shift} ? {first} + k * {c.factor(width)} : {row(f'k - {shift}')}"


def _pack(op: Pack, names: Mapping[SSAValue, str]) -> list[str]:
    slots, depth = len(op.ins), op.depth.data
    assert op.panel.data == 1, "weights of one unit stand together"

    def element() -> list[str]:
        return [
            f"{names[op.out]}[(i0 * {depth} + i1) * {slots} + {slot}] = "
            f"{names[source]}[{c.index(access)}];"
            for slot, (source, access) in enumerate(zip(op.ins, op.in_accesses, strict=True))
        ]

    return c.loops([("i0", str(op.units.data)), ("i1", str(depth))], element)


def _reverse(op: Reverse, names: Mapping[SSAValue, str]) -> list[str]:
    dims = get_dims(op.dims)
    steps, columns, inner = map(c.factor, dims)
    plain = c.index(Access(Dim.of(0), dense(dims)))
    mirrored = f"(from * {columns} + i1) * {inner} + i2"

    def column() -> list[str]:
        copy = c.loops(
            [("i0", steps), ("i2", inner)],
            lambda: [
                "const int64_t from = i0 < length ? length - 1 - i0 : i0;",
                f"{names[op.out]}[{plain}] = {names[op.x]}[{mirrored}];",
            ],
        )
        check = f"if (length < 0 || length > {steps})"
        length = f"const int64_t length = {names[op.lengths]}[i1];"
        return [length, check, f"    return {BAD_LENGTH};", *copy]

    return [*c.loops([("i1", columns)], column), "return 0;"]


def _check_index(op: IndexedMove, names: Mapping[SSAValue, str]) -> list[str]:
    count, rows = c.factor(get_dims(op.dims)[1]), c.factor(get_dim(op.size))
    at = f"{names[op.index]}[i1]"
    check = [f"if ({at} < 0 || {at} >= {rows})", f"    return {op.error};"]
    return c.loops([("i1", count)], lambda: check)


def _by_index(op: IndexedMove, names: Mapping[SSAValue, str], *statements: str) -> list[str]:
    """Statements for each element of `dims`: `row` and `numbered` are its places."""
    outer, count, inner = map(c.factor, get_dims(op.dims))
    places = [
        f"const int64_t row = (i0 * {count} + i1) * {inner} + i2;",
        f"const int64_t numbered = (i0 * {c.factor(get_dim(op.size))} + {names[op.index]}[i1])"
        f" * {inner} + i2;",
        *statements,
    ]
    return c.loops([("i0", outer), ("i1", count), ("i2", inner)], lambda: places)


def _gather(op: Gather, names: Mapping[SSAValue, str]) -> list[str]:
    move = f"{names[op.out]}[row] = {names[op.x]}[numbered];"
    return [*_check_index(op, names), *_by_index(op, names, move), "return 0;"]


def _scatter(op: Scatter, names: Mapping[SSAValue, str]) -> list[str]:
    start = "0" if op.init is None else f"{names[op.init]}[i]"
    whole = [("i", c.factor(product(op.numbered)))]
    begin = c.loops(whole, lambda: [f"{names[op.out]}[i] = {start};"])
    here, dtype = f"{names[op.out]}[numbered]", buffer_dtype(op.out)
    fold = [
        f"const {c.C_TYPES[dtype]} total = {here};",
        f"{here} = {_combined(op.kind.data, dtype, f'{names[op.x]}[row]')};",
    ]
    return [*_check_index(op, names), *begin, *_by_index(op, names, *fold), "return 0;"]


def _list_rows(op: ListRows, names: Mapping[SSAValue, str]) -> list[str]:
    """True rows from the front, the others from the back."""
    out, kind = names[op.out], c.C_TYPES[buffer_dtype(op.out)]
    flag = f"{names[op.flags]}[{c.index(get_access(op.access))}] != 0"
    axes = [(c.axis(number), c.factor(dim)) for number, dim in enumerate(op.dims)]
    step = [f"if ({flag})", f"    {out}[1 + chosen++] = row;", "else", f"    {out}[last--] = row;"]
    return [
        # The count comes first, so that the last number's place is the product itself.
        f"int64_t chosen = 0, last = {c.size(product(op.dims))};",
        f"{kind} row = 0;",
        *c.loops(axes, lambda: [*step, "row++;"]),
        f"{out}[0] = ({kind})chosen;",
    ]
