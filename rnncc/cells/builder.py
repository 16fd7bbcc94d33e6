"""Builds a layer of any cell: layouts, directions, masks, stacks, truncation, drop-connect."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from rnncc.cells.layer import Cell, Layer, Named, Values
from rnncc.cells.parameters import Ends, Parameter, arrays_for, sizes_from
from rnncc.cells.settings import Settings
from rnncc.errors import Location
from rnncc.ir.build import Build
from rnncc.ir.dims import Dim
from rnncc.ir.types import dims_of


@dataclass(frozen=True)
class _Part:
    """One direction of one layer; its names stand between `ends`."""

    ends: Ends
    reverse: bool
    stream: int
    parameters: dict[str, Parameter]


def build_layer(
    cell: Cell, sizes: tuple[int | None, int | None], settings: Settings, peepholes: bool = False
) -> Layer:
    """A layer of nIn and H units; raises `CompileError` where sizes and parameters do not fit."""
    given, kind = settings.parameters, cell.kind
    first = (settings.prefix(0), settings.directions[0][0])
    n_in, n_out = sizes_from(kind, sizes, given, first)
    parts = _parts(cell, n_in, n_out, settings)
    wanted = {
        n.join(p.ends): q for several in parts for p in several for n, q in p.parameters.items()
    }
    arrays = arrays_for(kind, wanted, given, settings.seed)
    builder = _Builder(cell, n_out, settings)
    x, mask = builder.inputs(n_in)
    for several in parts:
        x = builder.merged(*(builder.part(part, x, mask) for part in several))
    made = builder.b.finish({"y": builder.laid_out(x), **builder.lasts}, arrays, kind)
    plain = (made.module, made.arrays, made.name, made.source)
    return Layer(*plain, kind=kind, n_in=n_in, n_out=n_out, peepholes=peepholes, settings=settings)


def _parts(cell: Cell, n_in: int, n_out: int, settings: Settings) -> list[list[_Part]]:
    """The directions of each layer."""
    parts: list[list[_Part]] = []
    for layer in range(settings.layers):
        width = n_out * settings.width if layer else n_in
        own = cell.parameters(width, n_out)
        ways = enumerate(settings.directions, layer * len(settings.directions))
        prefix = settings.prefix(layer)
        parts.append([_Part((prefix, end), back, stream, own) for stream, (end, back) in ways])
    return parts


class _Builder:
    """Appends a layer's parts to a net; `lasts` are the states after the last step."""

    def __init__(self, cell: Cell, n_out: int, settings: Settings) -> None:
        self.cell, self.n_out, self.settings = cell, n_out, settings
        self.b = Build.net(settings.name or cell.kind)
        self.b.loc = Location(node=cell.kind)
        self.lasts: Named = {}

    def inputs(self, n_in: int) -> tuple[SSAValue, SSAValue | None]:
        """X as [T, N, nIn], the mask as [T, N, 1]; in the order of the model's inputs."""
        sizes: dict[str, str | int] = {"N": "N", "T": "T", "C": n_in}
        layout = self.settings.layout
        x = self._time_first(self.b.input("x", [sizes[axis] for axis in layout]), layout)
        mask = None
        if self.settings.masked:
            layout = layout.replace("C", "")
            mask = self._time_first(self.b.input("mask", [sizes[a] for a in layout]), layout)
            mask = self.b.reshape(mask, (*dims_of(mask), 1))
        self.seed = self.b.input("seed", [], "i32") if self.settings.drop_connect else None
        return x, mask

    def _time_first(self, x: SSAValue, layout: str) -> SSAValue:
        if "T" not in layout:
            return self.b.reshape(x, (1, *dims_of(x)))
        return self.b.transpose(x, [layout.index(axis) for axis in "TNC" if axis in layout])

    def laid_out(self, y: SSAValue) -> SSAValue:
        """Y [T, N, ...] as the layout has it."""
        layout = self.settings.layout
        if "T" not in layout:
            return self.b.reshape(y, dims_of(y)[1:])
        return self.b.transpose(y, ["TNC".index(axis) for axis in layout])

    def merged(self, first: SSAValue, second: SSAValue | None = None) -> SSAValue:
        """The y of one direction or of two."""
        if second is None:
            return first
        match self.settings.merge:
            case "add":
                return self.b.add(first, second)
            case "multiply":
                return self.b.mul(first, second)
            case "average":
                return self.b.mul(self.b.add(first, second), self.b.full_like(first, 0.5))
            case "concatenate":
                return self.b.concat([first, second], 2)

    def part(self, part: _Part, x: SSAValue, mask: SSAValue | None) -> SSAValue:
        """One direction of one layer: y [T, N, H]."""
        b, cell, (prefix, end) = self.b, self.cell, part.ends
        p = {name: b.param(name.join(part.ends), q.shape) for name, q in part.parameters.items()}
        if self.seed is not None:
            p["W"] = self._dropped(p["W"], self.seed, part.stream)
        shared, rows = cell.prepare(b, x, p)
        steps, batch, _ = dims_of(x)
        inits = [self._init(f"{prefix}{name}0{end}", batch) for name in cell.states]
        time = b.iota([steps], 0)

        def body(inner: Build, consts: Values, carry: Values, xs: Values) -> tuple[Values, Values]:
            time, *masks = xs[len(rows) :]
            new = cell.step(inner, consts, xs[: len(rows)], carry)
            for factor in masks:
                new = [inner.mul(state, factor) for state in new]
            if self.settings.tbptt is not None:
                late = self._is_late(inner, time, steps, part.reverse)
                new = [inner.select(late, s, inner.stop_gradient(s)) for s in new]
            return new, new[:1]

        xs = [*rows, time] if mask is None else [*rows, time, mask]
        finals, ys = b.scan(list(shared), inits, xs, body, part.reverse)
        for name, final in zip(cell.states, finals, strict=True):
            self.lasts[f"{prefix}{name}_last{end}"] = final
        return ys[0]

    def _init(self, name: str, batch: Dim) -> SSAValue:
        dims = [batch, Dim.of(self.n_out)]
        return self.b.input(name, dims) if self.settings.initial_state else self.b.fill(0.0, dims)

    def _is_late(self, b: Build, time: SSAValue, steps: Dim, reverse: bool) -> SSAValue:
        """Whether a step is one of the last k in processing order."""
        k = Dim.of(self.settings.tbptt or 0)
        if reverse:
            return b.compare("lt", time, b.size(k, "i32"))
        return b.compare("ge", time, b.size(steps - k, "i32"))

    def _dropped(self, w: SSAValue, seed: SSAValue, stream: int) -> SSAValue:
        """W with some weights taken for 0; weight (i, j) draws number i · columns + j."""
        b, dims, drop = self.b, dims_of(w), self.settings.drop_connect
        rows, columns = b.iota(dims, 0), b.iota(dims, 1)
        index = b.add(b.mul(rows, b.size(dims[1], "i32")), columns)
        kept = b.div(w, b.full_like(w, 1 - drop)) if self.settings.rescale else w
        drawn = b.uniform(seed, index, stream)
        return b.select(b.compare("ge", drawn, b.full_like(w, drop)), kept, b.full_like(w, 0.0))
