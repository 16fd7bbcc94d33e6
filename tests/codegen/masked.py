"""Recurrent nets over sequences of different lengths, in the forms in which they are written."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of
from tests.codegen.cells import STATES, STEPS, Values

FORMS = ["keep", "zero", "finished", "flags", "backwards", "both_ways", "stacked", "batch_first"]


def masked(kind: str, form: str, units: int, width: int, batch: str | int = "N") -> Program:
    """A cell over x, whose states change in the steps t < lengths[n] only.

    keep, zero: other rows keep the state, or have zeros; finished: the same as keep, told by
    t >= lengths[n]; flags: the caller tells for each step and row; backwards: from the last step to
    the first; both_ways: two cells, one over reversed segments; stacked: two layers;
    batch_first: x [N, T, width].
    """
    b, arrays = Builder.net(f"{kind}_{form}"), dict[str, np.ndarray]()
    axes = [batch, "T"] if form == "batch_first" else ["T", batch]
    x = b.input("x", [*axes, width])
    x = b.transpose(x, [1, 0, 2]) if form == "batch_first" else x
    flags = form == "flags"
    mask = b.input("flags", ["T", batch], "i1") if flags else b.input("lengths", [batch], "i32")
    layer = _Layers(b, arrays, kind, form, mask)
    y, lasts = layer.add(x, units, "a")
    if form == "stacked":
        y, lasts = layer.add(y, units + 3, "b")
    if form == "both_ways":
        back, _ = layer.add(b.reverse_segments(x, mask), units, "b")
        y = b.concat([y, b.reverse_segments(back, mask)], 2)
    y = b.transpose(y, [1, 0, 2]) if form == "batch_first" else y
    return b.finish({"y": y, **lasts}, arrays)


class _Layers:
    def __init__(
        self, b: Builder, arrays: dict[str, np.ndarray], kind: str, form: str, mask: SSAValue
    ) -> None:
        self.b, self.arrays, self.kind, self.form, self.mask = b, arrays, kind, form, mask

    def add(self, x: SSAValue, units: int, prefix: str) -> tuple[SSAValue, dict[str, SSAValue]]:
        """One more layer: its states in all steps, and the last ones."""
        b, kind, names = self.b, self.kind, STATES[self.kind]
        w, *ks = self._parameters(units, int(dims_of(x)[2]), prefix)
        states = [b.input(f"{prefix}.{name}", [dims_of(x)[1], units]) for name in names]
        xs = [b.matmul(x, w, transpose_b=True)]
        xs.append(self.mask if self.form == "flags" else b.iota(["T"], 0))

        def body(inner: Builder, ks: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
            *ks, ends = ks
            new = STEPS[kind](inner, ks, carry, rows[0])
            new = [
                self._chosen(inner, n, c, rows[1], ends) for n, c in zip(new, carry, strict=True)
            ]
            return new, new[:1]

        finals, (y,) = b.scan([*ks, self.mask], states, xs, body, self.form == "backwards")
        return y, {f"{prefix}.{n}_last": v for n, v in zip(names, finals, strict=True)}

    def _chosen(
        self, b: Builder, new: SSAValue, old: SSAValue, t: SSAValue, lengths: SSAValue
    ) -> SSAValue:
        rows, dims = dims_of(old)[0], dims_of(old)
        if self.form == "flags":
            return b.select(b.broadcast(t, dims, [0]), new, old)
        step = b.broadcast(t, [rows], [])
        if self.form == "finished":
            return b.select(b.broadcast(b.compare("ge", step, lengths), dims, [0]), old, new)
        inside = b.broadcast(b.compare("lt", step, lengths), dims, [0])
        return b.select(inside, new, b.fill(0.0, dims) if self.form == "zero" else old)

    def _parameters(self, units: int, width: int, prefix: str) -> Sequence[SSAValue]:
        gates = (3 if self.kind == "gru" else 4) * units
        shapes = {"w": (gates, width), "u": (gates, units), "bias": (gates,)}
        if self.kind == "milstm":
            shapes |= dict.fromkeys(("alpha", "beta1", "beta2"), (gates,))
        rng = np.random.default_rng(units * 101 + width)
        for name, shape in shapes.items():
            made = rng.uniform(-1, 1, shape) / shape[-1] ** 0.5
            self.arrays[f"{prefix}.{name}"] = made.astype(np.float32)
        return [self.b.param(f"{prefix}.{name}", shape) for name, shape in shapes.items()]
