"""The names that a net writes, those that its control operators write included."""

from __future__ import annotations

from rnncc.errors import CompileError, Location
from rnncc.netdef import Argument, NetDef, OperatorDef, parse_text
from rnncc.netdef.files import MAX_NESTING

NETS = {
    "Do": ("net",),
    "If": ("then_net", "else_net"),
    "While": ("cond_net", "loop_net"),
}


def written_names(net: NetDef, location: Location, depth: int = 0) -> dict[str, None]:
    """The names, in order of first writing."""
    if depth > MAX_NESTING:
        raise CompileError(location, f"nets stand more than {MAX_NESTING} deep in each other")
    found = dict[str, None]()
    for op in net.op:
        found.update(dict.fromkeys(op.output))
        for arg in op.arg if op.type in NETS else ():
            if arg.name in NETS[op.type]:
                inside = written_names(_net(arg, location), location, depth + 1)
                names = _outside(op) if op.type == "Do" else {name: name for name in inside}
                found.update(dict.fromkeys(names[name] for name in inside if name in names))
    return found


def _net(arg: Argument, location: Location) -> NetDef:
    return arg.n if arg.HasField("n") else parse_text(arg.s.decode(errors="replace"), location)


def _outside(op: OperatorDef) -> dict[str, str]:
    """Inner name -> name outside, of a Do; what is wrong there shows when it is resolved."""
    args = {arg.name: arg for arg in op.arg}
    if not {"inner_blobs", "outer_blobs_idx"} <= args.keys():
        return {}
    names = [*op.input[:-1], *op.output[:-1]]
    pairs = zip(args["inner_blobs"].strings, args["outer_blobs_idx"].ints, strict=False)
    return {name.decode(errors="replace"): names[i] for name, i in pairs if 0 <= i < len(names)}
