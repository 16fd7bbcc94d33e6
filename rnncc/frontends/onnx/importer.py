"""The importer: a model's inputs and initialisers, then its nodes in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from rnncc.constants import Constants
from rnncc.errors import CompileError, Location
from rnncc.frontends.onnx.counted.rows import Crossed, Partial, parts_of
from rnncc.frontends.onnx.counted_ops.pairs import build_counted
from rnncc.frontends.onnx.errors import Unsupported
from rnncc.frontends.onnx.formulas.learning import MOST_LEARNT, Fork, Known, Learnt, learning
from rnncc.frontends.onnx.functions import functions_of
from rnncc.frontends.onnx.inputs import Given, Inputs
from rnncc.frontends.onnx.lists import (
    Names,
    Nothing,
    StackedRows,
    check_whole,
    element_names,
    elements,
)
from rnncc.frontends.onnx.model import ModelContext
from rnncc.frontends.onnx.node import FLOATS
from rnncc.frontends.onnx.reading import Tensors, load, opsets_of
from rnncc.frontends.onnx.scope import Scope
from rnncc.frontends.onnx.table import OPERATORS
from rnncc.frontends.onnx.unread import CONTRIBUTED
from rnncc.frontends.onnx.values import Array, Value, name_of
from rnncc.frontends.shapes import Sizes, parse_shape
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.ports import fresh
from rnncc.ir.program import Counts, Program
from rnncc.ir.rewriting import is_used
from rnncc.ir.size_proofs import is_natural
from rnncc.ir.types import dtype_of
from rnncc.records import record
from rnncc.scalar import Scalar
from rnncc.sources import called

OVERRIDABLE_FROM = 4
"""The IR version from which an initialiser that is an input too means a default."""


@record
class Imported:
    """A model that was read.

    Attributes:
        outputs: output of the model -> the outputs of the program that it is made of.
    """

    program: Program
    outputs: Mapping[str, Names]


def import_model(source: object, **options: Any) -> Program:
    """Read an ONNX model; the elements of an output that is a list are outputs `name.0` and so on.

    Args and errors: as of `read_model`.
    """
    program = read_model(source, **options).program
    if not program.net.outputs:
        raise CompileError(
            program.source, "has outputs that are empty lists or nothing, and no other"
        )
    return program


def read_model(
    source: object,
    shapes: Sizes | None = None,
    name: str | None = None,
    max_iterations: int | str | None = None,
    training: bool = False,
    functions: Mapping[str, Scalar] | None = None,
    bind: Constants | None = None,
    given: Given | None = None,
) -> Imported:
    """Read an ONNX model.

    Args:
        source: its path, its bytes or a ModelProto.
        shapes: sizes of inputs that the file leaves open: numbers, symbols' names, or None for
            what the file says.
        name: the program's name; by default the file's stem, or the graph's own name.
        max_iterations: the most iterations of a loop, and rows of a range, whose number nothing
            shows: a number, or a formula of the inputs' sizes.
        training: whether the program will be differentiated.
        functions: DOMAIN.NAME -> the function of numbers that an operator is.
        bind: inputs that are constants -> these, checked; the others' sizes follow from theirs.
        given: what is known of inputs.
    Returns:
        A program whose inputs are the graph's that are neither initialisers nor constants, in
        their order; floats that are inputs and initialisers have the latter as a default.
    Raises:
        CompileError: anything wrong, damaged or not supported.
    """
    message = load(source)
    file = called(source, "<model>")
    _check_graph(message.graph, file)
    own = functions_of(message, file)
    # ONNX Runtime's own tools write its operators, of one version, without importing their domain
    opsets, tensors = {CONTRIBUTED: 1, **opsets_of(message)}, Tensors(source)
    stem = Path(source).stem if isinstance(source, (str, Path)) else ""
    size = message.ByteSize()

    def attempt(known: Known) -> Imported:
        model = ModelContext(
            file,
            tensors,
            opsets,
            own,
            OPERATORS,
            build_counted,
            training=training,
            scalars=functions or {},
        )
        model.known, model.stored = known, size
        scope = Scope(model, Builder.net(name or stem or message.graph.name or "net"))
        model.net = scope.b
        defaults = _add_inputs(scope, message, shapes or {}, bind or {}, given or Given())
        model.max_iterations = _most_iterations(max_iterations, model)
        try:
            imported = _finished(scope, message.graph, defaults)
        except (CompileError, Fork, Learnt) as error:
            if more_uneven := model.known.uneven[len(known.uneven) :]:
                raise Learnt(uneven=more_uneven) from error
            if isinstance(error, CompileError):
                model.raise_undecided(error)
            raise
        if more_uneven := model.known.uneven[len(known.uneven) :]:
            raise Learnt(uneven=more_uneven)
        model.raise_undecided()
        return imported

    what = f"has operators that force more than {MOST_LEARNT} sizes to be others"
    many = CompileError(file, what, "--shape gives sizes that are equal one name")
    return learning(attempt, many)


def _most_iterations(text: int | str | None, model: ModelContext) -> Dim | None:
    """What bounds the loops and ranges that nothing else does."""
    if text is None:
        return None
    [most] = parse_shape([text], Location("--max-iterations"))
    if most is None:
        raise CompileError("--max-iterations", f"{text!r} is no bound")
    most = most.substitute(dict(model.known.sizes))
    if unknown := sorted(most.symbols - {*model.symbols}):
        what = f"{text!r}: the inputs have no size {', '.join(unknown)}"
        raise CompileError("--max-iterations", what, f"they have {', '.join(model.symbols)}")
    return most


def _finished(scope: Scope, graph: Any, defaults: Mapping[str, Array]) -> Imported:
    """Run a graph's nodes, and make a program of its outputs."""
    outputs, model, partial = dict[str, SSAValue](), scope.model, dict[str, list[Partial]]()
    held = dict[str, Names]()
    for info, value in zip(graph.output, scope.run(graph), strict=True):
        if info.name in held:  # an output that is listed twice is one
            continue
        if isinstance(value, Partial | Crossed):
            partial[info.name] = sorted(parts_of(value), key=lambda rows: rows.axis)
            value = value.whole()
        held[info.name] = _add_output(scope, info.name, value, outputs)
    counts = _add_counts(partial, outputs)
    program = scope.b.finish(outputs, {**model.arrays, **defaults}, model.file)
    program.bounds, program.counts = tuple(model.bounds), counts
    program.texts = _words(model, program)
    for param in program.params.values():  # of initialisers of which the numbers alone were read
        if not is_used(param.y):
            param.detach()
            param.erase()
    named = {*program.params, *defaults}  # of a loop that became no scan, parameters are left over
    program.arrays = {name: array for name, array in program.arrays.items() if name in named}
    program.fixed = frozenset(model.fixed) & named
    return Imported(program, held)


def _words(model: ModelContext, program: Program) -> tuple[str, ...]:
    """The texts that a program knows; none if no input or output holds text.

    Raises:
        Unsupported: it is trained, and one does.
    """
    ports = {"input": program.net.inputs, "output": program.net.outputs}
    texts = [
        f'{kind} "{name}"'
        for kind, values in ports.items()
        for name, value in values.items()
        if dtype_of(value) == "text"
    ]
    if texts and model.training:
        what = "holds text, which is not supported in training"
        raise Unsupported(Location(model.file, texts[0]), what)
    return model.texts.words if texts else ()


def _add_counts(partial: Mapping[str, list[Partial]], outputs: dict[str, SSAValue]) -> Counts:
    """Add to the outputs how many rows of others count."""
    counts, count_names = Counts(), dict[SSAValue, str]()
    for name, rows in partial.items():
        for value in rows:
            assert value.count is not None
            if value.count not in count_names:
                count_names[value.count] = fresh(f"{name}.count", outputs)
                outputs[count_names[value.count]] = value.count
            counts[name] = (*counts.get(name, ()), (count_names[value.count], value.axis))
    return counts


def _add_output(scope: Scope, name: str, value: Value, outputs: dict[str, SSAValue]) -> Names:
    """Add what a value holds to the outputs; its names there."""
    scope.b.loc = Location(scope.model.file, f'output "{name}"')
    if isinstance(value, Nothing):
        return None
    if isinstance(value, StackedRows):
        check_whole(scope.b.loc, value, scope.model.inputs_behind)
    items = elements(scope.b, value) if isinstance(value, StackedRows) else [value]
    names = element_names(name, len(items)) if isinstance(value, StackedRows) else [name]
    if any(element in outputs for element in names):
        raise CompileError(scope.b.loc, "has an element of the name of another output")
    outputs.update(zip(names, (scope.ssa(item) for item in items), strict=True))
    return names if isinstance(value, StackedRows) else name


def _check_graph(graph: Any, file: str) -> None:
    if not graph.output:
        raise CompileError(file, "has no outputs")


def _add_inputs(
    scope: Scope, message: Any, shapes: Sizes, bind: Constants, given: Given
) -> dict[str, Array]:
    """Give inputs their names; the defaults of those that have one."""
    model, graph = scope.model, message.graph
    defaults, held = _defaults(scope, message), {tensor.name for tensor in graph.initializer}
    infos = [i for i in graph.input if i.name not in held or i.name in {*defaults, *bind}]
    tensors = [tensor for info in infos for tensor in given.tensors_of(info)]
    _check_names(tensors, model.file)
    declared, inputs = Inputs(tensors, shapes, model.file, model.known.sizes), dict[str, Value]()
    values = {**given.values, **{name: declared.bind(name, value) for name, value in bind.items()}}
    for name in (info.name for info in tensors):
        if name in values:
            place = Location(model.file, f'input "{name}"')
            inputs[name] = _fixed(values[name], declared.dtype(name), name, place)
        else:
            dims = defaults[name].dims if name in defaults else declared.dims(name)
            inputs[name] = _open(scope, name, dims, declared.dtype(name))
    for info in infos:
        scope.define(info.name, _grouped(inputs, given.held.get(info.name, info.name)), model.file)
    for fact in model.known.facts:
        if not is_natural(fact):
            scope.b.require(fact)
    return {name: np.asarray(v.known) for name, v in defaults.items() if name not in values}


def _defaults(scope: Scope, message: Any) -> dict[str, Value]:
    """The values of inputs that are initialisers too, which a caller may replace."""
    if message.ir_version < OVERRIDABLE_FROM:
        return {}
    held = {tensor.name: tensor for tensor in message.graph.initializer}
    names = [info.name for info in message.graph.input if info.name in held]
    values = {name: scope.constant(held[name], scope.model.file) for name in names}
    # Integers and bools are sizes, axes and conditions, which have to be known: these stay what
    # they are.
    return {name: value for name, value in values.items() if value.dtype in FLOATS}


def _open(scope: Scope, name: str, dims: Sequence[Dim], dtype: str) -> Value:
    """An input of the net."""
    model, value = scope.model, scope.b.input(name, dims, dtype)
    model.symbols += sorted({s for d in dims for s in d.symbols} - {*model.symbols})
    model.inputs[value] = name
    model.taken.add(name)
    return Value.computed(value)


def _grouped(inputs: Mapping[str, Value], names: Names) -> Value:
    """The tensors that an input of the model is: one, a list, or nothing."""
    match names:
        case None:
            return Nothing()
        case str():
            return inputs[names]
        case _:
            return StackedRows.listing([inputs[name] for name in names])


def _fixed(array: Array, dtype: str, name: str, place: Location) -> Value:
    """A constant in the place of an input."""
    constant = np.asarray(array)
    if name_of(constant.dtype) != dtype:
        raise CompileError(place, f"holds {dtype}, the constant for it {constant.dtype}")
    return Value.of(constant, name)


def _check_names(infos: Any, file: str) -> None:
    names = [info.name for info in infos]
    if not all(names):
        raise CompileError(file, "has an input without a name")
    if len(set(names)) < len(names):
        raise CompileError(file, "lists an input twice")
