"""Runs the operators' shape rules to a fixed point, then names the sizes that stay free."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rnncc.errors import CompileError, Location
from rnncc.frontends.caffe2.blobs import Blob
from rnncc.frontends.caffe2.counters import assume_counters
from rnncc.frontends.caffe2.operator import Operator
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.dims import Dim
from rnncc.sizes import BATCH, TIME

MAX_RULES = 100_000
"""How many shape rules may run, in a small net, before the importer gives up."""

MAX_SWEEPS = 16
"""How often all rules may run in any case."""

LEVELS = 4


def walk(operators: Iterable[Operator]) -> Iterator[Operator]:
    """All operators, those of nets inside after the one that holds them."""
    for op in operators:
        yield op
        yield from walk(op.nested())


def solve(
    s: Shapes, operators: Sequence[Operator], inputs: Mapping[str, Blob], location: Location
) -> None:
    """Find every blob's shape and type.

    Args:
        inputs: the blobs that stand at the net's start, in order; those without an array first.
    Raises:
        CompileError: a mismatch at the operator where it shows, or a size that nothing gives.
    """
    ops, changed = list(walk(operators)), False
    s.groups_types = any(op.op.type == "While" for op in ops)
    _settle(s, ops, location)
    for level in range(LEVELS):
        changed = _assume(s, ops, level, location)
    for _ in range(MAX_SWEEPS if changed else 0):  # the shape of a condition lets others choose
        if not sum(_assume(s, ops, level, location) for level in (2, 3)):
            break
    _require_ranks(inputs, location)
    _name_extents(s, ops, inputs)
    _require_numbers(s, ops, inputs)
    _name_rest(s, inputs)
    assume_counters(s, ops)
    _settle(s, ops, location)
    # After all else: a type that any operator shows counts more than that floats are usual.
    for blob in inputs.values():
        blob.dtype = blob.dtype or "f32"
    _settle(s, ops, location)
    _finish(s, ops, inputs)


def _assume(s: Shapes, ops: Sequence[Operator], level: int, location: Location) -> bool:
    """Let every operator choose what follows from nothing, by what the ones before it chose;
    whether one did."""
    known = start = s.version
    for op in ops:
        s.enter(op.location)
        if s.version != known:
            op.infer(s)
        op.assume(s, level)
    if s.version != start:
        _settle(s, ops, location)
    return s.version != start


def _settle(s: Shapes, ops: Sequence[Operator], location: Location) -> None:
    """Apply all rules, back and forth, until nothing new follows."""
    sweeps, known = 0, -1
    while known != s.version:
        known = s.version
        # Back and forth: so facts pass through a whole chain in one sweep, whichever way they go.
        for op in ops if sweeps % 2 == 0 else reversed(ops):
            s.enter(op.location)
            op.infer(s)
        sweeps += 1
        if sweeps * len(ops) > MAX_RULES and sweeps > MAX_SWEEPS:
            raise CompileError(location, "the shapes do not settle", "give more with --shape")


def _require_ranks(inputs: Mapping[str, Blob], location: Location) -> None:
    for blob in inputs.values():
        if blob.shape is None:
            what = f'the shape of input "{blob.name}" cannot be inferred'
            raise CompileError(location, what, f"give it: --shape {blob.name}=SIZE,SIZE,...")


def _name_extents(s: Shapes, ops: Sequence[Operator], inputs: Mapping[str, Blob]) -> None:
    """T and N: what operators show to be time and batch, else the first input's leading axes."""
    reserved = _symbols(s, inputs)
    # Operators first: that leading axes are time and batch is only usual.
    extents = [op.extent(s) for op in ops]
    for blob in inputs.values():
        dims = s.known(blob)
        extents.append((dims[0], dims[1]) if len(dims) > 2 else (None, dims[0] if dims else None))
    for extent in extents:
        for name, dim in zip((TIME, BATCH), extent, strict=True):
            if dim is not None and name not in reserved and _is_variable(s.resolve(dim)):
                s.bind(str(s.resolve(dim)), Dim.of(name))
                reserved.add(name)


def _require_numbers(s: Shapes, ops: Sequence[Operator], inputs: Mapping[str, Blob]) -> None:
    """Sizes of weights are numbers: say which input to give a shape."""
    for op in ops:
        for dim in op.fixed(s):
            size = s.resolve(dim)
            if size.is_static:
                continue
            for blob in inputs.values():
                if any(d.symbols & size.symbols for d in s.known(blob)):
                    raise _unknown_size(s, op, blob, size)
            raise op.error("works on a size that cannot be inferred")


def _unknown_size(s: Shapes, op: Operator, blob: Blob, size: Dim) -> CompileError:
    dims = s.known(blob)
    if not s.is_open(size):
        shown = s.text(dims)
        return op.error(f'needs a number where "{blob.name}" of shape {shown} has {size}')
    text = ",".join("SIZE" if s.is_open(d) else str(d) for d in dims)
    what = f'needs a size that cannot be inferred, one of "{blob.name}"'
    return op.error(what, f"give it: --shape {blob.name}={text}, or an init net")


def _name_rest(s: Shapes, inputs: Mapping[str, Blob]) -> None:
    """What is still free is named S, S2, S3, ..."""
    reserved, count = _symbols(s, inputs), 0
    for blob in inputs.values():
        for dim in s.known(blob):
            for variable in sorted(v for v in s.resolve(dim).symbols if v.startswith("?")):
                name = None
                while name is None or name in reserved:
                    count += 1
                    name = "S" if count == 1 else f"S{count}"
                s.bind(variable, Dim.of(name))
                reserved.add(name)


def _finish(s: Shapes, ops: Sequence[Operator], inputs: Mapping[str, Blob]) -> None:
    """Every blob has a shape that the inputs tell, a type, and sizes that a tensor may have."""
    symbols = _symbols(s, inputs)
    for blob in inputs.values():
        s.check(blob)
    for op in ops:
        s.location = op.location
        for blob in op.produced():
            if blob.opaque or blob.value == ():  # the sizes of a scalar, of which there are none
                continue
            blob.dtype = blob.dtype or "f32"
            if blob.shape is None or not all(d.symbols <= symbols for d in s.known(blob)):
                raise op.error(f'the shape of "{blob.name}" cannot be inferred', op.size_hint)
            s.check(blob)
    _check_ends(ops)


def _check_ends(ops: Iterable[Operator]) -> None:
    """Who reads what ends where a run decides knows of it."""
    known = Counter(op.xs[0] for op in ops if op.takes_ends)
    for op in ops:
        for blob in op.ys:
            if blob.end is not None and blob.uses != known[blob]:
                what = f'a run decides how many elements "{blob.name}" has, by "{blob.end.name}"'
                raise op.error(what, "only TopK may read it, by way of Reshape")


def _symbols(s: Shapes, inputs: Mapping[str, Blob]) -> set[str]:
    """The names in use."""
    return {
        name for blob in inputs.values() for d in s.known(blob) for name in s.resolve(d).symbols
    }


def _is_variable(dim: Dim) -> bool:
    return str(dim).startswith("?") and dim == Dim.of(str(dim))
