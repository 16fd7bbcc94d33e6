"""The importer: a model's inputs and initialisers, then its nodes in order."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rnncc.errors import CompileError, Location
from rnncc.frontends.onnx.functions import function_key
from rnncc.frontends.onnx.inputs import Inputs
from rnncc.frontends.onnx.reading import Tensors, load, opsets_of
from rnncc.frontends.onnx.scope import Model, Scope
from rnncc.frontends.onnx.values import NAMES, Array, Value
from rnncc.frontends.shapes import Sizes
from rnncc.ir.build import Build
from rnncc.ir.program import Program
from rnncc.scalar import Scalar

OVERRIDABLE_FROM = 4
"""The IR version from which an initialiser that is an input too means a default."""


def import_model(
    source: object,
    shapes: Sizes | None = None,
    name: str | None = None,
    max_iterations: int | None = None,
    training: bool = False,
    values: Mapping[str, Array] | None = None,
    functions: Mapping[str, Scalar] | None = None,
) -> Program:
    """Read an ONNX model.

    Args:
        source: its path, its bytes or a ModelProto.
        shapes: sizes of inputs that the file leaves open: numbers, symbols' names, or None for
            what the file says.
        name: the program's name; by default the file's stem, or the graph's own name.
        max_iterations: the most turns of a loop whose number of turns nothing shows.
        training: whether the program will be differentiated.
        values: inputs that are to be constants.
        functions: DOMAIN.NAME -> the function of numbers that an operator is.
    Returns:
        A program whose inputs are the graph's that are no initialisers, in their order; floats
        that are both have their initialiser as a default.
    Raises:
        CompileError: anything wrong, damaged or not supported.
    """
    message = load(source)
    file = str(source) if isinstance(source, (str, Path)) else "<model>"
    _check_outputs(message.graph, file)
    own = {function_key(f, f.name): f for f in message.functions}
    opsets, tensors = opsets_of(message), Tensors(source)
    model = Model(file, tensors, opsets, own, max_iterations, training, functions or {})
    stem = Path(source).stem if isinstance(source, (str, Path)) else ""
    b = Build.net(name or stem or message.graph.name or "net")
    scope = Scope(model, b)
    defaults = _add_inputs(scope, message, shapes or {}, values or {})
    results = scope.run(message.graph)
    b.loc = Location(file)
    outputs = {o.name: scope.ssa(v) for o, v in zip(message.graph.output, results, strict=True)}
    program = b.finish(outputs, {**model.arrays, **defaults}, file)
    named = {*program.params, *defaults}  # of a loop that became no scan, parameters are left over
    program.arrays = {name: array for name, array in program.arrays.items() if name in named}
    return program


def _check_outputs(graph: Any, file: str) -> None:
    names = [o.name for o in graph.output]
    if not names:
        raise CompileError(file, "has no outputs")
    if len(set(names)) < len(names):
        raise CompileError(file, "lists an output twice")


def _add_inputs(
    scope: Scope, message: Any, shapes: Sizes, values: Mapping[str, Array]
) -> dict[str, Array]:
    """Give inputs their names; the defaults of those that have one."""
    model, graph = scope.model, message.graph
    held = {t.name: t for t in graph.initializer}
    overridable = message.ir_version >= OVERRIDABLE_FROM
    defaults = dict[str, Value]()
    for info in graph.input:
        if info.name in held and overridable:
            value = scope.constant(held[info.name], model.file)
            if value.dtype == "f32":
                defaults[info.name] = value
    infos = [i for i in graph.input if i.name not in held or i.name in defaults]
    _check_names(infos, model.file)
    found = Inputs(infos, shapes, model.file)
    for info in infos:
        name = info.name
        if name in values:
            place = Location(model.file, f'input "{name}"')
            scope.define(name, _fixed(values[name], found.dtype(name), name, place), model.file)
            continue
        dims = defaults[name].dims if name in defaults else found.dims(name)
        made = scope.b.input(name, dims, found.dtype(name))
        model.inputs[made] = name
        model.taken.add(name)
        scope.define(name, Value.computed(made), model.file)
    return {name: np.asarray(v.known) for name, v in defaults.items() if name not in values}


def _fixed(array: Array, dtype: str, name: str, place: Location) -> Value:
    """A constant in the place of an input."""
    made = np.asarray(array)
    if NAMES.get(made.dtype) != dtype:
        raise CompileError(place, f"holds {dtype}, the constant for it {made.dtype}")
    return Value.of(made, name)


def _check_names(infos: Any, file: str) -> None:
    names = [info.name for info in infos]
    if not all(names):
        raise CompileError(file, "has an input without a name")
    if len(set(names)) < len(names):
        raise CompileError(file, "lists an input twice")
