"""Evaluates at compile time what depends on known parameters alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.ir import Block, SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.dims import product
from rnncc.ir.ops.base import Array, Context, RnnOp
from rnncc.ir.ops.control import Scan
from rnncc.ir.ops.shape import Broadcast
from rnncc.ir.ops.source import Constant, Fill, Iota, Param, Source
from rnncc.ir.program import Program
from rnncc.ir.rewriting import Loop, blocks_of, replace, run_all
from rnncc.ir.types import ITEM_BYTES, dims_of, dtype_of
from rnncc.passes.dce import Dce

GROWTH, SMALL = 2, 4096
"""A result may take so many times its operands' bytes, or this many bytes: folding `x · wᵀ` of two
vectors, say, would put a matrix into the library where two vectors do."""
MOST_READ = 1 << 32
"""Bytes that may be read for a result: a broadcast of a few numbers could keep the compiler busy
for hours."""
_CONTEXT = Context({}, np.float32)


@dataclass
class _Known:
    """A value known now; `bytes` counts what its leaves take, not what a broadcast repeats."""

    array: Array
    bytes: int


def fold_constants(program: Program, training: bool = False) -> bool:
    """Replace values computed from known parameters and constants by new parameters.

    A new parameter is an `rnn.param` with an entry in `program.arrays`, computed in the types of
    the program, as the compiled net would. Broadcasts stay, as they are cheaper than what they
    make. Parameters without uses go. In training parameters change, so that nothing is folded.

    Before:

        v1 = concat(w, u, axis=1)
        v2 = matmul(x, v1)
        return v2

    After:

        v1 = matmul(x, w.concat)
        return v1

    Returns:
        whether anything changed.
    """
    changed = False
    if not training:
        changed = _fold_all(program)
        if _take_in(program, program.net.body.block):
            _fold_all(program)
            changed = True
    changed |= Dce().rewrite(program.net)
    for name in program.arrays.keys() - program.params.keys() - program.net.inputs.keys():
        del program.arrays[name]
    return changed


def _fold_all(program: Program) -> bool:
    blocks = blocks_of(program.net.body.block)
    return run_all(_fold_block(program, block) for block in blocks)


def _take_in(program: Program, block: Block) -> bool:
    """Let conditionals name the parameters that they read, outermost first; whether any did.

    No work leaves a conditional, so that what parameters alone decide must be seen inside.
    """
    changed = False
    for scan in [op for op in block.ops if isinstance(op, Scan)]:
        # Other loops' invariants are hoisted, so that they are folded outside.
        if scan.gate is not None and scan.steps == 1:
            changed |= _name_inside(program, scan)
    inner = [op.body.block for op in block.ops if isinstance(op, Scan)]
    return run_all(_take_in(program, body) for body in inner) or changed


def _name_inside(program: Program, scan: Scan) -> bool:
    loop = Loop(scan)
    for const in loop.consts:
        op = const.outer.owner
        # A gate has to be an argument of its body.
        if not isinstance(op, Param) or const.arg is loop.gate:
            continue
        name = op.param_name.data
        if name in program.arrays:
            own = Builder.before(loop.first)
            loop.swap(const.arg, own.param(name, dims_of(op.y), dtype_of(op.y)))
    changed = loop.drop_unused()
    if changed:
        loop.rebuild()
    return changed


def _fold_block(program: Program, block: Block) -> bool:
    known: dict[SSAValue, _Known] = {}
    for op in block.ops:
        value = _evaluate(program, op, known) if isinstance(op, RnnOp) else None
        if value is not None:
            known[op.results[0]] = value
    changed = False
    for value in list(known):
        users = [use.operation for use in value.uses]
        # Only read by what is known itself: the last of a chain becomes the parameter, not each
        # value on the way.
        if all(user.results and user.results[0] in known and not _stays(user) for user in users):
            continue
        changed |= _become_param(program, value, known[value].array)
    return changed


def _stays(op: object) -> bool:
    return isinstance(op, (Broadcast, Source))


def _evaluate(program: Program, op: RnnOp, known: dict[SSAValue, _Known]) -> _Known | None:
    """The op's value, if its operands are known and it is not much larger than they are."""
    dims = dims_of(op.y)
    if not all(d.is_static for d in dims):
        return None
    if isinstance(op, Param):
        array = program.arrays.get(op.param_name.data)
        return None if array is None else _Known(_typed(op.y, array), array.nbytes)
    if isinstance(op, (Constant, Fill, Iota)):
        # large ones are cheaper to make again at run time than to hold in the library
        small = int(product(dims)) * ITEM_BYTES[dtype_of(op.y)] <= SMALL
        return _Known(op.evaluate(_CONTEXT), SMALL) if small else None
    operands = [known.get(v) for v in op.operands]
    parts = [part for part in operands if part is not None]
    if not parts or len(parts) < len(operands):
        return None
    source_bytes = sum(part.bytes for part in parts)
    size = int(product(dims)) * ITEM_BYTES[dtype_of(op.y)]
    read = sum(part.array.nbytes for part in parts)  # what broadcasts repeat counts
    if not isinstance(op, Broadcast) and (
        size > max(GROWTH * source_bytes, SMALL) or read > MOST_READ
    ):
        return None
    try:
        with np.errstate(all="ignore"):
            array = op.evaluate(_CONTEXT, *(part.array for part in parts))
    except ValueError:
        return None  # an index outside of its table, say: an error of the run
    return _Known(array, source_bytes if isinstance(op, Broadcast) else size)


def _typed(value: SSAValue, array: Array) -> Array:
    return np.asarray(array, _CONTEXT.numpy_type(dtype_of(value)))


def _become_param(program: Program, value: SSAValue, array: Array) -> bool:
    """Put a new parameter in the place of a computed value; sources and broadcasts stay."""
    op = value.owner
    assert isinstance(op, RnnOp)
    if _stays(op):
        return False
    name = _fresh_name(program, op)
    program.arrays[name] = np.array(array, order="C")
    param = Builder.before(op).param(name, dims_of(value), dtype_of(value))
    replace(op, [param])
    return True


def _fresh_name(program: Program, op: RnnOp) -> str:
    """The first parameter's name that the value comes from, and the op's: `w.concat`."""
    source: SSAValue = op.y
    while not isinstance(source.owner, Block) and source.owner.operands:
        source = source.owner.operands[0]
    stem = source.owner.param_name.data if isinstance(source.owner, Param) else "constant"
    stem = f"{stem}.{op.name.removeprefix('rnn.')}"
    reserved = {*program.arrays, *program.net.inputs, *program.params}
    count = 1
    name = stem
    while name in reserved:
        count += 1
        name = f"{stem}.{count}"
    return name
