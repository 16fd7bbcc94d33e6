"""Layouts of a loop's states: those of the convolutions that compute them."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Sequence

from xdsl.ir import Block, SSAValue

from rnncc.ir.attributes import get_ints
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dims
from rnncc.ir.ops.base import Elementwise, Source
from rnncc.ir.ops.control import Net, Scan, Yield
from rnncc.ir.ops.linear import Reduce
from rnncc.ir.ops.shape import Broadcast, Concat, Slice, Transpose, inverse
from rnncc.ir.ops.windows import Windows
from rnncc.ir.rewriting import Carry, Loop, NetPass, Yielded, run_all, scans_of
from rnncc.ir.types import dims_of, dtype_of, tensor
from rnncc.passes.layouts.sink_transposes import Perm, sink
from rnncc.records import record

FEW = 8
"""Channels up to which a step's functions are faster along an image's rows: by 1.15 to 2 times on
AVX-512 with 8 and 3 of them; with 9 and more the layout of convolutions is, by 1.8 times."""


@record
class CarryLayouts(NetPass):
    """A state that a step computes from windows is carried, and yielded, in their layout.

    So the step has no transpose between its convolutions and its states: what is behind a product
    becomes its epilogue, and the next step's windows are read where it has written them.

    Before:

        for t in 0..T, h from h:
            v1 = transpose(h[t-1], perm=[0, 2, 1])
            v2 = concat(0, v1, axis=1)
            v3 = windows(v2, axis=1, start=0, count=8, stride=1, taps=3, dilation=1)
            v4 = reduce(v3, kind=max, axes=[2])
            v5 = transpose(v4, perm=[0, 2, 1])
            v6 = sigmoid(v5)
            v7 = mul(v6, h[t-1])
            v8 = tanh(v7)
            h[t] = v7
            v9[t] = v8
        return h[T-1], v9

    After:

        v1 = transpose(h, perm=[0, 2, 1])
        for t in 0..T, v1 from v1:
            v2 = concat(0, v1[t-1], axis=1)
            v3 = windows(v2, axis=1, start=0, count=8, stride=1, taps=3, dilation=1)
            v4 = reduce(v3, kind=max, axes=[2])
            v5 = sigmoid(v4)
            v6 = mul(v5, v1[t-1])
            v7 = tanh(v6)
            v1[t] = v6
            v8[t] = v7
        v9 = transpose(v1[T-1], perm=[0, 2, 1])
        v10 = transpose(v8, perm=[0, 1, 3, 2])
        return v9, v10
    """

    name = "rnn-carry-layouts"

    def rewrite(self, net: Net) -> bool:
        return run_all(_rewrite(scan) for scan in scans_of(net.body.block))


def _rewrite(scan: Scan) -> bool:
    loop = Loop(scan)
    perm = _layout(scan.body.block, {len(dims_of(carry.arg)) for carry in loop.carries})
    if perm is None:
        return False
    fit = [carry for carry in loop.carries if _gains(dims_of(carry.arg), perm)]
    states, laid = {carry.arg for carry in fit if _absorbed(carry.arg)}, set[SSAValue]()
    while states:
        # A state whose next value is laid out otherwise drops out, and may take others along.
        laid = _laid_out(scan.body.block, perm, states)
        kept = {carry.arg for carry in fit if carry.arg in states and carry.next in laid}
        if kept == states:
            break
        states = kept
    if not states:
        return False
    turned = [number for number, carry in enumerate(loop.carries) if carry.arg in states]
    _turn_states(Loop(_turn_rows(loop, perm, laid)), perm, turned)
    return True


def _layout(block: Block, ranks: Container[int]) -> Perm | None:
    """How the first transpose of what is computed from windows orders its axes: those of the result
    of a convolution.

    Args:
        ranks: of transposes that count, as the taps of windows may be transposed, too.
    """
    windowed = set[SSAValue]()
    for op in block.ops:
        if isinstance(op, Transpose) and op.x in windowed and len(get_ints(op.perm)) in ranks:
            return get_ints(op.perm)
        if isinstance(op, Windows) or any(value in windowed for value in op.operands):
            windowed.update(op.results)
    return None


def _gains(shape: Dims, perm: Perm) -> bool:
    """Whether what would be the innermost axis fills vectors better than the one that is."""
    # With the innermost axis in its place vectors run along it either way.
    if len(shape) != len(perm) or perm[-1] == len(perm) - 1:
        return False
    channels = shape[perm.index(len(perm) - 1)]
    return channels.is_static and int(channels) > FEW


def _laid_out(block: Block, perm: Perm, states: Iterable[SSAValue]) -> set[SSAValue]:
    """What is a transpose by that order, once states are and transposes have moved behind ops."""
    laid = {*states}
    for op in block.ops:
        laid_operands = [value in laid for value in op.operands]
        fits = [v in laid or isinstance(v.owner, Broadcast | Source) for v in op.operands]
        match op:
            case Transpose():
                # Once more the same transpose would be another layout.
                if get_ints(op.perm) == perm and not laid_operands[0]:
                    laid.add(op.y)
            case Elementwise() | Concat():
                if any(laid_operands) and all(fits):
                    laid.add(op.y)
            case Slice():
                if laid_operands[0]:
                    laid.add(op.y)
            case _:
                pass
    return laid


def _absorbed(state: SSAValue) -> bool:
    """Whether a transpose in front of all that reads a state can move behind that."""
    kinds = Elementwise | Transpose | Concat | Slice | Windows | Reduce | Yield
    return all(isinstance(use.operation, kinds) for use in state.uses)


def _turn_rows(loop: Loop, perm: Perm, laid: Collection[SSAValue]) -> Scan:
    """Yield rows in that order of axes, and transpose them behind the loop."""
    before = len(loop.ys)
    numbers = [number for number, y in enumerate(loop.ys) if y.row in laid]
    for number in numbers:
        row = Builder.before(loop.yields).transpose(loop.ys[number].row, inverse(perm))
        loop.ys.append(Yielded(row))
    scan = loop.rebuild()
    for number, rows in zip(numbers, scan.ys[before:], strict=True):
        assert scan.next_op is not None
        order = [0, *(1 + axis for axis in perm)]
        scan.ys[number].replace_all_uses_with(Builder.before(scan.next_op).transpose(rows, order))
    # Only now, with nothing left that reads the old sequences, can their rows go.
    loop = Loop(scan)
    loop.ys = [y for number, y in enumerate(loop.ys) if number not in numbers]
    return loop.rebuild()


def _turn_states(loop: Loop, perm: Perm, turned: Sequence[int]) -> None:
    """Carry states in that order of axes, and move the transposes behind what reads them."""
    outside, back = Builder.before(loop.scan), inverse(perm)
    new, states = dict[int, Carry](), set[SSAValue]()
    for number in turned:
        carry = loop.carries[number]
        shape = [dims_of(carry.arg)[axis] for axis in back]
        arg = loop.add_arg(tensor(shape, dtype_of(carry.arg)))
        state = Builder.before(loop.first).transpose(arg, perm)
        states.add(state)
        loop.swap(carry.arg, state)
        following = Builder.before(loop.yields).transpose(carry.next, back)
        new[number] = Carry(outside.transpose(carry.init, back), arg, following)

    def final(scan: Scan, number: int, last: SSAValue) -> SSAValue:
        assert scan.next_op is not None
        return Builder.before(scan.next_op).transpose(last, perm)

    sink(loop.exchange(new, final).body.block, states)
