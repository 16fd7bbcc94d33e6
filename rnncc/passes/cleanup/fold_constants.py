"""Evaluates at compile time what depends on known parameters alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from xdsl.ir import Block, SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.dims import product
from rnncc.ir.ops.base import Array, Context, RnnOp
from rnncc.ir.ops.control import Scan
from rnncc.ir.ops.shape import Broadcast
from rnncc.ir.ops.source import Constant, Fill, Iota, Param
from rnncc.ir.program import Program
from rnncc.ir.rewriting import Loop, blocks_of, replace, run_all
from rnncc.ir.types import ITEM_BYTES, dims_of, dtype_of
from rnncc.passes.cleanup.dce import Dce
from rnncc.records import record

GROWTH, SMALL = 2, 4096
"""A parameter may take so many times its operands' bytes, or this many bytes: folding `x · wᵀ` of
two vectors, say, would put a matrix into the library where two vectors do."""
GROWTH_INSIDE = 8
"""So may what is computed on the way: bytes become int64 at most."""
MOST_READ = 1 << 32
"""Bytes that may be read for a result: a broadcast of a few numbers could keep the compiler busy
for hours."""
_CONTEXT = Context({}, np.float32)


@record
class _Known:
    """A value that could be computed now.

    Attributes:
        bytes: what its leaves take, not what a broadcast repeats.
        fits: whether it may become a parameter: it is computed, and not much larger than they are;
            broadcasts stay, as they are cheaper than what they make.
    """

    bytes: int
    fits: bool


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
    failed = set[RnnOp]()
    while True:
        known = _known_values(program, block, failed)
        arrays = _computed(program, known, failed)
        if arrays is not None:
            names = set[str]()
            if arrays:  # else nothing needs one, and to look for parameters takes time
                names.update(program.arrays, program.net.inputs, program.params)
            return run_all(
                _become_param(program, value, array, names) for value, array in arrays.items()
            )


def _known_values(program: Program, block: Block, failed: set[RnnOp]) -> dict[SSAValue, _Known]:
    """What could be computed now, in the order of the ops; of no op that `failed`.

    On the way to what fits a value may be larger: a zero point is subtracted from bytes in int32.
    """
    known: dict[SSAValue, _Known] = {}
    for op in block.ops:
        if isinstance(op, RnnOp) and op not in failed and (new := _known(program, op, known)):
            known[op.results[0]] = new
    return known


def _ends(known: Mapping[SSAValue, _Known]) -> list[SSAValue]:
    """What becomes a parameter: the last that fits of each chain, not each value on the way."""
    ends, gone = list[SSAValue](), set[SSAValue]()
    for value in reversed(list(known)):
        users = [use.operation for use in value.uses]
        inside = all(user.results and user.results[0] in gone for user in users)
        if known[value].fits and not inside:
            ends.append(value)
        if known[value].fits or inside:
            gone.add(value)
    return ends[::-1]


def _known(program: Program, op: RnnOp, known: Mapping[SSAValue, _Known]) -> _Known | None:
    """What is known of an op's value, given what is of its operands."""
    if not all(d.is_static for d in (*dims_of(op.y), *op.sizes)):
        return None  # where a part of a table begins may depend on a size, too
    size = _bytes_of(op.y)
    if isinstance(op, Param):
        return _Known(size, False) if op.param_name.data in program.arrays else None
    if isinstance(op, Fill):
        return _Known(SMALL, False)
    if isinstance(op, Constant | Iota):
        # large ones are cheaper to make again at run time than to hold in the library
        return _Known(SMALL, False) if size <= SMALL else None
    operands = [known.get(v) for v in op.operands]
    parts = [part for part in operands if part is not None]
    if not parts or len(parts) < len(operands):
        return None
    source_bytes = sum(part.bytes for part in parts)
    if isinstance(op, Broadcast):
        return _Known(source_bytes, False)
    read = sum(_bytes_of(v) for v in op.operands)  # what broadcasts repeat counts
    if size > max(GROWTH_INSIDE * source_bytes, SMALL) or read > MOST_READ:
        return None
    fits = size <= max(GROWTH * source_bytes, SMALL)
    return _Known(size if fits else source_bytes, fits)


def _bytes_of(value: SSAValue) -> int:
    return int(product(dims_of(value))) * ITEM_BYTES[dtype_of(value)]


def _computed(
    program: Program,
    known: Mapping[SSAValue, _Known],
    failed: set[RnnOp],
) -> dict[SSAValue, Array] | None:
    """New parameters' values; None if an op has no value, which is then among those that `failed`.

    What lies between is held until its last reader has been computed, and computed just before its
    first one: sums of large products, say, are not all there at once.
    """
    ends = _ends(known)
    needed, computed = _in_order(ends), set(ends)
    readers = Counter(operand for value in needed for operand in _operands(value))
    arrays: dict[SSAValue, Array] = {}
    for value in needed:
        op = value.owner
        assert isinstance(op, RnnOp)
        try:
            with np.errstate(all="ignore"):
                arrays[value] = _evaluate(program, op, [arrays[v] for v in op.operands])
        except ValueError:  # an index outside of its table, say: an error of the run
            failed.add(op)
            return None
        for operand in _operands(value):
            readers[operand] -= 1
            if not readers[operand] and operand not in computed:
                del arrays[operand]
    return {value: arrays[value] for value in ends}


def _in_order(ends: Sequence[SSAValue]) -> list[SSAValue]:
    """Some values behind all that they are computed of, depth first."""
    ordered, waiting = dict[SSAValue, None](), [*reversed(ends)]
    while waiting:
        value = waiting[-1]
        missing = [v for v in _operands(value) if v not in ordered]
        waiting += reversed(missing)
        if not missing:
            ordered[waiting.pop()] = None
    return list(ordered)


def _operands(value: SSAValue) -> list[SSAValue]:
    assert isinstance(value.owner, RnnOp)
    return list(dict.fromkeys(value.owner.operands))


def _evaluate(program: Program, op: RnnOp, operands: Sequence[Array]) -> Array:
    if isinstance(op, Param):
        return _typed(op.y, program.arrays[op.param_name.data])
    if isinstance(op, Fill):
        return np.broadcast_to(op.one(_CONTEXT), [int(d) for d in dims_of(op.y)])
    return op.evaluate(_CONTEXT, *operands)


def _typed(value: SSAValue, array: Array) -> Array:
    return np.asarray(array, _CONTEXT.numpy_type(dtype_of(value)))


def _become_param(program: Program, value: SSAValue, array: Array, names: set[str]) -> bool:
    """Put a new parameter in the place of a computed value, of a name that is not among others."""
    op = value.owner
    assert isinstance(op, RnnOp)
    name = _fresh_name(op, names)
    names.add(name)
    program.arrays[name] = np.array(array, order="C")
    param = Builder.before(op).param(name, dims_of(value), dtype_of(value))
    replace(op, [param])
    return True


def _fresh_name(op: RnnOp, reserved: Collection[str]) -> str:
    """The first parameter's name that the value comes from, and the op's: `w.concat`."""
    source: SSAValue = op.y
    while not isinstance(source.owner, Block) and source.owner.operands:
        source = source.owner.operands[0]
    stem = source.owner.param_name.data if isinstance(source.owner, Param) else "constant"
    stem = f"{stem}.{op.name.removeprefix('rnn.')}"
    count = 1
    name = stem
    while name in reserved:
        count += 1
        name = f"{stem}.{count}"
    return name
