"""RecurrentNetwork: a step net run once for every row of a sequence, as one `rnn.scan`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import SSAValue

from rnncc.frontends.caffe2.blobs import Blob
from rnncc.frontends.caffe2.control import read_outside
from rnncc.frontends.caffe2.graph import Resolver, Scope
from rnncc.frontends.caffe2.operator import ANY, Emitter, Operator
from rnncc.frontends.caffe2.recurrent import (
    Alias,
    Link,
    State,
    Structure,
    inputs_of,
    names_written,
    read_structure,
)
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim, Dims, product
from rnncc.ir.types import dims_of
from rnncc.passes.gradients.vjp_of_region import ops_between

RECOMPUTE = "recompute_blobs_on_backward"


class RecurrentNetwork(Operator):
    """For t in 0 ... T-1 run the step net on views of the sequences and of the states.

    A state is L rows followed by the T rows that the steps write; outputs are views of states.

    Refused: a state that no step writes, or two links write; a step that does not write the row
    after those that its state starts with; a step that writes the timestep, an input or a part of
    the sequence; links to what is no state and no input; links that read past the end; reading
    a blob of the net around that is not among the inputs and that the step writes as well; nets
    nested too deep.

    Attributes:
        scope: each blob of the step net by name, in its last version.
        inherited: what the step net reads of the net around that is not among the inputs.
        sizes: each state's N and D.
        recomputed: the blobs of the step net that the backward pass computes again.
    """

    inputs = (1, ANY)
    outputs = (1, ANY)

    def setup(self, maker: Resolver) -> None:
        self.structure: Structure = read_structure(self)
        self._extent: Dims | None = None
        self._supposes_rows = False
        named = self.args.strings(RECOMPUTE)
        self.recomputed = {y for op in self.structure.step.op for y in op.output} & set(named)
        self.references = inputs_of(self)
        self.timestep = Blob(self.structure.timestep)
        self.internal: dict[str, Blob] = {}
        self.sizes: dict[str, Dims] = {}
        self.targets = self._targets()
        scope: Scope = {
            **self._around(maker.around),
            **self.references,
            self.timestep.name: self.timestep,
        }
        for link, _ in self.structure.sequences:
            scope[link.internal] = self.internal[link.internal] = Blob(link.internal)
        for state in self.structure.states:
            for link in state.reads:
                scope[link.internal] = self.internal[link.internal] = Blob(link.internal)
        inside = maker.inside(self.location, frozenset(self.references))
        self.steps = inside.operators_of(self.structure.step, scope)
        self.scope = scope
        self.written = {s.name: scope[s.write.internal] for s in self.structure.states}
        for name, blob in self.written.items():
            if blob.opaque:
                raise self.error(f'state "{name}" is written by "{blob.name}", which holds nothing')
            blob.uses += 1
        referenced = set(self.references.values())
        around = set(maker.around.values()) - referenced
        self.inherited = [blob for blob in read_outside(self.steps) if blob in around]

    def _around(self, around: Mapping[str, Blob]) -> Scope:
        """What the step net sees of the net around beside its inputs: the names that it does not
        write."""
        written = names_written(self, self.structure.step)
        return {name: around[name] for name in around.keys() - set(written)}

    def nested(self) -> Sequence[Operator]:
        return self.steps

    def _targets(self) -> list[tuple[Alias, State, Blob]]:
        """Each alias with its state and output; what no alias makes is for training alone."""
        outputs = {blob.name: blob for blob in self.ys}
        states = {state.name: state for state in self.structure.states}
        aliases = self.structure.aliases
        targets = [(a, states[a.state], outputs.pop(a.target)) for a in aliases]
        for alias, state, _ in targets:
            if not -state.rows <= alias.offset <= state.rows:
                what = f'the alias "{alias.target}" starts at row {alias.offset}'
                raise self.error(f"{what} of a state that starts with {state.rows}")
        for blob in outputs.values():
            blob.opaque = True
        return targets

    # Shapes

    def infer(self, s: Shapes) -> None:
        s.expect(self.timestep, (1,), "i32")
        t, n = self.extent(s)
        for link, blob in self.structure.sequences:
            self._infer_link(s, link, blob, t)
        for state in self.structure.states:
            self._infer_state(s, state, t, n)

    def extent(self, s: Shapes) -> tuple[Dim, Dim]:
        """T and N, the leading sizes of the first input, which may still be unknown."""
        sequence = s.dims(self.xs[0])
        if sequence is not None and len(sequence) < 2:
            raise self.error(f"the sequence has shape {s.text(sequence)}, expected T x N x ...")
        if self._extent is None:
            self._extent = sequence[:2] if sequence else (s.fresh(), s.fresh())
        if sequence and not all(map(s.equal, sequence, self._extent)):
            raise self.error(f"the sequence has shape {s.text(sequence)}")
        return s.resolve(self._extent[0]), s.resolve(self._extent[1])

    def _infer_link(self, s: Shapes, link: Link, blob: Blob, t: Dim) -> None:
        internal = self.internal[link.internal]
        s.same_dtype(internal, blob)
        row, whole = s.dims(internal), s.dims(blob)
        links = (other for other, of in self.structure.sequences if of is blob)
        ahead = max(other.offset + other.window for other in links) - 1
        if whole is None and row is not None:
            s.expect(internal, (link.window, *row[1:]))
            s.expect(blob, (t + ahead, *row[1:]))
        elif whole is not None:
            s.expect(internal, (link.window, *whole[1:]))
            # Steps may leave rows at the end unread, but not lack any.
            unread = s.resolve(whole[0]) - s.resolve(t + ahead)
            spare = unread.is_static and int(unread) >= 0
            if not spare and not s.equal(whole[0], t + ahead):
                what = f'"{blob.name}" has {s.size_text(whole[0])} rows'
                raise self.error(f"{what}, and the steps read {s.size_text(t + ahead)}")

    def _infer_state(self, s: Shapes, state: State, t: Dim, n: Dim) -> None:
        initial = s.dims(state.initial)
        written = self.written[state.name]
        known = s.dims(written)
        row = known[-1] if known and len(known) == 3 else s.fresh()
        size = initial[-1] if initial else row
        if initial is not None:
            if not 1 <= len(initial) <= 3:
                what = f'initial state "{state.initial.name}" has shape {s.text(initial)}'
                raise self.error(f"{what}, expected 1 to 3 axes")
            s.expect(state.initial, (state.rows, n, size)[3 - len(initial) :], "f32")
            if len(initial) < 3 and state.rows != 1:
                raise self.error(f'state "{state.name}" starts with one row, not {state.rows}')
        s.expect_dtype(state.initial, "f32")
        s.expect_dtype(written, "f32")
        self.sizes[state.name] = n, size
        for link in state.reads:
            s.expect(self.internal[link.internal], (link.window, n, size), "f32")
        for alias, of, blob in self.targets:
            if of is state:
                count = t + (state.rows - alias.offset)
                count = Dim.of(-alias.offset) if alias.offset < 0 else count
                s.expect(blob, (count, n, size), "f32")
        # What is written into a row may have another shape of as many elements; that of a row is
        # supposed where nothing shows one.
        if len(known or ()) == 3 or (known is None and self._supposes_rows):
            s.expect(written, (1, n, size))
        elif known is not None and not s.equal(product(known), n * size):
            what = f'state "{state.name}" has rows of shape {s.text((n, size))}'
            raise self.error(f'{what}, and "{written.name}" has shape {s.text(known)}')

    def assume(self, s: Shapes, level: int) -> None:
        if level == 0:
            self._supposes_rows = True
            t, n = self.extent(s)
            for state in self.structure.states:
                if s.dims(state.initial) is None:
                    s.expect(state.initial, (state.rows, n, self.sizes[state.name][1]))
            if s.dims(self.xs[0]) is None:
                s.expect(self.xs[0], (t, n, s.fresh()))

    # Building

    def build(self, e: Emitter) -> None:
        b, (t, _) = e.b, self.extent(e.shapes)
        states = self.structure.states
        starts = [self._start(e, state) for state in states]
        rows, sequences = self._sequences(e, t)
        consts = self._consts()
        kept = [i for i, state in enumerate(states) if self._is_kept(state)]

        def body(
            inner: Builder, const: list[SSAValue], carry: list[SSAValue], row: list[SSAValue]
        ) -> tuple[list[SSAValue], list[SSAValue]]:
            step = Emitter(inner, e.shapes, dict(zip(consts, const, strict=True)))
            self._enter(step, rows, row)
            new = self._run(step, carry)
            last = [self._row(step, states[i]) for i in kept]
            return new, [inner.reshape(v, dims_of(v)[1:]) for v in last]

        values = [e[blob] for blob in consts]
        finals, ys = b.scan(values, starts, sequences, body, length=t)
        histories = dict(zip(kept, ys, strict=True))
        for alias, state, blob in self.targets:
            i = states.index(state)
            history = histories[i] if alias.offset >= 0 and blob.uses else None
            if blob.uses:
                e[blob] = _view(b, alias, starts[i], finals[i], history)

    def _is_kept(self, state: State) -> bool:
        """Whether an output shows all rows that the steps write."""
        return any(a.offset >= 0 and of is state and blob.uses for a, of, blob in self.targets)

    def _start(self, e: Emitter, state: State) -> SSAValue:
        """The rows a state starts with, [L, N, D]."""
        value = e[state.initial]
        rank = len(dims_of(value))
        return e.b.broadcast(value, (state.rows, *self._sizes(e, state)), range(3 - rank, 3))

    def _sizes(self, e: Emitter, state: State) -> Dims:
        return tuple(e.shapes.resolve(size) for size in self.sizes[state.name])

    def _row(self, step: Emitter, state: State) -> SSAValue:
        """The row that a step writes, [1, N, D]."""
        return step.b.reshape(step[self.written[state.name]], (1, *self._sizes(step, state)))

    def _sequences(self, e: Emitter, t: Dim) -> tuple[list[Blob], list[SSAValue]]:
        """The sequences scanned: an internal blob occurs once for each row of its window."""
        rows, values = list[Blob](), list[SSAValue]()
        for link, blob in self.structure.sequences:
            for ahead in range(link.window if self.internal[link.internal].uses else 0):
                rows.append(self.internal[link.internal])
                values.append(e.b.slice(e[blob], 0, link.offset + ahead, t))
        if self.timestep.uses:
            rows.append(self.timestep)
            values.append(e.b.iota((t,), 0))
        return rows, values

    def _consts(self) -> list[Blob]:
        """What the step net reads of the net around it."""
        own = {id(blob) for blob in (*self.references.values(), *self.inherited)}
        consts: dict[Blob, None] = {}
        for op in self.steps:
            for blob in op.captured():
                if id(blob) in own and blob.value is None:
                    consts.setdefault(blob)
        return list(consts)

    def captured(self) -> Sequence[Blob]:
        return [*self.xs, *self.inherited]

    def _enter(self, step: Emitter, blobs: list[Blob], rows: list[SSAValue]) -> None:
        """Give the linked blobs their rows, windows joined."""
        parts: dict[Blob, list[SSAValue]] = {}
        for blob, row in zip(blobs, rows, strict=True):
            parts.setdefault(blob, []).append(step.b.reshape(row, (1, *dims_of(row))))
        for blob, values in parts.items():
            step[blob] = step.b.concat(values, 0)

    def _run(self, step: Emitter, carry: list[SSAValue]) -> list[SSAValue]:
        """Build the step net; the new carry."""
        b = step.b
        late = dict[Blob, tuple[SSAValue, Link, State]]()
        for state, rows in zip(self.structure.states, carry, strict=True):
            for link in state.reads:
                internal = self.internal[link.internal]
                if link.offset + link.window <= state.rows:
                    step[internal] = b.slice(rows, 0, link.offset, link.window)
                else:
                    late[internal] = (rows, link, state)
        for op in self.steps:
            for blob in op.captured():
                if blob in late:
                    b.loc = op.location
                    step[blob] = self._window(step, op, *late.pop(blob))
            step.build(op)
            self._name_recomputed(step, op)
        b.loc = self.location
        return [
            b.concat([b.slice(r, 0, 1, s.rows - 1), self._row(step, s)], 0)
            if s.rows > 1
            else self._row(step, s)
            for s, r in zip(self.structure.states, carry, strict=True)
        ]

    def _name_recomputed(self, step: Emitter, op: Operator) -> None:
        """Give what an operator computes on the way, which is no blob, the name of a blob that is
        computed again, where it writes or reads one: it is not kept either."""
        blobs = op.ys if self.recomputed.issuperset(y.name for y in op.ys) else op.xs
        name = next((blob.name for blob in blobs if blob.name in self.recomputed), None)
        if name is None:
            return
        sources = [step.read(op, x) for x in op.captured() if x in step.values]
        ends = [step[y] for y in op.ys if y in step.values]
        for op_between in ops_between(sources, ends):
            for value in op_between.results:
                step.name(value, name)

    def _window(
        self, step: Emitter, op: Operator, rows: SSAValue, link: Link, state: State
    ) -> SSAValue:
        """A window that ends with the row this step writes."""
        if self.written[state.name] not in step.values:
            raise op.error(f'reads "{link.internal}" before the step has written its last row')
        if link.window == 1:
            return self._row(step, state)
        before = step.b.slice(rows, 0, link.offset, link.window - 1)
        return step.b.concat([before, self._row(step, state)], 0)


def _view(
    b: Builder, alias: Alias, start: SSAValue, final: SSAValue, history: SSAValue | None
) -> SSAValue:
    """The rows of a state that an output shows: of its start [L, N, D], then of its history."""
    rows = int(dims_of(start)[0])
    if history is None:
        return b.slice(final, 0, rows + alias.offset, -alias.offset)
    if alias.offset == rows:
        return history
    return b.concat([b.slice(start, 0, alias.offset, rows - alias.offset), history], 0)


OPERATORS: dict[str, type[Operator]] = {"RecurrentNetwork": RecurrentNetwork}
