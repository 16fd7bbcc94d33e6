"""Saves the parts of one product side by side, as their gradients lie.

In: the two halves of training. Out: the same, with fewer and wider slots between them. Gates that
are saved as one row can give its place to their gradients, which one product reads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from xdsl.ir import Attribute, BlockArgument, SSAValue

from rnncc.ir.attributes import get_dim
from rnncc.ir.builder import Builder
from rnncc.ir.ops.base import Elementwise
from rnncc.ir.ops.control import Net, Scan, names_of
from rnncc.ir.ops.shape import Slice
from rnncc.ir.rewriting import Loop, Yielded
from rnncc.ir.types import dims_of, dtype_of, tensor
from rnncc.passes.gradients.split_phases import Phases


def pack_tape(phases: Phases) -> Phases:
    """Join the saved values that are made of slices that lie side by side.

    Before:

        forward(x, h):
            for t in 0..T, h from h:
                v1 = matmul(h[t-1], u)
                v2 = add(v1, x[t])
                v3 = slice(v2, axis=1, start=0, size=4)
                v4 = exp(v3)
                v5 = slice(v2, axis=1, start=4, size=4)
                v6 = exp(v5)
                v7 = mul(v4, v6)
                h[t] = v7
                v8[t] = v6
                v9[t] = v4
            return y=h[T-1], saved:exp=v8, saved:exp.2=v9
        backward(x, h, grad:y, saved:exp, saved:exp.2):
            for t in reversed 0..T, c from grad:y:
                v1 = mul(c[t+1], saved:exp[t])
                v2 = mul(c[t+1], saved:exp.2[t])
                v3 = mul(v2, saved:exp[t])
                v4 = mul(v1, saved:exp.2[t])
                v5 = concat(v4, v3, axis=1)
                v6 = matmul(v5, u, transpose_b=true)
                c[t] = v6
                v7[t] = v5
            return grad:x=v7

    After:

        forward(x, h):
            for t in 0..T, h from h:
                v1 = matmul(h[t-1], u)
                v2 = add(v1, x[t])
                v3 = slice(v2, axis=1, start=0, size=4)
                v4 = exp(v3)
                v5 = slice(v2, axis=1, start=4, size=4)
                v6 = exp(v5)
                v7 = mul(v4, v6)
                v8 = concat(v4, v6, axis=1)
                h[t] = v7
                v9[t] = v6
                v10[t] = v4
                v11[t] = v8
            return y=h[T-1], saved:exp.2=v11
        backward(x, h, grad:y, saved:exp.2):
            v1 = slice(saved:exp.2, axis=2, start=0, size=4)
            v2 = slice(saved:exp.2, axis=2, start=4, size=4)
            for t in reversed 0..T, c from grad:y:
                v3 = mul(c[t+1], v2[t])
                v4 = mul(c[t+1], v1[t])
                v5 = mul(v4, v2[t])
                v6 = mul(v3, v1[t])
                v7 = concat(v6, v5, axis=1)
                v8 = matmul(v7, u, transpose_b=true)
                c[t] = v8
                v9[t] = v7
            return grad:x=v9
    """
    for names in list(_groups(phases)):
        _join_outputs(phases.forward.net, names)
        _join_inputs(phases.backward.net, names)
        phases = replace(phases, saved=[name for name in phases.saved if name not in names[1:]])
    return phases


def _groups(phases: Phases) -> Iterator[list[str]]:
    """Names of saved values, in the order of the slices that they are made of."""
    outputs = phases.forward.net.outputs
    groups: dict[tuple[Scan, Attribute], dict[int, str]] = defaultdict(dict)
    for name in phases.saved:
        scan = outputs[name].owner
        if isinstance(scan, Scan) and outputs[name] in scan.ys:
            row = scan.row_of(outputs[name])
            starts = _starts(row)
            # Made of several slices, it belongs beside none of them.
            if len(starts) == 1:
                # Of several values of one slice, one can lie in its place.
                groups[scan, row.type].setdefault(starts.pop(), name)
    for parts in groups.values():
        order = sorted(parts)
        # parts with gaps between them, or of other widths, do not lie as one product's gradients do
        width = int(dims_of(outputs[parts[order[0]]])[-1])
        if len(order) > 1 and all(b - a == width for a, b in pairwise(order)):
            yield [parts[start] for start in order]


def _starts(value: SSAValue) -> set[int]:
    """The first columns of the slices that a value is computed from, element by element."""
    starts, work, seen = set[int](), [value], {value}
    while work:
        value = work.pop()
        op, width = value.owner, dims_of(value)[-1:]
        if isinstance(op, Elementwise):
            work += [operand for operand in dict.fromkeys(op.operands) if operand not in seen]
            seen.update(op.operands)
        elif isinstance(op, Slice) and op.axis.data == len(dims_of(value)) - 1:
            start = get_dim(op.start)
            if start.is_static and width[0].is_static:
                starts.add(int(start))
    return starts


def _join_outputs(net: Net, names: Sequence[str]) -> None:
    """Yield the rows side by side instead of one by one."""
    outputs = net.outputs
    scan = outputs[names[0]].owner
    assert isinstance(scan, Scan)
    rows = [scan.row_of(outputs[name]) for name in names]
    loop = Loop(scan)
    joined = Builder.before(loop.yields).concat(rows, len(dims_of(rows[0])) - 1)
    loop.ys.append(Yielded(joined))
    every = loop.rebuild().ys[-1]
    values = {**net.outputs, names[0]: every}
    net.give({name: value for name, value in values.items() if name not in names[1:]})


def _join_inputs(net: Net, names: Sequence[str]) -> None:
    """Read slices of one input instead of several inputs."""
    block, inputs = net.body.block, net.inputs
    first = block.first_op
    assert first is not None
    b = Builder.before(first)
    *lead, width = dims_of(inputs[names[0]])
    kept = names_of(net.input_names)
    place = len(block.args)
    wide = tensor([*lead, width * len(names)], dtype_of(inputs[names[0]]))
    whole = block.insert_arg(wide, place)
    for number, name in enumerate(names):
        part, old = b.slice(whole, len(lead), width * number, width), inputs[name]
        assert isinstance(old, BlockArgument)
        old.replace_all_uses_with(part)
        block.erase_arg(old)
        kept.remove(name)
    net.name_inputs([*kept, names[0]])
