"""The body of a kernel as vector code: what does not vary along the lanes is computed once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence

from llvmlite import ir
from xdsl.ir import Block, Operation, SSAValue

from rnncc.codegen.llvm.emit import Emit
from rnncc.codegen.llvm.narrow import narrowed, widened
from rnncc.codegen.llvm.random import uniform
from rnncc.codegen.llvm.user_functions import declare_applied
from rnncc.codegen.llvm.values import I32, VALUE, Value, declared, vector_type
from rnncc.codegen.llvm.vector import Real, real_of
from rnncc.errors import CompileError
from rnncc.ir.attributes import get_dim
from rnncc.ir.ops import casts
from rnncc.ir.ops import elementwise as ew
from rnncc.ir.ops.apply import Apply
from rnncc.ir.ops.base import Cost, Elementwise, cost_of
from rnncc.ir.ops.control import Yield, terminator
from rnncc.ir.ops.random import Uniform
from rnncc.ir.ops.source import Constant, Fill, Size
from rnncc.ir.precision import stored_bits
from rnncc.ir.types import FLOATS, ITEM_BYTES, WIDE, dtype_of
from rnncc.kern.kernels import Index
from rnncc.platforms import architecture_of

ORDER = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


class RegionCode:
    """Emits a kernel's body.

    Args:
        varying: the arguments that differ from lane to lane.
        lane_axis: the domain's axis that the lanes run along.
        results: what is computed, if that is not what the body yields.
    """

    def __init__(
        self,
        emit: Emit,
        block: Block,
        varying: Iterable[SSAValue],
        lane_axis: int | None = None,
        results: Sequence[SSAValue] | None = None,
    ) -> None:
        self.emit, self.block = emit, block
        self.results = terminator(block) if results is None else results
        self.varying: set[SSAValue] = set(varying)
        left_out = set(terminator(block)) - set(self.results)
        self._ops = [
            op for op in block.ops if not isinstance(op, Yield) and left_out.isdisjoint(op.results)
        ]
        for op in self._ops:
            own = isinstance(op, Index) and op.axis.data == lane_axis
            if own or any(v in self.varying for v in op.operands):
                self.varying.add(op.results[0])

    def is_short(self, most: int) -> bool:
        """Whether the body is so many ops at most, all of them arithmetic."""
        ops = list(self.block.ops)
        return len(ops) <= most and all(cost_of(op) == Cost.ARITHMETIC for op in ops)

    def invariants(
        self, known: Mapping[SSAValue, Value], index: Callable[[int], Value]
    ) -> dict[SSAValue, Value]:
        """The scalars that hold for all lanes, given the arguments that do not vary."""
        env = dict(known)
        for op in self._ops:
            if op.results[0] not in self.varying:
                # Once a row, on scalars, not in each vector of the row.
                env[op.results[0]] = self._op(op, env, 1, index)
        return env

    def settled(self, given: Container[SSAValue]) -> list[Operation]:
        """The ops whose results some arguments determine, those that vary or not.

        Signs that others read are not among them: they are part of instructions that follow.
        """
        results, ops = set[SSAValue](), list[Operation]()
        for op in self._ops:
            if not isinstance(op, Index) and all(v in given or v in results for v in op.operands):
                results.update(op.results)
                ops.append(op)
        read = {v for op in ops for v in op.operands}
        return [op for op in ops if not isinstance(op, ew.Neg) or op.results[0] in read]

    def needed(self, settled: Collection[Operation]) -> set[SSAValue]:
        """What varies and is read by the other ops, or is a result."""
        others = (op for op in self._ops if op not in settled)
        read = {v for op in others for v in op.operands} | set(self.results)
        return read & self.varying

    @property
    def vector_ops(self) -> list[Operation]:
        """Those whose results differ from lane to lane, in their order."""
        return [op for op in self._ops if op.results[0] in self.varying]

    def stages(self) -> list[list[Operation]]:
        """The same in parts, in whose functions none waits for another one of the same part."""
        depths, stages = dict[SSAValue, int](), [list[Operation]()]
        for op in self.vector_ops:
            depth = max((depths.get(v, 0) for v in op.operands), default=0)
            depths[op.results[0]] = depth = depth + (cost_of(op) == Cost.FUNCTION)
            # What comes before all functions is in the first part, as those are that follow it.
            stage = max(depth - 1, 0)
            stages += [[] for _ in range(stage + 1 - len(stages))]
            stages[stage].append(op)
        return stages

    def ahead(
        self,
        ops: Iterable[Operation],
        scalars: Mapping[SSAValue, Value],
        vectors: Mapping[SSAValue, Value],
        index: Callable[[int], Value],
        lanes: int,
    ) -> Mapping[SSAValue, Value]:
        """The vectors of some ops, in their order, and of what they read; looked up, those of
        scalars too. `vectors` takes them as known."""
        scalars = dict(scalars)
        wide = _Wide(vectors, lambda v: self.emit.splat(scalars[v], lanes))
        for op in ops:
            if op.results[0] in self.varying:
                wide[op.results[0]] = self._op(op, wide, lanes, index)
            else:
                scalars[op.results[0]] = self._op(op, scalars, 1, index)
        return wide

    def vectors(
        self,
        scalars: Mapping[SSAValue, Value],
        known: Mapping[SSAValue, Value],
        index: Callable[[int], Value],
        lanes: int,
    ) -> list[Value]:
        """The results' vectors, given the varying arguments, and perhaps others."""
        others = (op for op in self.vector_ops if op.results[0] not in known)
        wide = self.ahead(others, scalars, known, index, lanes)
        return [wide[v] for v in self.results]

    def _op(
        self,
        op: Operation,
        env: Mapping[SSAValue, Value],
        lanes: int,
        index: Callable[[int], Value],
    ) -> Value:
        match op:
            case Constant() | Fill():
                number = op.array().item() if isinstance(op, Constant) else op.value.value.data
                return self._number(number, dtype_of(op.y), lanes)
            case Size():
                value = self.emit.dim(get_dim(op.dim))
                return self.emit.splat(self._from_i64(value, dtype_of(op.y)), lanes)
            case Index():
                return self._from_i64(index(op.axis.data), dtype_of(op.y))
            case _:
                return _emit_op(self.emit, op, [env[v] for v in op.operands], lanes)

    def _number(self, number: float, dtype: str, lanes: int) -> Value:
        if dtype in FLOATS:
            return self.emit.math(lanes, real_of(dtype)).splat(number)
        constant = ir.Constant(VALUE[dtype], stored_bits(number, dtype))
        return self.emit.splat(constant, lanes)

    def _from_i64(self, value: Value, dtype: str) -> Value:
        b = self.emit.b
        wide = value.type.count if isinstance(value.type, ir.VectorType) else 1
        match dtype:
            case "i64":
                return value
            case "i32":
                return b.trunc(value, vector_type(VALUE["i32"], wide))
            case "f32" | "f64":
                return b.sitofp(value, vector_type(VALUE[dtype], wide))
            case _:
                return b.icmp_unsigned("!=", value, ir.Constant(value.type, None))


class _Wide(dict[SSAValue, Value]):
    """Vectors; where one is missing, the splat of a scalar."""

    def __init__(self, known: Mapping[SSAValue, Value], splat: Callable[[SSAValue], Value]) -> None:
        super().__init__(known)
        self._splat = splat

    def __missing__(self, value: SSAValue) -> Value:
        self[value] = self._splat(value)
        return self[value]


def _emit_op(emit: Emit, op: Operation, xs: list[Value], lanes: int) -> Value:
    """One elementwise op on scalars or vectors."""
    b = emit.b
    dtype = dtype_of(op.operands[0])
    match op:
        case ew.Select():
            return b.select(*xs)
        case ew.Compare():
            return _compare(emit, op.kind.data, dtype, *xs)
        case ew.Logical():
            return {"and": b.and_, "or": b.or_, "xor": b.xor}[op.kind.data](*xs)
        case ew.Not():
            return b.not_(xs[0])
        case casts.Cast():
            return _cast(emit, xs[0], dtype, op.dtype.data, lanes)
        case casts.Bitcast() | ew.StopGradient():  # the same bits
            return b.bitcast(xs[0], vector_type(VALUE[dtype_of(op.y)], lanes))
        case Apply():
            code = op.function.data.code(dtype)
            return b.call(declare_applied(emit.module, code, lanes, len(xs)), xs)
        case Uniform():
            return uniform(b, xs[0], xs[1], op.stream.data, lanes)
        case _ if dtype in FLOATS:
            return _float_op(emit, op, xs, lanes, real_of(dtype))
        case _:
            return _integer_op(emit, op, xs)


def _float_op(emit: Emit, op: Operation, xs: list[Value], lanes: int, dtype: Real) -> Value:
    if isinstance(op, ew.Round):
        return emit.math(lanes, dtype).rounded(emit.b, op.kind.data, xs[0])
    if isinstance(op, ew.MultiplyAdd):
        x, y, z = xs
        x = emit.b.fneg(x) if op.kind.data == "from" else x
        z = emit.b.fneg(z) if op.kind.data == "sub" else z
        return emit.math(lanes, dtype).fma(emit.b, x, y, z)
    assert isinstance(op, Elementwise) and op.CODE, f"{op.name} has no code"
    return emit.function(op.CODE, xs, lanes, dtype)


def _integer_op(emit: Emit, op: Operation, xs: list[Value]) -> Value:
    b = emit.b
    match op:
        case ew.Add():
            return b.add(*xs)
        case ew.Sub():
            return b.sub(*xs)
        case ew.Mul():
            return b.mul(*xs)
        case ew.Div():
            return _divide(emit, *xs)
        case ew.Rem():
            return b.sub(xs[0], b.mul(_divide(emit, *xs), xs[1]))
        case ew.Maximum() | ew.Minimum():
            order = ">" if isinstance(op, ew.Maximum) else "<"
            signed = b.icmp_signed if dtype_of(op.y) != "i1" else b.icmp_unsigned
            return b.select(signed(order, *xs), *xs)
        case ew.Bits():
            return _bits(emit, op.kind.data, 8 * ITEM_BYTES[dtype_of(op.y)], *xs)
        case _:
            raise CompileError(str(op.location), f"{op.name} of {dtype_of(op.operands[0])}")


def _bits(emit: Emit, kind: str, width: int, x: Value, y: Value) -> Value:
    """And, or, xor; a shift by more bits than there are moves out all of them."""
    b = emit.b
    if kind not in ("left", "right"):
        return {"and": b.and_, "or": b.or_, "xor": b.xor}[kind](x, y)
    # LLVM's shifts by as many bits as there are, or more, are poison.
    inside = b.icmp_unsigned("<", y, _splat(x, width))
    if kind == "left":
        return b.select(inside, b.shl(x, y), ir.Constant(x.type, None))
    return b.ashr(x, b.select(inside, y, _splat(x, width - 1)))


def _divide(emit: Emit, x: Value, y: Value) -> Value:
    """Towards zero; 0 where y is, and the smallest number by -1 is itself, not a trap."""
    b, zero = emit.b, ir.Constant(x.type, None)
    none, flips = b.icmp_signed("==", y, zero), b.icmp_signed("==", b.add(y, _one(x)), zero)
    # Both are undefined in LLVM, and trap on x86: one bad lane of a vector would be enough.
    divisor = b.select(b.or_(none, flips), _one(x), y)
    if _divides_as_doubles(emit, y):
        doubles = vector_type(VALUE["f64"], x.type.count)
        exact = b.fdiv(b.sitofp(x, doubles), b.sitofp(divisor, doubles))
        # No quotient of such numbers is so near below an integer that a double rounds it there.
        quotient = b.fptosi(exact, x.type)
    else:
        quotient = b.sdiv(x, divisor)
    return b.select(none, zero, b.select(flips, b.neg(x), quotient))


def _divides_as_doubles(emit: Emit, divisor: Value) -> bool:
    """Whether doubles divide vectors of integers, of which machines divide one after another. By
    constants these are multiplied."""
    type_, known = divisor.type, isinstance(divisor, ir.Constant)
    if known or not isinstance(type_, ir.VectorType) or type_.element != I32:
        return False
    return architecture_of(emit.target.triple) in ("x86_64", "aarch64")


def _one(like: Value) -> Value:
    return _splat(like, 1)


def _splat(like: Value, number: int) -> Value:
    """An integer as a value of another one's type."""
    if isinstance(like.type, ir.VectorType):
        return ir.Constant(like.type, [number] * like.type.count)
    return ir.Constant(like.type, number)


def _compare(emit: Emit, kind: str, dtype: str, x: Value, y: Value) -> Value:
    b = emit.b
    if dtype in FLOATS:
        # NaN differs from everything, and no other comparison with it is true.
        return (b.fcmp_unordered if kind == "ne" else b.fcmp_ordered)(ORDER[kind], x, y)
    # A signed number of one bit is 0 or -1.
    return (b.icmp_unsigned if dtype == "i1" else b.icmp_signed)(ORDER[kind], x, y)


def _cast(emit: Emit, x: Value, old: str, new: str, lanes: int) -> Value:
    b, type_ = emit.b, vector_type(VALUE[new], lanes)
    if old in WIDE:
        return widened(b, x, old, lanes, emit.converts_halves)
    if new in WIDE:
        return narrowed(b, x, new, lanes, emit.converts_halves)
    if new == "i1":
        zero = ir.Constant(x.type, None)
        # NaN is not zero.
        return b.fcmp_unordered("!=", x, zero) if old in FLOATS else b.icmp_unsigned("!=", x, zero)
    if old in FLOATS and new in FLOATS:
        return b.fpext(x, type_) if new == "f64" else b.fptrunc(x, type_)
    if new in FLOATS:
        return b.uitofp(x, type_) if old == "i1" else b.sitofp(x, type_)
    if old in FLOATS:
        return _saturate(emit, x, old, new, lanes)
    if old == "i1":
        return b.zext(x, type_)
    return b.sext(x, type_) if (old, new) == ("i32", "i64") else b.trunc(x, type_)


def _saturate(emit: Emit, x: Value, old: str, new: str, lanes: int) -> Value:
    """A float as an integer, towards zero; what does not fit becomes the nearest, NaN zero."""
    b, type_ = emit.b, vector_type(VALUE[new], lanes)
    if lanes == 1 or not emit.target.triple.startswith("x86_64"):
        prefix = f"v{lanes}" if lanes > 1 else ""
        name = f"llvm.fptosi.sat.{prefix}{new}.{prefix}{old}"
        return b.call(declared(emit.module, name, type_, [x.type]), [x])
    # Of this function LLVM computes each lane alone on x86, which has conversions of vectors. Lanes
    # for which these are undefined are not chosen.
    beyond = 2 ** (8 * ITEM_BYTES[new] - 1)
    least, end = (_splat(x, limit) for limit in (-beyond, beyond))
    number = b.fptosi(b.select(b.fcmp_ordered(">", x, least), x, least), type_)
    number = b.select(b.fcmp_ordered(">=", x, end), _splat(number, beyond - 1), number)
    return b.select(b.fcmp_unordered("uno", x, x), ir.Constant(type_, None), number)
