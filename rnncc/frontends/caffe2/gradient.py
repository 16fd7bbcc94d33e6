"""Operators that are the gradient of another one of the same net: found, checked, and lowered
through reverse mode of that forward operator."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Sequence
from typing import ClassVar

from xdsl.ir import SSAValue

from rnncc.frontends.caffe2.blobs import Blob
from rnncc.frontends.caffe2.forward_index import ForwardIndex
from rnncc.frontends.caffe2.operator import ANY, Emitter, Operator
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.builder import Builder
from rnncc.ir.ops.control import Scan, Yield
from rnncc.ir.types import FLOATS, dims_of
from rnncc.netdef import Arguments
from rnncc.passes.gradients.vjp_of_region import ops_between, vjp_of_region

_ADDED = ("no_bias",)
"""Arguments that Caffe2's gradient makers add."""

Pairs = list[tuple[Blob, Blob]]
Formula = Callable[[Builder, SSAValue, SSAValue, int], SSAValue]


class Gradient(Operator, ABC):
    """The gradient of one operator.

    Attributes:
        forward: that operator; None where there is none and the formula does without.
        output_grads: outputs of it, each with the gradient read.
        input_grads: inputs of it, each with the gradient written.
    """

    is_gradient = True
    forward: Operator | None = None
    output_grads: Pairs
    input_grads: Pairs

    def infer(self, s: Shapes) -> None:
        for value, gradient in (*self.output_grads, *self.input_grads):
            s.same_shape(value, gradient)
            s.same_dtype(value, gradient)

    def build(self, e: Emitter) -> None:
        assert self.forward is not None
        for blob, gradient in self.input_grads:
            if blob.dtype not in FLOATS:
                what = f'writes "{gradient.name}", the gradient of "{blob.name}"'
                raise self.error(f"{what}, which holds {blob.dtype}: only floats have gradients")
        requested = [e.read(self.forward, blob) for blob, _ in self.input_grads]
        known = [x for x in self.forward.captured() if x in e.values]
        sources = [*(e.read(self.forward, x) for x in known), *requested]
        seeds = [
            (e.read(self.forward, value), e[gradient]) for value, gradient in self.output_grads
        ]
        for (_, blob), value in zip(
            self.input_grads, gradients(e, seeds, requested, sources), strict=True
        ):
            e[blob] = value


def gradients(
    e: Emitter,
    seeds: Sequence[tuple[SSAValue, SSAValue]],
    requested: Sequence[SSAValue],
    sources: Sequence[SSAValue],
) -> list[SSAValue]:
    """`vjp_of_region` at the end of a block under construction: the emitter's values stay valid."""
    ops = ops_between(sources, [value for value, _ in seeds])
    kept = list[Blob]()
    if any(isinstance(op, Scan) for op in ops):  # loops are rebuilt, with other results
        kept = [blob for blob, value in e.values.items() if isinstance(value.owner, Scan)]
    holder = Yield([e.values[blob] for blob in kept])
    e.b.block.add_op(holder)
    b = Builder.before(holder)
    b.loc = e.b.loc
    results = vjp_of_region(b, seeds, requested, sources)
    e.values |= zip(kept, holder.values, strict=True)
    holder.detach()
    holder.erase()
    return results


class PlainGradient(Gradient):
    """The gradient of an operator without nets inside, as Caffe2's gradient makers write it.

    What it reads and writes stands in its class: `x0` is the forward operator's first input, `x*`
    are all, `y0` is its first output, `dx0` and `dy0` their gradients; what it lacks is left out.

    Attributes:
        kind: the type of the forward operator, or several.
        settings: the arguments that both must agree in, with their defaults; None for all.
    """

    inputs = (2, ANY)
    outputs = (1, ANY)
    kind: ClassVar[str]
    read: str
    written: str
    settings: ClassVar[dict[str, int | float] | None] = {}

    def find_forward(self, earlier: ForwardIndex) -> None:
        known = next(i for i, word in enumerate(self.read.split()) if word[0] != "d")
        read = self.xs[known : known + 1]
        candidates = [c for kind in self.kind.split() for x in read for c in earlier.of(kind, x)]
        wrong = [(self._difference(c), c) for c in candidates]
        match = next((c for text, c in wrong if text is None), None)
        if match is not None:
            self._attach(match)
        else:
            self._without_forward(earlier, wrong[0] if wrong else None, read)

    def _attach(self, forward: Operator) -> None:
        forward.has_gradient = True
        self.forward = forward
        pairs = zip(_operands(self.read, forward), self.xs, strict=True)
        self.output_grads = [(value, x) for (word, value), x in pairs if word[0] == "d"]
        targets = [value for _, value in _operands(self.written, forward)]
        self.input_grads = list(zip(targets, self.ys, strict=False))

    def _difference(self, forward: Operator) -> str | None:
        """Why an operator is not the one that this is the gradient of."""
        operands = _operands(self.read, forward)
        if len(operands) != len(self.xs):
            return f"has {len(self.xs)} inputs, expected {len(operands)}"
        if len(self.ys) > len(_operands(self.written, forward)):
            return f"has {len(self.ys)} outputs"
        for position, ((word, value), x) in enumerate(zip(operands, self.xs, strict=True)):
            if word[0] != "d" and value is not x:
                if value.name == x.name:
                    return f'input {position} is another version of "{x.name}"'
                return f'input {position} is "{x.name}", expected "{value.name}"'
        if self.settings is None:
            names = [name for name in self.args.unequal(forward.args) if name not in _ADDED]
            return f"argument {names[0]!r} is not that of the other" if names else None
        for name, default in self.settings.items():
            mine, its = (setting(op.args, name, default) for op in (self, forward))
            if mine != its:
                return f"argument {name!r} is {mine:g}, expected {its:g}"
        return None

    def _without_forward(
        self, earlier: ForwardIndex, nearest: tuple[str | None, Operator] | None, read: list[Blob]
    ) -> None:
        if nearest is not None:
            raise self.error(f"differs from {nearest[1].text}: {nearest[0]}")
        name = read[0].name if read else ""
        old = next((op for kind in self.kind.split() if (op := earlier.namesake(kind, name))), None)
        if old is None:
            kinds = " or ".join(self.kind.split())
            raise self.error(f'is the gradient of no operator: no {kinds} has "{name}"')
        raise self.error(f'reads another version of "{name}" than {old.text}')


class OutputGradient(PlainGradient):
    """The gradient of an operator by its output alone: dX = formula(Y, dY, first axis of a row),
    wherever Y comes from."""

    inputs = (2, 2)
    outputs = (1, 1)
    read = "y0 dy0"
    written = "dx0"
    formula: ClassVar[Formula]

    def _without_forward(
        self, earlier: ForwardIndex, nearest: tuple[str | None, Operator] | None, read: list[Blob]
    ) -> None:
        self.output_grads = [(self.xs[0], self.xs[1])]
        self.input_grads = [(self.xs[0], self.ys[0])]

    def infer(self, s: Shapes) -> None:
        super().infer(s)
        s.expect_dtype(self.xs[0], "f32")

    def build(self, e: Emitter) -> None:
        if self.forward is not None:
            super().build(e)
            return
        y, dy = (e[x] for x in self.xs)
        axis = self.axis("axis", 1, len(dims_of(y))) if "axis" in (self.settings or {}) else 0
        e[self.ys[0]] = type(self).formula(e.b, y, dy, axis)


def setting(args: Arguments, name: str, default: float) -> float:
    """A number among the arguments."""
    return args.int(name, default) if isinstance(default, int) else args.float(name, default)


def _operands(text: str, forward: Operator) -> list[tuple[str, Blob]]:
    """The words of a text, each with the forward operator's blob that it is about."""
    operands = list[tuple[str, Blob]]()
    for word in text.split():
        if word in ("x*", "dx*"):
            operands += [(word, x) for x in (forward.reads if word == "x*" else forward.xs)]
            continue
        group = forward.ys if "y" in word else forward.xs if word[0] == "d" else forward.reads
        operands += [(word, blob) for blob in group[int(word.strip("dxy")) :][:1]]
    return operands
