"""The two halves of training: a net with its gradients becomes a forward and a backward net.

In: a net with its gradients and a `Recomputation`. Out: `Phases`: forward computes the outputs
and what is saved; backward computes the gradients from the inputs, the outputs' gradients and what
is saved.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import BlockArgument, SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.naming import kind_of
from rnncc.ir.ops.base import RnnOp
from rnncc.ir.ops.control import Scan, names_of
from rnncc.ir.order import post_order
from rnncc.ir.ports import Role, labelled
from rnncc.ir.program import Program
from rnncc.ir.rewriting import Loop, Yielded
from rnncc.ir.rewriting import LoopSequence as Read
from rnncc.ir.types import dims_of
from rnncc.passes.cleanup.dce import Dce
from rnncc.passes.gradients.rematerialise import AllSteps, Node, Recomputation
from rnncc.passes.gradients.step_pairs import Pair
from rnncc.records import record


@record
class Phases:
    """Two programs and what joins them.

    Attributes:
        forward: adds an output of kind `saved` for each value saved.
        backward: takes inputs of the kinds `grad`, `saved`, and `kept`, an output of the net.
        saved, kept: their names, in both.
        checkpoints: how time is cut, in words.
    """

    forward: Program
    backward: Program
    saved: list[str]
    kept: list[str]
    checkpoints: str = ""


def split_phases(program: Program, choice: Recomputation) -> Phases:
    """Split a net with gradients; the net itself is used up.

    Before:

        for t in 0..T, h from h:
            v1 = mul(h[t-1], x[t])
            h[t] = v1
            v2[t] = v1
        v3 = shift(v2, h)
        for t in reversed 0..T, c from grad:y:
            v4 = mul(c[t+1], x[t])
            v5 = mul(c[t+1], v3[t])
            c[t] = v4
            v6[t] = v5
        return h[T-1], v6

    After:

        forward(x, h):
            for t in 0..T, h from h:
                v1 = mul(h[t-1], x[t])
                h[t] = v1
                v2[t] = v1
            return y=h[T-1], saved:mul=v2
        backward(x, h, grad:y, saved:mul):
            v1 = shift(saved:mul, h)
            for t in reversed 0..T, c from grad:y:
                v2 = mul(c[t+1], x[t])
                v3 = mul(c[t+1], v1[t])
                c[t] = v2
                v4[t] = v3
            return grad:x=v4
    """
    forwards = dict.fromkeys(pair.forward for pair in choice.pairs)  # several may read one
    sequences = {forward: _Sequences(forward, choice) for forward in forwards}
    for pair in choice.pairs:
        _read_saved(pair, sequences[pair.forward], choice)

    finals = dict[SSAValue, SSAValue]()
    for sequence in sequences.values():
        finals |= sequence.finals

    def value_of(node: Node) -> SSAValue:
        if isinstance(node, SSAValue):
            return finals.get(node, node)
        if node.scan in sequences:
            return sequences[node.scan].of(node.row)
        return node.scan.sequence_of(node.row)

    kept = [(Role("kept", name), value_of(node)) for node, name in choice.kept.items()]
    saved = [(saved_role(_row(node)), value_of(node)) for node in choice.saved]
    values = [*saved, *kept]
    net = program.net
    reserved = {*net.inputs, *net.outputs, *program.params}
    roles = labelled([role for role, _ in values], reserved)
    crossing = dict(zip(roles, [value for _, value in values], strict=True))

    forward, clones = _clone(program)
    make_forward(forward, {name: clones[value] for name, value in crossing.items()}, roles)
    backward, clones = _clone(program)
    make_backward(backward, {name: clones[value] for name, value in crossing.items()}, roles)
    return phases_of(forward, backward, roles)


def saved_role(row: SSAValue) -> Role:
    """A saved value has the name of the value, for people; without one, that of its op."""
    kind = kind_of(row.owner) if isinstance(row.owner, RnnOp) else "state"
    return Role("saved", row.name_hint or kind)


def _row(node: Node) -> SSAValue:
    return node.row if isinstance(node, AllSteps) else node


class _Sequences:
    """A forward loop that yields all that is stored of its body."""

    def __init__(self, scan: Scan, choice: Recomputation) -> None:
        loop, old, finals = Loop(scan), list(scan.body.block.args), list(scan.finals)
        yielded = {y.row for y in loop.ys}
        nodes = [*choice.saved, *choice.kept]
        rows = [n.row for n in nodes if isinstance(n, AllSteps) and n.scan is scan]
        loop.ys += [Yielded(row) for row in dict.fromkeys(rows) if row not in yielded]
        self.scan = loop.rebuild()
        new = self.scan.body.block.args
        self.args = dict[SSAValue, SSAValue](zip(old, new, strict=True))
        self.finals = dict[SSAValue, SSAValue](zip(finals, self.scan.finals, strict=True))
        self.stored = set(map(self.now, rows))

    def now(self, value: SSAValue) -> SSAValue:
        """What a value of the body before the rebuild is now."""
        return self.args.get(value, value)

    def of(self, row: SSAValue) -> SSAValue:
        """A stored value for all steps."""
        return self.scan.sequence_of(self.now(row))


def _read_saved(pair: Pair, forward: _Sequences, choice: Recomputation) -> None:
    """Make a backward loop read what is stored and compute the rest."""
    loop = Loop(pair.backward)
    maker = _Maker(loop, forward)
    for arg, row in pair.rows.items():
        loop.swap(arg, maker.make(forward.now(row)))
    loop.drop_unused()
    loop.rebuild()


class _Maker:
    """Values of a forward body, made in the body of its backward loop."""

    def __init__(self, loop: Loop, forward: _Sequences) -> None:
        self.loop, self.forward, self.first = loop, forward, loop.first
        self.known: dict[SSAValue, SSAValue] = {}
        scan = forward.scan
        consts, carry, rows = scan.groups
        self.consts = dict(zip(consts, scan.consts, strict=True))
        self.rows = dict(zip(rows, scan.xs, strict=True))
        parts = zip(carry, scan.inits, scan.yields[0], strict=True)
        self.carry = {arg: (init, after) for arg, init, after in parts}

    def make(self, value: SSAValue) -> SSAValue:
        """The backward body's form of a value of the forward one."""
        for inner in () if value in self.known else post_order(value, self._needs):
            self.known[inner] = self._made(inner)
        return self.known[value]

    def _needs(self, value: SSAValue) -> list[SSAValue]:
        """What is to be made before a value that is computed again."""
        known = (self.consts, self.rows, self.forward.stored, self.carry)
        if any(value in values for values in known):
            return []
        assert isinstance(value.owner, RnnOp), "what is computed again comes from what is stored"
        return [operand for operand in value.owner.operands if operand not in self.known]

    def _made(self, value: SSAValue) -> SSAValue:
        if value in self.consts:
            return self.loop.add_const(self.consts[value])
        if value in self.rows:
            return self._read(value, self.rows[value])
        if value in self.forward.stored:
            return self._read(value, self.forward.of(value))
        if value in self.carry:
            init, after = self.carry[value]
            scan = self.forward.scan
            assert scan.next_op is not None
            b = Builder.before(scan.next_op)
            return self._read(value, b.shift(self.forward.of(after), init, bool(scan.reverse)))
        op = value.owner
        assert isinstance(op, RnnOp)
        clone = op.clone({operand: self.known[operand] for operand in op.operands})
        self.loop.body.insert_op_before(clone, self.first)
        clone.y.name_hint = value.name_hint
        return clone.y

    def _read(self, value: SSAValue, sequence: SSAValue) -> SSAValue:
        arg = self.loop.add_arg(value.type)
        arg.name_hint = value.name_hint
        self.loop.xs.append(Read(sequence, arg))
        return arg


def make_forward(
    program: Program, crossing: Mapping[str, SSAValue], roles: Mapping[str, Role]
) -> None:
    """Let a net with gradients be the forward half: it gives its outputs, and what is saved.

    Args:
        crossing: what goes from forward to backward, values of the net by ports of these roles.
    """
    net = program.net
    saved = {name: value for name, value in crossing.items() if roles[name].kind == "saved"}
    net.give({**net.outputs_of(None), **saved}, roles)
    Dce().rewrite(net)
    grads = net.inputs_of("grad")
    for arg in reversed(grads.values()):  # nothing reads them any more
        assert isinstance(arg, BlockArgument)
        net.body.block.erase_arg(arg)
    net.name_inputs(name for name in names_of(net.input_names) if name not in grads)


def make_backward(
    program: Program, crossing: Mapping[str, SSAValue], roles: Mapping[str, Role]
) -> None:
    """Let a net with gradients be the backward half: it takes what crosses, and gives gradients."""
    net, outputs = program.net, program.net.outputs
    block = net.body.block
    first = block.first_op
    assert first is not None
    for name, value in crossing.items():
        role = roles[name]
        shape = outputs[role.of] if role.kind == "kept" else value
        # An output may be the value in another shape: backward gets it as the caller has it.
        arg = block.insert_arg(shape.type, len(block.args))
        value.replace_all_uses_with(Builder.before(first).reshape(arg, dims_of(value)))
    net.give(net.outputs_of("grad"))
    net.name_added(crossing, roles)
    Dce().rewrite(net)
    program.zeros = frozenset(net.inputs_of("grad"))  # may be absent: lowering gives them zeros


def phases_of(forward: Program, backward: Program, roles: Mapping[str, Role]) -> Phases:
    """The halves, and the ports between them."""
    saved = [name for name, role in roles.items() if role.kind == "saved"]
    return Phases(forward, backward, saved, [name for name in roles if name not in saved])


def _clone(program: Program) -> tuple[Program, dict[SSAValue, SSAValue]]:
    values = dict[SSAValue, SSAValue]()
    module = program.module.clone(values)
    return Program(module, dict(program.arrays), program.name, program.source), values
