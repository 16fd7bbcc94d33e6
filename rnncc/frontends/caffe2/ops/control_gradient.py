"""The gradients of Do, If and While: matched with their forward operator by scopes, bindings and
names, and lowered through reverse mode of it."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping

from rnncc.errors import CompileError, Location
from rnncc.frontends.caffe2.bindings import read_bindings
from rnncc.frontends.caffe2.blobs import Blob
from rnncc.frontends.caffe2.check_backward import BackwardPart, check_backward
from rnncc.frontends.caffe2.control import Control, ScopeBlob
from rnncc.frontends.caffe2.forward_index import ForwardIndex
from rnncc.frontends.caffe2.gradient import Gradient
from rnncc.frontends.caffe2.graph import Resolver
from rnncc.frontends.caffe2.inner_gradient import COPY, GIVEN, read_inner, writes_in_place
from rnncc.frontends.caffe2.operator import ANY, Emitter, Operator
from rnncc.frontends.caffe2.ops.branch import NETS, If
from rnncc.frontends.caffe2.ops.do import Do, HasScope
from rnncc.frontends.caffe2.ops.loop import While
from rnncc.frontends.caffe2.recurrent import needed_net, read_net
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.frontends.caffe2.solve import walk
from rnncc.netdef import Arguments, NetDef, OperatorDef
from rnncc.records import record

AUTOSPLIT = re.compile(r"_(.+)_autosplit_\d+\Z")
"""The name of one of several gradients that are summed up."""


@record
class GradientNames:
    """What the gradient of a Do says, all by names outside.

    Attributes:
        output_grads: gradient read -> the output of the Do that it belongs to.
        input_grads: gradient written -> the input of the Do that it belongs to.
    """

    output_grads: Mapping[str, str]
    input_grads: Mapping[str, str]


class ControlGradient(Gradient, ABC):
    """The gradient of an operator with nets inside.

    Refused: a net in which no earlier operator has its scopes; nets inside that are not the
    gradients of that operator's nets.
    """

    inputs = (1, ANY)
    outputs = (1, ANY)
    kind: type[Control]

    def setup(self, maker: Resolver) -> None:
        self.maker = maker
        self.parts = list[BackwardPart]()

    def find_forward(self, earlier: ForwardIndex) -> None:
        spaces = [x for x in self.xs if isinstance(x, ScopeBlob)]
        candidates = [op for space in spaces for op in earlier.of(self.op.type, space)]
        candidates = [op for op in candidates if isinstance(op, self.kind) and not op.has_gradient]
        if not candidates:
            raise self.error(f"is the gradient of no operator: no {self.op.type} has its scopes")
        forward = candidates[-1]
        forward.has_gradient = True
        self.forward = forward
        names = self.match(forward, earlier)
        self.output_grads = [
            (self._output(forward, name), self._read(gradient))
            for gradient, name in names.output_grads.items()
        ]
        written = {y.name: y for y in self.ys}
        self.input_grads = list[tuple[Blob, Blob]]()
        for gradient, name in names.input_grads.items():
            if gradient in written:
                self.input_grads.append((self._input(forward, name), written.pop(gradient)))
        self.ys = [self._scope(y, spaces) if y.name in written else y for y in self.ys]
        self.input_grads += self.kept(forward, names)
        self.beside = {y.name: y for _, y in self.input_grads if y not in self.ys}
        for blob, _ in (*self.output_grads, *self.input_grads):
            blob.uses += 1

    @abstractmethod
    def match(self, forward: Control, earlier: ForwardIndex) -> GradientNames:
        """What the nets inside say; raises `CompileError` where it does not fit the forward
        operator."""

    def kept(self, forward: Control, names: GradientNames) -> list[tuple[Blob, Blob]]:
        """Blobs whose gradient is what stands for that of an output, if nothing overwrites it."""
        return []

    def _read(self, name: str) -> Blob:
        for blob, read in zip(self.xs, self.op.input, strict=True):
            if read == name:
                return blob
        raise self.error(f'does not list the gradient "{name}", which it reads, as an input')

    def _output(self, forward: Control, name: str) -> Blob:
        for blob, written in zip(forward.ys, forward.op.output, strict=True):
            if written == name and not blob.opaque:
                return blob
        raise self.error(f'reads a gradient of "{name}", which {forward.text} does not write')

    def _input(self, forward: Control, name: str) -> Blob:
        for blob, read in zip(forward.reads, forward.op.input, strict=True):
            if read == name and not blob.opaque:
                return blob
        raise self.error(f'writes a gradient of "{name}", which {forward.text} does not read')

    def _scope(self, y: Blob, spaces: list[ScopeBlob]) -> Blob:
        """A scope among the outputs stays what it is."""
        for space in spaces:
            if space.name == y.name:
                return space
        raise self.error(f'writes "{y.name}", which no net inside writes')

    def nested(self) -> list[Operator]:
        return [op for part in self.parts for op in part.backward]

    def infer(self, s: Shapes) -> None:
        super().infer(s)
        for part in self.parts:
            for value, gradient in (*part.output_grads, *part.input_grads):
                s.same_shape(value, gradient)
                s.same_dtype(value, gradient)

    def check(self, s: Shapes) -> None:
        """Compare the gradients inside with ours, on random numbers, where those end the loops."""
        for part in self.parts:
            if any(isinstance(op, While) and not op.is_counted for op in walk(part.forward)):
                for op in (op for op in part.backward if isinstance(op, ControlGradient)):
                    op.check(s)
                continue
            try:
                check_backward(self, part, s)
            except CompileError:
                if not part.in_place:
                    raise

    def produced(self) -> list[Blob]:
        return [y for _, y in self.input_grads]

    def build(self, e: Emitter) -> None:
        self.check(e.shapes)
        assert self.forward is not None
        read = {*self.forward.captured(), *(blob for blob, _ in self.output_grads)}
        all_grads = self.input_grads
        self.input_grads = [(blob, y) for blob, y in all_grads if blob in read]
        super().build(e)
        for _, y in (pair for pair in all_grads if pair[0] not in read):
            e[y] = e.b.fill(0, e.dims(y), y.dtype or "f32")
        self.input_grads = all_grads

    def read_do(self, op: OperatorDef, forward: Do, where: str) -> GradientNames:
        """The names in the gradient of a Do, compared with those of the Do."""
        location = Location(self.location.file, f"{self.location.node}: {where} (Do)")
        if op.type != "Do" or not op.is_gradient_op or not op.input:
            raise CompileError(location, f"is no gradient of {forward.text}")
        if op.input[-1] != forward.space.name or op.output[-1:] != op.input[-1:]:
            raise CompileError(location, f"has another scope than {forward.text}")
        output_grads, input_grads = dict[str, str](), dict[str, str]()
        bound = read_bindings(op, location)
        for name, outer in bound.items():
            names = (
                input_grads
                if name.endswith(COPY)
                else output_grads
                if name.endswith(GIVEN)
                else None
            )
            inner = name.removesuffix(COPY).removesuffix(GIVEN)
            known = forward.bound.get(inner)
            if known is None or (names is None and known != outer):
                what = f'binds "{name}" to "{outer}"'
                raise CompileError(location, f"{what}, which does not go with {forward.text}")
            if names is not None:
                names[outer] = known
        try:  # where it writes in place, Caffe2 may be wrong, and ours is the true gradient
            self.parts.append(read_inner(self.maker, op, location, forward, bound))
        except CompileError:
            if not writes_in_place(forward):
                raise
        return GradientNames(output_grads, input_grads)


class DoGradient(ControlGradient):
    """The gradient of a Do, as Caffe2 writes it: `X/_DO_OPERATOR_INNER_GRAD_` is bound to the
    gradient of an output X, `X/_DO_OPERATOR_INNER_GRAD_COPY_` to that of an input X."""

    kind = Do

    def match(self, forward: Control, earlier: ForwardIndex) -> GradientNames:
        assert isinstance(forward, Do)
        return self.read_do(self.op, forward, "itself")


class IfGradient(ControlGradient):
    """The gradient of an If, as Caffe2 writes it: each net is the gradient of a branch of one Do,
    and makes zeros of the gradients that only the other branch has."""

    kind = If

    def match(self, forward: Control, earlier: ForwardIndex) -> GradientNames:
        assert isinstance(forward, If)
        if self.xs[0] is not forward.condition:
            raise self.error(f"has another condition than {forward.text}")
        output_grads, input_grads = dict[str, str](), dict[str, str]()
        fills = list[tuple[str, str]]()
        for index, (name, word) in enumerate(NETS):
            net = read_net(self, name)
            for at, op in enumerate(() if net is None else net.op):
                where = f"{word} {at}"
                if op.type == "Do":
                    names = self.read_do(op, self._branch(forward, index), where)
                    self._join(output_grads, names.output_grads)
                    self._join(input_grads, names.input_grads)
                else:
                    fills.append(self._fill(op, where))
        self._check_fills(forward, output_grads, input_grads, fills)
        return GradientNames(output_grads, input_grads)

    def _branch(self, forward: If, index: int) -> Do:
        branch = [op for op in forward.branches[index] if not op.implied]
        if len(branch) == 1 and isinstance(branch[0], Do):
            return branch[0]
        raise self.error(f"has a gradient of the {NETS[index][0]} of {forward.text}, not one Do")

    def _join(self, all_: dict[str, str], new: Mapping[str, str]) -> None:
        for gradient, name in new.items():
            if all_.setdefault(gradient, name) != name:
                raise self.error(f'"{gradient}" belongs to "{name}" and "{all_[gradient]}"')

    def _fill(self, op: OperatorDef, where: str) -> tuple[str, str]:
        """What takes the place of a gradient that the other branch makes: (its source, it)."""
        zero = op.type == "ConstantFill" and Arguments(op, self.location).float("value", 0.0) == 0
        if (op.type == "Copy" or zero) and len(op.input) == 1 and len(op.output) == 1:
            return op.input[0], op.output[0]
        raise self.error(f"has {where} ({op.type}), which is in no gradient of an If")

    def _check_fills(
        self,
        forward: If,
        output_grads: Mapping[str, str],
        input_grads: Mapping[str, str],
        fills: list[tuple[str, str]],
    ) -> None:
        for source, gradient in fills:
            name = input_grads.get(gradient)
            if name is None or output_grads.get(source, source) != name:
                what = f'fills "{gradient}" from "{source}"'
                raise self.error(f"{what}, which does not go with {forward.text}")

    def kept(self, forward: Control, names: GradientNames) -> list[tuple[Blob, Blob]]:
        """A blob that a branch leaves as it was although the If does not list it as an input."""
        assert isinstance(forward, If)
        ways = {merged.y.name: merged.earlier for merged in forward.merged}
        candidates = [(ways.get(n), g) for g, n in names.output_grads.items() if g == f"{n}_grad"]
        computed = {blob for blob, _ in self.input_grads}
        return [(x, Blob(g)) for x, g in candidates if x is not None and x not in computed]


class WhileGradient(ControlGradient):
    """The gradient of a While, as Caffe2 writes it: its nets are the gradient of the one Do of the
    body, and HasScope with the copies of carried gradients."""

    kind = While

    def match(self, forward: Control, earlier: ForwardIndex) -> GradientNames:
        assert isinstance(forward, While)
        body = [op for op in forward.body if not op.implied]
        if len(body) != 1 or not isinstance(body[0], Do):
            raise self.error(f"is the gradient of {forward.text}, whose body is not one Do")
        do, loop, cond = body[0], needed_net(self, "loop_net"), needed_net(self, "cond_net")
        if len(loop.op) != 1:
            raise self.error(f"has {len(loop.op)} operators in its loop_net, expected one Do")
        names = self.read_do(loop.op[0], do, "body op 0")
        self._check_condition(cond, do, earlier)
        input_grads = dict[str, str]()
        for y in self.op.output:
            split = AUTOSPLIT.match(y)
            name = names.input_grads.get(y) or (names.input_grads.get(split[1]) if split else None)
            if name is not None:
                input_grads[y] = name
        for at, op in enumerate(cond.op[1:], 1):
            pair = (*op.input, *op.output)
            back = len(pair) == 2 and names.input_grads.get(pair[0]) == names.output_grads.get(
                pair[1], ""
            )
            if op.type != "Copy" or not back:
                raise self.error(f"has condition op {at} ({op.type}), which does not go with it")
        return GradientNames(names.output_grads, input_grads)

    def _check_condition(self, cond: NetDef, do: Do, earlier: ForwardIndex) -> None:
        first = cond.op[0] if cond.op else OperatorDef()
        here = earlier.of("HasScope", self.xs[0])
        flags = [op for op in here if isinstance(op, HasScope) and op.space is do.space]
        same = [*first.input, *first.output] == [do.space.name, self.op.input[0]]
        if not flags or first.type != "HasScope" or not same:
            raise self.error("does not run until its scope is empty")


GRADIENTS: dict[str, type[Operator]] = {
    "Do": DoGradient,
    "If": IfGradient,
    "While": WhileGradient,
}
