"""The importer: resolves names, infers shapes, and only then builds the program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from rnncc.constants import Constants
from rnncc.errors import CompileError, Location, SizeError
from rnncc.frontends.bindings import constant_of, natural_type
from rnncc.frontends.caffe2.blobs import Blob
from rnncc.frontends.caffe2.constants import NAMES, known_fill
from rnncc.frontends.caffe2.control import mark_versions
from rnncc.frontends.caffe2.graph import Resolver, Scope
from rnncc.frontends.caffe2.operator import Array, Emitter, Operator, hint_of
from rnncc.frontends.caffe2.ops.fill import MAX_VECTOR
from rnncc.frontends.caffe2.ops.recurrent_network import RECOMPUTE, RecurrentNetwork
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.frontends.caffe2.solve import solve, walk
from rnncc.frontends.caffe2.table import GRADIENTS, OPERATORS, REFUSED
from rnncc.frontends.caffe2.trip_count import Loops
from rnncc.frontends.caffe2.unused import unused_unknown
from rnncc.frontends.shapes import Sizes, parse_shape
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dims
from rnncc.ir.program import Program
from rnncc.netdef import Argument, DeclaredFill, NetDef, OperatorDef, declared_fills, load, ssa
from rnncc.netdef.files import Message
from rnncc.records import record
from rnncc.sources import called

Source = str | Path | bytes | Message


def import_net(
    net: Source,
    init: Source | None = None,
    shapes: Sizes | None = None,
    *,
    name: str | None = None,
    seed: int = 0,
    recompute: Collection[str] | None = None,
    max_iterations: int | None = None,
    training: bool = False,
    bind: Constants | None = None,
) -> Program:
    """Read a Caffe2 net.

    Args:
        net: its path, its bytes or its message; binary or text form.
        init: the net that fills its parameters; those it does not fill become inputs.
        shapes: shapes of inputs, of numbers, symbols' names and None for what is to be inferred:
            `{"x": ("T", "N", 40)}` or `{"x": "T,N,40"}`.
        name: the program's name; by default the file's stem, or the net's own name.
        seed: for random fills of `init`.
        recompute: blobs of step nets that backward passes compute again, in place of those that
            the net names.
        max_iterations: the most iterations of a While whose number of iterations nothing shows.
        training: whether the program will be differentiated: then such a While needs it.
        bind: inputs that are constants -> these.
    Returns:
        A program whose inputs are the external inputs that neither `init` nor `bind` fills, in
        their order;
        those with a value by convention are optional.
    Raises:
        CompileError: anything wrong, damaged or not supported.
    """
    message = load(net, "<net>")
    if recompute is not None:
        message = _recomputing(message, recompute)
    graph, s = _solved(net, message, init, shapes, Loops(max_iterations, training), bind)
    stem = Path(net).stem if isinstance(net, (str, Path)) else ""
    program = graph.emit(s, name or stem or message.name or "net", seed)
    unknown = [n for n in sorted(recompute or ()) if hint_of(n) not in program.recompute]
    if unknown:
        what = f"no step of a recurrent net writes {', '.join(unknown)}, to be computed again"
        raise CompileError(program.source, what)
    return program


def _recomputing(net: NetDef, names: Collection[str]) -> NetDef:
    """A copy in which the backward passes of recurrent nets compute these blobs again."""
    copy = NetDef()
    copy.CopyFrom(net)
    for op in (op for op in copy.op if op.type == "RecurrentNetwork"):
        kept = [arg for arg in op.arg if arg.name != RECOMPUTE]
        del op.arg[:]
        # Names of the command line may hold bytes that are no text: no blob has such a name.
        texts = [name.encode(errors="replace") for name in names]
        op.arg.extend([*kept, Argument(name=RECOMPUTE, strings=texts)])
    return copy


@record
class OperatorShapes:
    """What inference found of an operator: (dtype, shape) of each output, None of what inference
    does not compute; and the same of the operators of nets inside, but not of gradients of control
    flow."""

    outputs: list[tuple[str, Dims] | None]
    inside: list[OperatorShapes]


def infer_shapes(
    net: Source,
    init: Source | None = None,
    shapes: Sizes | None = None,
    bind: Constants | None = None,
) -> list[OperatorShapes]:
    """The shapes of what every operator writes; arguments and errors are those of `import_net`."""
    graph, s = _solved(net, load(net, "<net>"), init, shapes, Loops(), bind)
    return [_shapes_of(s, op) for op in graph.operators if not op.implied]


def _shapes_of(s: Shapes, op: Operator) -> OperatorShapes:
    from rnncc.frontends.caffe2.ops.control_gradient import ControlGradient

    outputs = [
        None if blob.opaque or s.dims(blob) is None else (blob.dtype or "f32", s.known(blob))
        for blob in op.ys
    ]
    inside = [_shapes_of(s, inner) for inner in op.nested() if not inner.implied]
    inside = [] if isinstance(op, ControlGradient) else inside
    return OperatorShapes(outputs, inside)


def _solved(
    net: Source,
    message: NetDef,
    init: Source | None,
    shapes: Sizes | None,
    loops: Loops,
    bind: Constants | None = None,
) -> tuple[ResolvedNet, Shapes]:
    """A net's operators over blobs whose shapes are known."""
    location = Location(called(net, "<net>"))
    fills = dict[str, DeclaredFill]()
    if init is not None:
        init_file = called(init, "<init>")
        fills = declared_fills(load(init, init_file), init_file)
    if bind:
        fills |= _bound(ResolvedNet(message, fills, location, loops), shapes or {}, bind)
    graph = ResolvedNet(message, fills, location, loops)
    s = Shapes()
    graph.declare(s, shapes or {})
    try:
        solve(s, graph.operators, graph.starts, location)
    except SizeError as error:
        raise CompileError(s.location, error.what, error.hint) from error
    return graph, s


def _bound(graph: ResolvedNet, shapes: Sizes, bind: Constants) -> dict[str, DeclaredFill]:
    """Constants in the place of inputs, of the types that the net reads them as.

    Raises:
        CompileError: a name is no input, or a constant does not fit it.
    """
    file, fills = graph.location.file, dict[str, DeclaredFill]()
    for name in bind:
        if name not in graph.inputs:
            hint = f"inputs: {', '.join(graph.inputs)}"
            raise CompileError(Location(file, f"--bind {name}"), "is no input of the net", hint)
    s = Shapes()
    with suppress(CompileError):  # shapes may depend on what is bound; types are known before them
        graph.declare(s, {name: shape for name, shape in shapes.items() if name in graph.starts})
        solve(s, graph.operators, graph.starts, graph.location)
    for name, value in bind.items():
        place, blob = Location(file, f"--bind {name}"), graph.starts.get(name)
        dtype, dims = (None, None) if blob is None else (blob.dtype, s.dims(blob))
        single = dims is not None and all(d == 1 for d in dims)
        array = constant_of(value, dtype or natural_type(value), dims if single else None, place)
        fills[name] = DeclaredFill(name, array.shape, array.dtype, place, partial(_array, array))
    return fills


def _array(array: Array, seed: int) -> Array:
    return array


class _Absent:
    """What a net reads although it neither declares nor surely writes it: it stays what it was."""

    def __init__(self) -> None:
        self.blobs = dict[str, Blob]()

    def blob(self, name: str) -> Blob:
        """What a name stands for as the net begins."""
        return self.blobs.setdefault(name, Blob(name))


class ResolvedNet:
    """A net with its names resolved: operators over SSA blobs.

    Attributes:
        starts: the blobs that stand at the net's start: inputs, then parameters.
        outputs: the external outputs.
    """

    def __init__(
        self, net: NetDef, fills: Mapping[str, DeclaredFill], location: Location, loops: Loops
    ) -> None:
        self.location = location
        self.fills = fills
        if not net.op:
            raise CompileError(location, "holds no operators")
        for what in ("external_input", "external_output"):
            self._check_names(what, getattr(net, what))
        self.inputs = [name for name in _external_inputs(net) if name not in fills]
        scope: Scope = {name: Blob(name) for name in (*self.inputs, *fills)}
        self.starts = dict(scope)
        for name, fill in fills.items():
            scope[name].known = known_fill(fill)
        absent = _Absent()
        maker = Resolver(
            OPERATORS, REFUSED, location, loops, absent=absent.blob, gradients=GRADIENTS
        )
        unused = unused_unknown(net, _must_be_known)
        self.operators: list[Operator] = maker.operators_of(net, scope, unused)
        names = [*net.external_output, *self._gradients(net, scope, absent.blobs)]
        self.outputs = {name: self._output(name, scope) for name in names}
        if not self.outputs:
            raise CompileError(location, "declares no external_output")
        mark_versions(walk(self.operators))
        used = {name: blob for name, blob in absent.blobs.items() if blob.uses}
        unread = {name for name, blob in self.starts.items() if not blob.uses}
        forgotten = unread.intersection(name for index in unused for name in net.op[index].input)
        self.inputs = [name for name in self.inputs if name not in forgotten] + list(used)
        self.starts = used | self.starts
        inputs = {*self.inputs}
        self.starts = {
            name: blob for name, blob in self.starts.items() if name in inputs or blob.uses
        }

    def declare(self, s: Shapes, shapes: Sizes) -> None:
        """State the shapes of parameters, and those the user gives; inputs of which nothing then
        tells a shape, as no operator reads them, are left out."""
        for name, fill in self.fills.items():
            s.location = fill.location
            blob = self.starts.get(name)
            if blob is not None:
                s.expect(blob, fill.shape, NAMES[fill.dtype.name])
                small = len(fill.shape) == 1 and fill.shape[0] <= MAX_VECTOR
                # Sizes, lengths and segments, which shape rules read.
                if small and fill.dtype.kind == "i":
                    s.expect_value(blob, fill.array(0).tolist(), NAMES[fill.dtype.name])
        for name, shape in shapes.items():
            s.location = Location(self.location.file, f"--shape {name}")
            if name not in self.starts:
                names = ", ".join(self.starts)
                raise CompileError(s.location, "is no input of the net", f"inputs: {names}")
            sizes = parse_shape(shape, s.location)
            s.expect(self.starts[name], [s.fresh() if size is None else size for size in sizes])
        unread = {name for name in self.inputs if not self.starts[name].uses}
        unknown = {name for name in unread if self.starts[name].shape is None}
        self.inputs = [name for name in self.inputs if name not in unknown]
        for name in unknown:
            del self.starts[name]

    def emit(self, s: Shapes, name: str, seed: int) -> Program:
        """Build the program."""
        b = Builder.net(name)
        e = Emitter(b, s)
        for title in self.inputs:
            blob = self.starts[title]
            e[blob] = b.input(title, s.known(blob), blob.dtype or "f32")
        arrays = dict[str, Array]()
        for title, fill in self.fills.items():
            if title in self.starts:
                blob = self.starts[title]
                b.loc = fill.location
                e[blob] = b.param(title, s.known(blob), blob.dtype or "f32")
                arrays[title] = fill.array(seed)
        arrays |= {blob.name: array for blob, array in self._defaults(s, self.operators)}
        for op in self.operators:
            e.build(op)
        b.loc = self.location
        outputs = {title: e[blob] for title, blob in self.outputs.items()}
        program = b.finish(outputs, arrays, self.location.file)
        networks = [op for op in walk(self.operators) if isinstance(op, RecurrentNetwork)]
        program.recompute = frozenset(hint_of(n) for op in networks for n in op.recomputed)
        return program

    def _defaults(self, s: Shapes, operators: Sequence[Operator]) -> Iterator[tuple[Blob, Array]]:
        """What unfilled inputs hold by convention: their readers' word counts."""
        for op in operators:
            yield from self._defaults(s, op.nested())
            for blob, array in op.defaults(s):
                if blob.name in self.inputs and self.starts[blob.name] is blob:
                    yield blob, array

    def _check_names(self, what: str, names: Sequence[str]) -> None:
        if "" in names:
            raise CompileError(self.location, f"{what} holds an empty name")
        if len(set(names)) < len(names):
            twice = next(name for name, times in Counter(names).items() if times > 1)
            raise CompileError(self.location, f'{what} lists "{twice}" twice')

    def _gradients(self, net: NetDef, scope: Scope, absent: Iterable[str]) -> list[str]:
        """Of a net with gradient operators, what it makes of the gradients of inputs and
        parameters; none where the net itself lists some of them as outputs."""
        if not any(op.is_gradient for op in self.operators):
            return []
        names = [f"{name}_grad" for name in (*self.starts, *absent)]
        gradients = [name for name in names if name in scope and name not in self.starts]
        # what an optimiser that is left out writes over a gradient is none
        gradients = [name for name in gradients if not scope[name].opaque]
        return [] if set(gradients) & set(net.external_output) else gradients

    def _output(self, name: str, scope: Scope) -> Blob:
        blob = scope.get(name)
        if blob is None:
            raise CompileError(self.location, f'no operator writes the external output "{name}"')
        if blob.opaque:
            what = f'the external output "{name}" {blob.lacks}'
            raise CompileError(self.location, what)
        blob.uses += 1
        return blob


def _must_be_known(op: OperatorDef) -> bool:
    return op.is_gradient_op or op.type in OPERATORS or op.type in GRADIENTS


def _external_inputs(net: NetDef) -> list[str]:
    """The declared inputs; where none are, what operators read before any writes it."""
    if net.external_input:
        return list(net.external_input)
    read = [value for inputs, _ in ssa(net)[0] for value in inputs]
    return list(dict.fromkeys(name for name, version in read if version == 0))
