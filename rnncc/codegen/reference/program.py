"""A kernel program as a C function that walks loops and calls kernels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from xdsl.ir import Operation, SSAValue

from rnncc.codegen.reference import expressions as c
from rnncc.codegen.reference.kernels import domain_text, write_kernel
from rnncc.codegen.reference.pointers import Pointers, declared, kind_of
from rnncc.codegen.reference.region import FUNCTIONS, ROUNDINGS
from rnncc.ir.attributes import get_dim
from rnncc.ir.dims import Dim
from rnncc.ir.ops.control import Yield
from rnncc.kern.dialect import Buffer, For, Gate, Limit, Row, ShiftedRow
from rnncc.kern.kernels import Kernel
from rnncc.kern.moves import ContinuedSum
from rnncc.kern.program import KernelProgram
from rnncc.kern.signatures import PAST_LIMIT
from rnncc.names import c_names, in_comment
from rnncc.planning.served_outputs import served_outputs

LIBM = (*FUNCTIONS.values(), *ROUNDINGS.values(), "fmod", "sin", "cos")
"""Functions of C's library that code calls, as they are called for double."""
RESERVED = {
    *("ports", "workspace", "error", "k", "n", "from", "w", "a", "b", "row", "numbered", "length"),
    *("chosen", "last", "total", "memcpy", "isnan", "i"),
    *(f"{name}{letter}" for name in LIBM for letter in c.LETTERS.values()),
    *(f"{letter}{number}" for letter in "ixz" for number in range(1000)),
}
"""What names of values may not be, as code has another use for it."""


class ProgramWriter:
    """Writes a program's kernels, the struct of its ports and its function.

    Args:
        prefix: what the names of its functions begin with.
        symbols: the names of sizes in C.
        params: the names of the arrays that hold packed parameters, by their place.
    """

    def __init__(
        self,
        program: KernelProgram,
        prefix: str,
        symbols: Mapping[str, str],
        params: Mapping[int, str],
    ) -> None:
        self.program, self.prefix, self.symbols = program, prefix, dict(symbols)
        self.pointers = Pointers(program, params, {*RESERVED, *symbols.values()})
        self.names, self.live = self.pointers.names, self.pointers.live
        self.kernels: list[str] = []
        self.served_outputs = served_outputs(program)
        self._count = 0

    def write(self) -> list[str]:
        """All that the program is in C."""
        begin = self.pointers.declarations()
        body, _ = self._block(self.program.func.body.block.ops)
        body = c.resolved([*begin, *body, "return 0;"], self.symbols)
        symbols = [self.symbols[symbol] for symbol in self.program.symbols]
        sizes = "".join(f", int64_t {name}" for name in symbols)
        named = ("ports", "workspace", *symbols)
        unused = [f"(void){name};" for name in named if not c.mentions(body, name)]
        error = ["int error;"] if c.mentions(body, "error") else []
        head = f"static int {self.prefix}_program(const struct {self.prefix}_ports *ports,"
        return [
            *self.kernels,
            *self.pointers.struct(self.prefix),
            f"/* The program `{self.prefix}`: kernels in order, in loops over time. */",
            head,
            f"    unsigned char *workspace{sizes})",
            "{",
            *c.indented([*unused, *error, *body]),
            "}",
            "",
        ]

    def _block(self, ops: Iterable[Operation]) -> tuple[list[str], tuple[SSAValue, ...]]:
        """Statements for ops in order, and what they end with."""
        lines = list[str]()
        for op in ops:
            match op:
                case Buffer():
                    continue
                case Yield():
                    return lines, tuple(op.values)
                case Row() | ShiftedRow():
                    lines += self._row(op)
                case For():
                    lines += self._for(op)
                case Gate():
                    # Behind a `last` gate that is closed no iteration runs any more.
                    end = "break" if op.last else "continue"
                    lines += [f"if (!{self.names[op.flag]}[0])", f"    {end};"]
                case Limit():
                    lines += [f"if ({self.names[op.flag]}[0])", f"    return {PAST_LIMIT};"]
                case _:
                    lines += self._kernel(op)
        return lines, ()

    def _row(self, op: Row | ShiftedRow) -> list[str]:
        if op.y not in self.live:
            return []
        base = self.names[op.buffer]
        index, stride = get_dim(op.index), get_dim(op.stride)
        if isinstance(op, ShiftedRow):
            index = index + op.step.data
        place = self.pointers.place(op.buffer, index, stride)
        text = base if place == "0" else f"{base} + {place}"
        if isinstance(op, ShiftedRow):
            edge = f"{c.size(get_dim(op.index))} == {c.size(get_dim(op.edge))}"
            text = f"{edge} ? {self.names[op.init]} : {text}"
        self.names[op.y] = self.pointers.fresh(f"{self.pointers.label_of(op.y)}_row")
        return declared(op.y, self.names[op.y], text)

    def _kernel(self, op: Operation) -> list[str]:
        """Write a kernel's function, and call it unless nothing that it writes is wanted."""
        self._count += 1
        outs = list(op.outs) if isinstance(op, Kernel | ContinuedSum) else [op.operands[-1]]
        labels = {
            value: self.pointers.label_of(value) for value in op.operands if value in self.live
        }
        # A function is named by what it writes first.
        [tail] = c_names([labels[outs[0]]])
        name = f"{self.prefix}_{self._count}_{tail}"
        chosen = c_names(labels.values(), self._reserved_names())
        function = write_kernel(op, dict(zip(labels, chosen, strict=True)))
        declared, values, sizes = function.parameters(self.symbols)
        kind = "int" if function.fails else "void"
        written = ", ".join(dict.fromkeys(in_comment(labels[out]) for out in outs))
        self.kernels += [
            f"/* {function.about}{domain_text(op)}: {written}. */",
            *_joined(f"static {kind} {name}(", _wrapped(declared or ["void"], ")")),
            "{",
            *c.indented(c.resolved(function.body, self.symbols)),
            "}",
            "",
        ]
        call = _joined(f"{name}(", _wrapped([*(self.names[v] for v in values), *sizes], ");"))
        if function.fails:
            call = [f"error = {call[0]}", *call[1:], "if (error != 0)", "    return error;"]
        # Others have memory that stands in for them, and are computed in any case.
        alone = outs if all(_is_skippable(out) for out in outs) else []
        served = [output.y for output in self.served_outputs.get(op, ())] or alone
        if not served:
            return call
        requested = [f"{self.pointers.argument(output)} != NULL" for output in served]
        return [*_condition(requested), *c.indented(call), "}"]

    def _reserved_names(self) -> set[str]:
        """Names that no parameter of a kernel may have."""
        return {*RESERVED, *self.symbols.values()}

    def _for(self, op: For) -> list[str]:
        """A loop over single steps or over chunks of steps."""
        lines, args = list[str](), list(op.body.block.args)
        carried = [
            (arg, init, final)
            for arg, init, final in zip(args, op.inits, op.finals, strict=True)
            if arg in self.live or final in self.live
        ]
        for arg, init, final in carried:
            name = self.pointers.fresh(f"{self.pointers.label_of(init)}_now")
            # One variable, which behind the loop is the final.
            self.names[arg] = self.names[final] = name
            lines.append(f"{kind_of(arg)} *{name} = {self._variable(init)};")
        head, indices = self._chunks(op) if op.chunk is not None else self._steps(op)
        body, yielded = self._block(op.body.block.ops)
        body += self._carry([(arg, yielded[args.index(arg)]) for arg, _, _ in carried])
        named = list[str]()
        # From the last on, as an index may be needed by those behind it alone.
        for line in reversed(indices):
            if any(line.split()[2] in other for other in (*named, *body)):
                named.insert(0, line)
        return [*lines, *head, *c.indented([*named, *body]), "}"]

    def _steps(self, op: For) -> tuple[list[str], list[str]]:
        """The head of a loop over steps, and what its body may ask for beyond its index."""
        start, count = get_dim(op.start), get_dim(op.count)
        index, end = self._index(op.index.data), c.size(start + count)
        head = f"for (int64_t {index} = {c.size(start)}; {index} < {end}; {index}++) {{"
        if op.reverse:
            last = c.size(start + count - 1)
            head = f"for (int64_t {index} = {last}; {index} >= {c.size(start)}; {index}--) {{"
        more = list[str]()
        if op.iteration is not None:
            number = c.size(Dim.of(op.index.data) - start)
            more = [f"const int64_t {self._index(op.iteration.data)} = {number};"]
        return [head], more

    def _chunks(self, op: For) -> tuple[list[str], list[str]]:
        """The same of a loop over chunks of steps: its first step, how many, the chunk's number."""
        assert op.chunk is not None and op.rows is not None and op.extent is not None
        start, count, rows = (get_dim(d) for d in (op.start, op.count, op.rows))
        most, index = self.pointers.fresh(f"most_{op.index.data}"), self._index(op.index.data)
        extent, number = self._index(op.extent.data), self.pointers.fresh(f"chunk_{op.index.data}")
        per_chunk = f"{op.chunk.data} / rnncc_larger({c.size(rows)}, 1)"
        chunks = f"rnncc_parts({c.size(count)}, {most})"
        head = f"for (int64_t {number} = 0; {number} < {chunks}; {number}++) {{"
        if op.reverse:
            head = f"for (int64_t {number} = {chunks} - 1; {number} >= 0; {number}--) {{"
        first = f"{number} * {most}" if start == 0 else f"{c.size(start)} + {number} * {most}"
        rest = c.size(start + count - Dim.of(op.index.data))
        more = [
            f"const int64_t {index} = {first};",
            f"const int64_t {extent} = rnncc_smaller({most}, {rest});",
        ]
        if op.iteration is not None:
            more.append(f"const int64_t {self._index(op.iteration.data)} = {number};")
        return [f"const int64_t {most} = rnncc_larger({per_chunk}, 1);", head], more

    def _index(self, symbol: str) -> str:
        """A loop's index, which gets a name in C."""
        self.symbols[symbol] = self.pointers.fresh(symbol)
        return c.placeholder(symbol)

    def _variable(self, value: SSAValue) -> str:
        """A pointer as a loop carries it: arrays of the library are const, variables are not."""
        is_param = isinstance(value.owner, Buffer) and value.owner.role.data == "param"
        return f"({kind_of(value)} *){self.names[value]}" if is_param else self.names[value]

    def _carry(self, pairs: Sequence[tuple[SSAValue, SSAValue]]) -> list[str]:
        """What the next iteration begins with; all at once where one needs another's old value."""
        moved = [(arg, value) for arg, value in pairs if self.names[arg] != self.names[value]]
        old = {self.names[arg] for arg, _ in moved}
        if not any(self.names[value] in old for _, value in moved):
            return [f"{self.names[arg]} = {self._variable(value)};" for arg, value in moved]
        lines, names = list[str](), list[str]()
        for arg, value in moved:
            names.append(self.pointers.fresh(f"{self.names[arg]}_next"))
            lines.append(f"{kind_of(arg)} *const {names[-1]} = {self._variable(value)};")
        pairs_ = zip(moved, names, strict=True)
        return [*lines, *(f"{self.names[arg]} = {name};" for (arg, _), name in pairs_)]


def _is_skippable(value: SSAValue) -> bool:
    op = value.owner
    return isinstance(op, Buffer) and op.role.data == "output" and op.fallback_size == 0


def _joined(head: str, lines: list[str]) -> list[str]:
    """A head and what follows, on one line where that is short."""
    if len(lines) == 1 and len(head) + len(lines[0].lstrip()) < 88:
        return [head + lines[0].lstrip()]
    return [head, *lines]


def _condition(any_of: Sequence[str]) -> list[str]:
    """The head of what is done if one of some conditions holds, on one line where that is short."""
    line = f"if ({' || '.join(any_of)}) {{"
    if len(line) < 88:
        return [line]
    first, *others, last = any_of
    return [f"if ({first}", *(f"    || {other}" for other in others), f"    || {last}) {{"]


def _wrapped(words: Sequence[str], end: str) -> list[str]:
    """Words with commas between them, in lines."""
    lines, line = list[str](), "   "
    for number, word in enumerate(words):
        word += "," if number + 1 < len(words) else end
        if len(line) + len(word) > 96:
            lines.append(line)
            line = "   "
        line += f" {word}"
    return [*lines, line] if words else [f"    {end}"]
