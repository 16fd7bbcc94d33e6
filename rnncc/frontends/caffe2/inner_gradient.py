"""The net inside the gradient of a Do: resolved as a continuation of the Do's own net."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rnncc.errors import CompileError, Location
from rnncc.frontends.caffe2.blobs import Blob
from rnncc.frontends.caffe2.check_backward import BackwardPart
from rnncc.netdef import Arguments, OperatorDef, parse_text

if TYPE_CHECKING:
    from rnncc.frontends.caffe2.graph import Resolver, Scope
    from rnncc.frontends.caffe2.ops.do import Do

COPY, GIVEN = "/_DO_OPERATOR_INNER_GRAD_COPY_", "/_DO_OPERATOR_INNER_GRAD_"
"""What follows a blob's name inside the gradient of a Do: its gradient made, and given."""


def read_inner(
    maker: Resolver, op: OperatorDef, location: Location, forward: Do, bound: Mapping[str, str]
) -> BackwardPart:
    """What the net inside the gradient of a Do computes, and of what.

    Raises:
        CompileError: an operator that is the gradient of none of the Do's, or a gradient that
            nothing writes.
    """
    net = Arguments(op, location).net("net")
    if net is None:
        raise CompileError(location, "lacks the argument 'net'")
    net = parse_text(net, location) if isinstance(net, str) else net
    output_grads = [
        (_blob(forward.exits, name, GIVEN, location), Blob(name))
        for name in bound
        if name.endswith(GIVEN)
    ]
    scope: Scope = {**forward.scope, **{blob.name: blob for _, blob in output_grads}}
    inside = maker.inside(location, frozenset(), "gradient op", forward.inside)
    operators = inside.operators_of(net, scope)
    input_grads = list[tuple[Blob, Blob]]()
    for name in (name for name in bound if name.endswith(COPY)):
        if name not in scope:
            raise CompileError(location, f'no operator inside writes "{name}"')
        input_grads.append((_blob(forward.entries, name, COPY, location), scope[name]))
    return BackwardPart(
        "net", forward.inside, operators, output_grads, input_grads, writes_in_place(forward)
    )


def writes_in_place(forward: Do) -> bool:
    """Whether an operator of a Do writes over what it reads."""
    return any(set(op.op.input) & set(op.op.output) for op in forward.inside)


def _blob(blobs: Mapping[str, Blob], name: str, end: str, location: Location) -> Blob:
    blob = blobs.get(name.removesuffix(end))
    if blob is None or blob.opaque:
        raise CompileError(location, f'binds "{name}", of which there is no blob')
    return blob
