"""What a RecurrentNetworkGradient says of one step: its backward step net and the links to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rnncc.errors import Location
from rnncc.frontends.caffe2.blobs import Blob
from rnncc.frontends.caffe2.graph import Resolver, Scope
from rnncc.frontends.caffe2.operator import Operator
from rnncc.frontends.caffe2.recurrent import read_links, read_net
from rnncc.netdef import NetDef
from rnncc.records import record

if TYPE_CHECKING:
    from rnncc.frontends.caffe2.ops.recurrent_network import RecurrentNetwork

Pairs = list[tuple[Blob, Blob]]


@record
class Backward:
    """The gradient of one step.

    Attributes:
        operators: the backward step net; what it repeats of the step net is that operator.
        output_grads: what the step writes of each state, with the gradient that comes from later
            steps.
        input_grads: what the step reads of each state, the row of the sequence, the parameters,
            each with the gradient that the backward step net makes of it.
    """

    operators: Sequence[Operator]
    output_grads: Pairs
    input_grads: Pairs


def read_backward(op: Operator, forward: RecurrentNetwork, maker: Resolver) -> Backward:
    """Read and check the arguments of a RecurrentNetworkGradient and resolve its net.

    Raises:
        CompileError: a link that is missing, dangling or not what the forward links ask for.
    """
    net = read_net(op, "backward_step_net") or NetDef()
    reads, (row, sequence) = _reads(op, forward), _sequence(op, forward)
    links = _backward_links(op)
    states = forward.structure.states
    output_grads = [
        (forward.written[state.name], Blob(_take(op, links, state.name, 1))) for state in states
    ]
    input_grads = [
        (read, _take(op, links, s.name, 0)) for read, s in zip(reads, states, strict=True)
    ]
    input_grads.append((row, _take(op, links, sequence, 0)))
    if links:
        (external, offset), internal = links.popitem()
        what = f'the backward link of "{internal}" to "{external}" at offset {offset}'
        raise op.error(f"{what} has no forward link")
    input_grads += _param_grads(op, forward)
    scope: Scope = {**forward.scope, **{blob.name: blob for _, blob in output_grads}}
    location = Location(op.location.file, op.location.node)
    inside = maker.inside(
        location, frozenset(forward.references), "backward step op", forward.steps
    )
    operators = inside.operators_of(net, scope)
    gradients = [(value, _gradient(op, forward, scope, name)) for value, name in input_grads]
    return Backward(operators, output_grads, gradients)


def _reads(op: Operator, forward: RecurrentNetwork) -> list[Blob]:
    """The one row that the step reads of each state."""
    for state in forward.structure.states:
        link = state.reads[0] if len(state.reads) == 1 else None
        if state.rows != 1 or link is None or (link.offset, link.window) != (0, 1):
            what = f'has no gradient for state "{state.name}": its step reads other rows'
            raise op.error(f"{what} than the one before the row it writes")
    return [forward.internal[s.reads[0].internal] for s in forward.structure.states]


def _sequence(op: Operator, forward: RecurrentNetwork) -> tuple[Blob, str]:
    """The row that the step reads of the first input, and that input's name."""
    links = [link for link, blob in forward.structure.sequences if blob is forward.xs[0]]
    if len(links) != 1 or (links[0].offset, links[0].window) != (0, 1):
        what = f'has no gradient for "{forward.xs[0].name}": a step must read one row of it'
        raise op.error(what)
    return forward.internal[links[0].internal], links[0].external


def _backward_links(op: Operator) -> dict[tuple[str, int], str]:
    """(external blob, offset) -> internal blob."""
    names = dict[tuple[str, int], str]()
    for link in read_links(op, "backward_link"):
        if (link.external, link.offset) in names:
            raise op.error(f'has two backward links to "{link.external}" at offset {link.offset}')
        names[link.external, link.offset] = link.internal
    return names


def _take(op: Operator, links: dict[tuple[str, int], str], name: str, offset: int) -> str:
    internal = links.pop((f"{name}_grad", offset), None)
    if internal is None:
        raise op.error(f'has no backward link to "{name}_grad" at offset {offset}')
    return internal


def _param_grads(op: Operator, forward: RecurrentNetwork) -> list[tuple[Blob, str]]:
    params, names = op.args.ints("param"), op.args.strings("param_grads")
    if len(params) != len(names):
        raise op.error(f"has {len(params)} param and {len(names)} param_grads")
    return [(forward.xs[int(i)], name) for i, name in zip(params, names, strict=True)]


def _gradient(op: Operator, forward: RecurrentNetwork, scope: Scope, name: str) -> Blob:
    """The last version of a blob of the backward step net."""
    blob = scope.get(name)
    if blob is None or blob is forward.scope.get(name):
        raise op.error(f'the backward step net writes no "{name}"')
    if blob.opaque:
        raise op.error(f'"{name}" holds nothing')
    blob.uses += 1
    return blob
