"""Outlining: a kernel that occurs more than once, as in equal layers, becomes one function.

A function takes the kernel's pointers, the thread's part if there are several, the number of the
loop's iteration, and the sizes and indices that it uses. What stands once, and what is so short
that a call would count, is written where it stands, but for short products that stand often; and in
a large program, since LLVM's time grows with the square of a function's length, each kernel is a
function, which serves all that differ from it in numbers alone: they are arguments
(`open_sizes.py`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from math import prod

from llvmlite import ir
from xdsl.ir import Attribute, Operation, SSAValue

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.cpu.gemm.sizes import GemmSizes
from rnncc.codegen.cpu.machine.core import Core
from rnncc.codegen.cpu.open_sizes import OpenedKernel
from rnncc.codegen.cpu.threads import Team
from rnncc.codegen.llvm.values import I1, I64, POINTER, Pointer
from rnncc.kern.dialect import For
from rnncc.kern.kernels import Contract, Gemm, Map, Reduce
from rnncc.kern.moves import ListRows, Pack
from rnncc.kern.program import KernelProgram

Write = Callable[
    [CpuEmit, Operation, Mapping[SSAValue, Pointer], GemmSizes | None, Map | None], None
]

_Scope = tuple[frozenset[str], frozenset[str]]
"""Names of sizes, and of loops' indices and extents."""

SHORT = 1 << 14
"""Multiply-adds of a product, for one row: some 200 ns, of which a call is a hundredth."""

OFTEN = 8
"""Times that a short product of several rows stands before it is a function. The evaluations of an
RK4 solver have one each: a cell of 16, for any batch, is read and compiled in 1.9 s of processor
time, not 4.4. Of one row a product is short code, beside which a call counts."""

MANY, LARGE = 100, 2000
"""Kernels of a program, and ops in all, above which each kernel is a function."""

_WORD = re.compile(r"\w+")


class OutlinedKernels:
    """The functions of kernels of one module.

    Args:
        programs: all that goes into the module.
        write: writes a kernel's code.
        late: products that pack their weights themselves, which are no functions.
        finished: reductions that may compute the map behind them.
    """

    def __init__(
        self,
        programs: Iterable[KernelProgram],
        target: Core,
        write: Write,
        late: Mapping[Gemm, Pack] | None = None,
        finished: Mapping[Reduce, Map] | None = None,
    ) -> None:
        self.write, self.target, self.late = write, target, late or {}
        self.finished = finished or {}
        self.counts = Counter[str]()
        self.thens = dict[Operation, Map]()
        self.forms = dict[Operation, tuple[str, list[str]]]()
        self.opened = dict[Operation, OpenedKernel]()
        self._scopes = dict[Operation, _Scope]()
        self.functions = dict[tuple[object, ...], ir.Function]()
        self._short = list[Operation]()
        for program in programs:
            self._count(program)
        self._close_singles()
        self._write_seldom()

    def _count(self, program: KernelProgram) -> None:
        ops = list(program.func.walk())
        scope = frozenset(program.symbols), frozenset(_names_of_loops(ops))
        large = len(ops) > LARGE or sum(isinstance(op, _KERNELS) for op in ops) > MANY
        if large:  # where each is a function: elsewhere what stands around decides
            reductions = [op for op in ops if isinstance(op, Reduce)]
            self.thens |= {op: self.finished[op] for op in reductions if op in self.finished}
        maps = set(self.thens.values())
        for op in ops:
            if op in self.late or op in maps:
                continue
            if large and isinstance(op, _KERNELS):
                self._open(op, scope)
                # Two, so that in a large program what stands once is a function as well.
                self._add(op, scope, 2)
            elif _is_long(op):
                self._add(op, scope, 1)
            elif isinstance(op, Gemm) and any(d != 1 for d in op.dims[:-1]):
                self._short.append(op)
                self._add(op, scope, 1)

    def _open(self, op: Operation, scope: _Scope) -> None:
        """Let a function serve all kernels that differ from this one in numbers alone.

        400 products of as many sizes take 3.0 s to compile so; they took 18.1 s without.
        """
        if op in self.thens:
            return
        opened = OpenedKernel.of(self.target, op)
        if opened is not None and opened.numbers.keys().isdisjoint(scope[0] | scope[1]):
            self.opened[op], self._scopes[op] = opened, scope

    def _add(self, op: Operation, scope: _Scope, times: int) -> None:
        self.forms[op] = _form(op, *scope, self.opened.get(op), self.thens.get(op))
        self.counts[self.forms[op][0]] += times

    def _close_singles(self) -> None:
        """Give those that differ from no other in numbers alone their numbers back.

        Code for any numbers has a variant for all that numbers would decide: where one axis is the
        innermost, whether vectors fill it.
        """
        for op in [op for op in self.opened if self.counts[self.forms[op][0]] == 2]:
            del self.opened[op], self.counts[self.forms[op][0]]
            self._add(op, self._scopes[op], 2)

    def _write_seldom(self) -> None:
        """Let short products that do not stand often be written where they stand."""
        for op in self._short:
            if self.counts[self.forms[op][0]] < OFTEN:
                del self.forms[op]

    def is_function(self, op: Operation) -> bool:
        """Whether a kernel stands more than once, or in a large program."""
        return op in self.forms and self.counts[self.forms[op][0]] > 1

    def call(self, emit: CpuEmit, op: Operation, pointers: Mapping[SSAValue, Pointer]) -> bool:
        """Call the function of a kernel that stands more than once; False for others."""
        if not self.is_function(op):
            return False
        form, symbols = self.forms[op]
        then = self.thens.get(op)
        values = op.operands if then is None else (*op.operands, *then.operands)
        operands = {value: pointers[value] for value in values}
        kinds = tuple((p.dtype, p.absent is None, p.ring, p.skippable) for p in operands.values())
        key = form, kinds, emit.team is None  # a single step is for one thread in any library
        function = self.functions.get(key)
        if function is None:
            function = self._define(emit, op, operands, symbols)
            self.functions[key] = function
        absent = [p.absent for p in operands.values() if p.absent is not None]
        opened = self.opened.get(op)
        numbers = {} if opened is None else opened.numbers
        sizes = [I64(numbers[n]) if n in numbers else emit.symbols[n] for n in symbols]
        iteration = I64(0) if emit.iteration is None else emit.iteration
        team = [] if emit.team is None else [emit.team.struct]
        emit.b.call(
            function, [*(p.base for p in operands.values()), *team, iteration, *absent, *sizes]
        )
        return True

    def _define(
        self, emit: CpuEmit, op: Operation, operands: Mapping[SSAValue, Pointer], symbols: list[str]
    ) -> ir.Function:
        flags = [value for value, p in operands.items() if p.absent is not None]
        places = len(operands) + (emit.team is not None)
        types = [*[POINTER] * places, I64, *[I1] * len(flags), *[I64] * len(symbols)]
        name = f"{emit.module.name}_kernel_{len(self.functions)}"
        function = ir.Function(emit.module, ir.FunctionType(ir.VoidType(), types), name)
        function.linkage = "internal"
        function.attributes.add("nounwind")
        iteration, *rest = function.args[places:]
        absent = dict(zip(flags, rest, strict=False))
        pointers = {
            value: replace(p, base=base, absent=absent.get(value))
            for (value, p), base in zip(operands.items(), function.args, strict=False)
        }
        inner = CpuEmit.begin(function, emit.target, symbols)
        inner.iteration = iteration
        if emit.team is not None:
            inner.team = Team(emit.module, inner.b, function.args[len(operands)])
        opened = self.opened.get(op)
        if opened is None:
            self.write(inner, op, pointers, None, self.thens.get(op))
        else:
            kernel = opened.kernel(op)
            self.write(inner, kernel, pointers, opened.product, None)
            kernel.erase()
        inner.b.ret_void()
        return function


_KERNELS = (Map, Reduce, Gemm, Contract, Pack, ListRows)


def _names_of_loops(ops: Iterable[Operation]) -> Iterator[str]:
    """Of their indices, extents and numbers of iterations."""
    for loop in ops:
        if isinstance(loop, For):
            names = loop.index, loop.extent, loop.iteration
            yield from (name.data for name in names if name is not None)


def _is_long(op: Operation) -> bool:
    """Whether a kernel takes much longer than a call."""
    if isinstance(op, Gemm):
        return prod(int(d) for d in op.dims if d.is_static) * op.depth.data >= SHORT
    return isinstance(op, Contract | Pack)


def _form(
    op: Operation,
    sizes: frozenset[str],
    own: frozenset[str],
    opened: OpenedKernel | None,
    then: Map | None = None,
) -> tuple[str, list[str]]:
    """What equal kernels have in common, loops' indices named by the order in which they occur;
    and the symbols that a kernel uses, in that order."""
    used, values = dict[str, str](), dict[SSAValue, int]()
    structure: object = _structure(op, values, {} if opened is None else opened.properties)
    if then is not None:
        structure = structure, _structure(then, values, {})
    if opened is not None:
        own = own | opened.numbers.keys()
        structure = structure, opened.product

    def named(match: re.Match[str]) -> str:
        word = match[0]
        if word in sizes or word in own:
            # Indices of loops are numbered as they come, so that kernels of different loops are
            # equal; the sizes of the call mean the same everywhere and keep their names.
            used.setdefault(word, word if word in sizes else f"${len(used)}")
        return used.get(word, word)

    return _WORD.sub(named, str(structure)), list(used)


def _structure(
    op: Operation, numbers: dict[SSAValue, int], changed: Mapping[str, Attribute]
) -> tuple[object, ...]:
    """An op and what is inside, its values as numbers; `changed`: properties that are others."""
    operands = [numbers.setdefault(value, len(numbers)) for value in op.operands]
    properties = sorted((name, str(v)) for name, v in {**op.properties, **changed}.items())
    inside: list[object] = []
    for block in (block for region in op.regions for block in region.blocks):
        for argument in block.args:
            numbers.setdefault(argument, len(numbers))
        inside.append([str(argument.type) for argument in block.args])
        inside.append([_structure(inner, numbers, {}) for inner in block.ops])
    for value in op.results:
        numbers.setdefault(value, len(numbers))
    types = [str(value.type) for value in op.results]
    return op.name, operands, properties, inside, types
