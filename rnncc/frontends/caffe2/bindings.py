"""How the names inside a Do operator are bound to blobs outside."""

from __future__ import annotations

from collections import Counter

from rnncc.errors import CompileError, Location
from rnncc.netdef import Arguments, OperatorDef


def read_bindings(op: OperatorDef, location: Location) -> dict[str, str]:
    """Inner name -> name outside.

    Raises:
        CompileError: a name is bound twice or not at all, or an index is out of range.
    """
    args = Arguments(op, location)
    sources, targets = list(op.input[:-1]), list(op.output[:-1])
    for kind, listed in (("input", sources), ("output", targets)):
        twice = next((name for name, count in Counter(listed).items() if count > 1), None)
        if twice is not None:
            raise CompileError(location, f'lists the {kind} "{twice}" twice')
    names, indices = [*sources, *targets], args.ints("outer_blobs_idx")
    inner = args.strings("inner_blobs")
    if len(inner) != len(indices):
        what = f"has {len(inner)} inner_blobs and {len(indices)} outer_blobs_idx"
        raise CompileError(location, what)
    bound = dict[str, str]()
    for name, index in zip(inner, indices, strict=True):
        if not 0 <= index < len(names):
            what = f'binds "{name}" to blob {index} of its {len(names)} inputs and outputs'
            raise CompileError(location, what)
        if name in bound:
            raise CompileError(location, f'binds "{name}" twice')
        bound[name] = names[index]
    outer = Counter(bound.values())
    for name in names:
        if outer[name] != 1:
            how = "twice" if name in outer else "to no inner name"
            raise CompileError(location, f'binds "{name}" {how}')
    return bound
