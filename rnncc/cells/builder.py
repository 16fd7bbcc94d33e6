"""Builds a layer of any cell: layouts, directions, masks, stacks, truncation, drop-connect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import SSAValue

from rnncc.cells.layer import CellKind, Layer
from rnncc.cells.parameters import Array, Ends, Parameter, arrays_for, sizes_from
from rnncc.cells.settings import LayerSettings
from rnncc.errors import Location
from rnncc.ir.builder import Builder, Values
from rnncc.ir.dims import Dim
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of
from rnncc.nn.arithmetic import times
from rnncc.nn.layer import Cell, Direction, laid_out, run_layers, side_by_side, time_first
from rnncc.nn.steps import Named
from rnncc.records import record
from rnncc.sizes import BATCH, TIME


@record
class _LayerDirection:
    """One direction of one layer; its names stand between `ends`."""

    ends: Ends
    reverse: bool
    stream: int
    parameters: dict[str, Parameter]


def build_layer(
    kind: CellKind,
    sizes: tuple[int | None, int | None],
    settings: LayerSettings,
    peepholes: bool = False,
) -> Layer:
    """A layer of nIn and H units; raises `CompileError` where sizes and parameters do not fit."""
    parameters, name = settings.parameters, kind.kind
    first = (settings.prefix(0), settings.directions[0][0])
    n_in, n_out = sizes_from(name, sizes, parameters, first)
    parts = _parts(kind, n_in, n_out, settings)
    expected = {
        n.join(p.ends): q for several in parts for p in several for n, q in p.parameters.items()
    }
    arrays = arrays_for(name, expected, parameters, settings.seed)
    built = _Builder(kind, n_out, settings).program(n_in, parts, arrays)
    plain = (built.module, built.arrays, built.name, built.source)
    return Layer(*plain, kind=name, n_in=n_in, n_out=n_out, peepholes=peepholes, settings=settings)


def _parts(
    kind: CellKind, n_in: int, n_out: int, settings: LayerSettings
) -> list[list[_LayerDirection]]:
    """The directions of each layer."""
    parts: list[list[_LayerDirection]] = []
    for layer in range(settings.layers):
        width = n_out * settings.width if layer else n_in
        own = kind.parameters(width, n_out)
        ways = enumerate(settings.directions, layer * len(settings.directions))
        prefix = settings.prefix(layer)
        parts.append(
            [_LayerDirection((prefix, end), back, stream, own) for stream, (end, back) in ways]
        )
    return parts


class _Builder:
    """Appends a layer's parts to a net."""

    def __init__(self, kind: CellKind, n_out: int, settings: LayerSettings) -> None:
        self.kind, self.n_out, self.settings = kind, n_out, settings
        self.b = Builder.net(settings.name or kind.kind)
        self.b.loc = Location(node=kind.kind)

    def program(
        self, n_in: int, parts: list[list[_LayerDirection]], arrays: Mapping[str, Array]
    ) -> Program:
        """The net of all parts: y, then each direction's states after the last step."""
        x, mask = self.inputs(n_in)
        steps, batch, _ = dims_of(x)
        layers = ((self.direction(p, steps, batch, mask) for p in several) for several in parts)
        y, finals = run_layers(self.b, x, layers, join=self.merged)
        outputs = {"y": laid_out(self.b, y, self.settings.layout)}
        ends = [part.ends for several in parts for part in several]
        for (prefix, end), states in zip(ends, finals, strict=True):
            for name, state in zip(self.kind.states, states, strict=True):
                outputs[f"{prefix}{name}_last{end}"] = state
        return self.b.finish(outputs, arrays, self.kind.kind)

    def inputs(self, n_in: int) -> tuple[SSAValue, SSAValue | None]:
        """X as [T, N, nIn], the mask as [T, N, 1]; in the order of the model's inputs."""
        sizes: dict[str, str | int] = {BATCH: BATCH, TIME: TIME, "C": n_in}
        layout = self.settings.layout
        x = time_first(self.b, self.b.input("x", [sizes[axis] for axis in layout]), layout)
        mask = None
        if self.settings.masked:
            layout = layout.replace("C", "")
            mask = time_first(self.b, self.b.input("mask", [sizes[a] for a in layout]), layout)
            mask = self.b.reshape(mask, (*dims_of(mask), 1))
        self.seed = self.b.input("seed", [], "i32") if self.settings.drop_connect else None
        return x, mask

    def merged(self, b: Builder, ys: Sequence[SSAValue]) -> SSAValue:
        """The y of one direction or of two."""
        if len(ys) == 1:
            return ys[0]
        match self.settings.merge:
            case "add":
                return b.add(*ys)
            case "multiply":
                return b.mul(*ys)
            case "average":
                return times(b, b.add(*ys), 0.5)
            case "concatenate":
                return side_by_side(b, ys)

    def direction(
        self, part: _LayerDirection, steps: Dim, batch: Dim, mask: SSAValue | None
    ) -> Direction:
        """One direction of one layer."""
        b, kind, (prefix, end) = self.b, self.kind, part.ends
        p = {name: b.param(name.join(part.ends), q.shape) for name, q in part.parameters.items()}
        if self.seed is not None:
            p["W"] = self._dropped(p["W"], self.seed, part.stream)
        cell = kind.cell(b, p)
        if mask is not None:
            cell = _Masked(cell, mask)
        if self.settings.tbptt is not None:
            cell = _Truncated(cell, steps, self.settings.tbptt, part.reverse)
        starts = [self._init(f"{prefix}{name}0{end}", batch) for name in kind.states]
        return Direction(cell, starts, part.reverse)

    def _init(self, name: str, batch: Dim) -> SSAValue:
        dims = [batch, Dim.of(self.n_out)]
        return self.b.input(name, dims) if self.settings.initial_state else self.b.fill(0.0, dims)

    def _dropped(self, w: SSAValue, seed: SSAValue, stream: int) -> SSAValue:
        """W with some weights taken for 0; weight (i, j) draws number i · columns + j."""
        b, dims, drop = self.b, dims_of(w), self.settings.drop_connect
        rows, columns = b.iota(dims, 0), b.iota(dims, 1)
        index = b.add(b.mul(rows, b.size(dims[1], "i32")), columns)
        kept = b.div(w, b.full_like(w, 1 - drop)) if self.settings.rescale else w
        drawn = b.uniform(seed, index, stream)
        return b.select(b.compare("ge", drawn, b.full_like(w, drop)), kept, b.full_like(w, 0.0))


@record
class _Masked:
    """A cell whose states after a step are multiplied by the step's mask [T, N, 1]."""

    cell: Cell
    mask: SSAValue

    def prepare(self, b: Builder, x: SSAValue) -> tuple[Named, Values]:
        shared, rows = self.cell.prepare(b, x)
        return shared, [*rows, self.mask]

    def step(self, b: Builder, shared: Named, rows: Values, states: Values) -> list[SSAValue]:
        new = self.cell.step(b, shared, rows[:-1], states)
        return [b.mul(state, rows[-1]) for state in new]


@record
class _Truncated:
    """A cell through which gradients flow in the last `limit` steps in processing order alone."""

    cell: Cell
    steps: Dim
    limit: int
    reverse: bool

    def prepare(self, b: Builder, x: SSAValue) -> tuple[Named, Values]:
        shared, rows = self.cell.prepare(b, x)
        return shared, [*rows, b.iota([self.steps], 0)]

    def step(self, b: Builder, shared: Named, rows: Values, states: Values) -> list[SSAValue]:
        new = self.cell.step(b, shared, rows[:-1], states)
        late = self._is_late(b, rows[-1])
        return [b.select(late, state, b.stop_gradient(state)) for state in new]

    def _is_late(self, b: Builder, time: SSAValue) -> SSAValue:
        limit = Dim.of(self.limit)
        if self.reverse:
            return b.compare("lt", time, b.size(limit, "i32"))
        return b.compare("ge", time, b.size(self.steps - limit, "i32"))
