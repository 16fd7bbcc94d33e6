"""The walk over a graph's nodes: names to values, constants folded, operators built.

In: a graph, what its inputs stand for and a builder. Out: the values of its outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from xdsl.ir import SSAValue

from rnncc.errors import CompileError, InternalError, Location, SizeError
from rnncc.frontends.onnx.counted.rows import READERS, Crossed, Partial
from rnncc.frontends.onnx.errors import NeedsValue, Unsupported
from rnncc.frontends.onnx.followers import run_all
from rnncc.frontends.onnx.formulas.learning import Fork, Learnt
from rnncc.frontends.onnx.functions import (
    arguments_of,
    definition_of,
    own_function,
    standard_form,
)
from rnncc.frontends.onnx.model import ModelContext
from rnncc.frontends.onnx.node import COMPUTED, MAX_FOLDED, STORED, TEXT, Node, OnnxOperator
from rnncc.frontends.onnx.opset6 import read_as_7
from rnncc.frontends.onnx.reading import MAX_NODES, opsets_of, place_of, plain_domain
from rnncc.frontends.onnx.signature import schema_of, size_type
from rnncc.frontends.onnx.texts import may_fold
from rnncc.frontends.onnx.unread import BY_DEFINITION, CONTRIBUTED, REFUSED, UNVERSIONED
from rnncc.frontends.onnx.values import (
    MAX_RANK,
    Array,
    NoFormula,
    SizeOverflow,
    Value,
    are_held,
    elements_together,
    hint_of,
    is_step,
    is_uniform,
)
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim, product
from rnncc.ir.types import FLOATS, NARROW_FLOATS, NUMPY, WIDE, dims_of, dtype_of, shape_text

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

MAX_CALLS = 24
"""How deep functions may call each other."""
MAX_ELEMENTS = 1 << 33
"""Of one value."""
MAX_FOLDED_SIZES = 1 << 16
"""How many of them that may be formulas."""
LITERAL = 16
"""Numbers that stand in the code rather than among the parameters."""

_CIRCLE = "nodes may be in any order, unless they read each other's results in a circle"


class Scope:
    """Names of one graph, and the block that its nodes are built in.

    Attributes:
        outer: the scope whose names are seen too, of a graph that is built into the same block.
        steps: symbol of an iteration's number -> the number itself, as int64, in this block.
        nodes: name -> the node that writes it, where that is an operator as the standard has it.
        results: the names that nodes of the graph write.
        seed: of random numbers, in a graph inside that draws some; the net's is the model's.
    """

    def __init__(self, model: ModelContext, b: Builder, outer: Scope | None = None) -> None:
        self.model, self.b, self.outer = model, b, outer
        self.names: dict[str, Value] = {}
        self.opsets = model.opsets if outer is None else outer.opsets
        self.steps: dict[str, SSAValue] = {} if outer is None else outer.steps
        self.nodes: dict[str, NodeProto] = {}
        self.results = set[str]()
        self.seed: SSAValue | None = None if outer is None else outer.seed
        self._made: dict[Value, SSAValue] = {} if outer is None else outer._made

    def find(self, name: str) -> Value | None:
        """What a name stands for."""
        if name in self.names or self.outer is None:
            return self.names.get(name)
        return self.outer.find(name)

    def writer(self, name: str) -> NodeProto | None:
        """The node that writes a name."""
        if name in self.names or self.outer is None:
            return self.nodes.get(name)
        return self.outer.writer(name)

    def read(self, name: str, location: Location) -> Value:
        """What a name stands for; raises `CompileError` if that is nothing."""
        value = self.find(name)
        if value is None:
            self.model.raise_refused(name)
            later = name in self.results
            what = "a later node gives" if later else "no node, input or initialiser gives"
            hint = _CIRCLE if later else None
            raise CompileError(location, f'reads "{name}", which {what}', hint)
        return value

    def define(self, name: str, value: Value, location: Location | str) -> None:
        """Give a name its value, once."""
        if name in self.names:
            raise CompileError(location, f'writes "{name}", which is there already')
        self.names[name] = value
        if value.made is not None:
            value.made.name_hint = value.made.name_hint or hint_of(name)

    def ssa(self, value: Value) -> SSAValue:
        """A value in this block; known numbers become constants or parameters here."""
        if isinstance(value, Partial | Crossed):
            inputs = self.model.inputs_behind(*value.tensors()[1:])
            raise NeedsValue(self.b.loc, f"takes {value} for a tensor", READERS, inputs)
        if not value.is_tensor:
            raise Unsupported(self.b.loc, f"takes {value} for a tensor")
        if value.made is not None:
            return value.made
        if value not in self._made:
            self._made[value] = self._literal(value)
        return self._made[value]

    def _literal(self, value: Value) -> SSAValue:
        array = self.model.run_numbers(value)
        if array.dtype == object:
            if array.size > MAX_FOLDED_SIZES:
                raise Unsupported(self.b.loc, f"computes with {array.size} sizes at run time")
            flat = [self.b.reshape(self.number(d), (1,)) for d in array.reshape(-1)]
            return self.b.cast(self.b.reshape(self.b.concat(flat, 0), array.shape), value.dtype)
        if value.dtype not in STORED:
            shown = TEXT.get(value.dtype, value.dtype)
            what = f"a constant of type {shown} is used at run time"
            raise Unsupported(self.b.loc, what, f"supported: {', '.join(TEXT[d] for d in STORED)}")
        exact = are_held(array)
        if array.size and exact and is_uniform(array):
            return self.b.fill(float(array.reshape(-1)[0]), array.shape, value.dtype)
        array = array.view(np.uint16) if value.dtype == "bf16" else array
        if 0 < array.size <= LITERAL and exact and value.dtype in COMPUTED:
            return self.b.constant(array)
        name = self.model.literal(value.name, array, value.fixed)
        return self.b.param(name, array.shape, value.dtype)

    def number(self, formula: Dim | SSAValue) -> SSAValue:
        """A size, or a polynomial of sizes and numbers of iterations, as int64; one that is
        computed already as it is."""
        if isinstance(formula, SSAValue):
            return formula
        same = Dim((m, factor) for m, factor in formula.terms if not any(map(is_step, m)))
        parts = [self.b.size(same, "i64")] if same != 0 or same == formula else []
        for monomial, factor in (formula - same).terms:
            steps = [self.steps[name] for name in monomial if is_step(name)]
            sizes = Dim([(tuple(name for name in monomial if not is_step(name)), factor)])
            steps += [self.b.size(sizes, "i64")] if sizes != 1 else []
            parts.append(reduce(self.b.mul, steps))
        return reduce(self.b.add, parts)

    def widened(self, value: Value) -> SSAValue:
        """A narrow value in this block, as it is computed with."""
        known, wide = self.model.wide, WIDE[value.dtype]
        if value.made is not None:
            return cast(SSAValue, known.get(value.made) or self.b.cast(value.made, wide))
        if value.symbolic:
            return self.b.cast(self.ssa(value), wide)
        if value not in known:
            numbers = self.model.run_numbers(value)
            known[value] = Value.of(numbers.astype(NUMPY[wide]), value.name)
        return self.ssa(cast(Value, known[value]))

    # Graphs

    def run(self, graph: GraphProto, where: str = "") -> list[Value]:
        """Initialisers, nodes, then the values of the outputs."""
        self.initialise(graph, where)
        self.results = {name for node in graph.node for name in node.output}
        run_all(self, graph.node, [info.name for info in graph.output], where)
        return [self.output(info.name, where) for info in graph.output]

    def initialise(self, graph: GraphProto, where: str) -> None:
        """Give the graph's initialisers their names; the last of one name counts, as for ONNX
        Runtime."""
        for tensor in {tensor.name: tensor for tensor in graph.initializer}.values():
            place = Location(self.model.file, f'{where}initialiser "{tensor.name}"')
            # An input of the same name is there already: the initialiser is its default.
            if tensor.name not in self.names:
                self.define(tensor.name, self._initialiser(tensor, place), place)
        for sparse in graph.sparse_initializer:
            name = sparse.values.name
            place = Location(self.model.file, f'{where}initialiser "{name}"')
            self.define(name, Value.of(self.model.tensors.dense(sparse, place), name), place)

    def _initialiser(self, tensor: Any, place: Location) -> Value:
        """Its numbers, or a parameter that training changes; without an axis it is no parameter,
        as most of those are such as the epsilon of a norm."""
        value = self.constant(tensor, place)
        if not self.model.training or value.dtype not in FLOATS or value.rank == 0:
            return value
        array = cast(Array, value.known)
        name = self.model.parameter(tensor, array)
        parameter = self.b.param(name, array.shape, value.dtype)
        self.model.trained[parameter] = array
        return Value.computed(parameter)

    def constant(self, tensor: Any, place: Location | str) -> Value:
        """A tensor's numbers."""
        return Value.of(self.model.tensors.array(tensor, place), tensor.name)

    def output(self, name: str, where: str = "") -> Value:
        """The value of an output."""
        value = self.find(name)
        if value is None:
            self.model.raise_refused(name)
            place = Location(self.model.file, where)
            raise CompileError(place, f'no node writes the output "{name}"')
        return value

    def run_node(self, op: NodeProto, index: int, where: str = "") -> None:
        """Build one node, or fold it."""
        self.model.nodes += 1
        place = where + place_of(op, index)
        location = Location(self.model.file, place)
        if self.model.nodes > MAX_NODES:
            raise CompileError(location, f"is one of more than {MAX_NODES} nodes")
        before, self.b.loc = self.b.loc, location
        function = own_function(self.model, op, self.opsets, location)
        if function is None and op.op_type not in self.model.scalars:
            self.nodes.update(dict.fromkeys(op.output, op))
        try:
            if function is not None:
                self._call(op, function, place)
            else:
                self._run_operator(op, plain_domain(op.domain), place)
        except SizeError as error:
            raise CompileError(location, error.what, error.hint) from error
        except CompileError as error:
            learnt = self.model.learnt_from(error)
            if learnt is not None:
                raise learnt from error
            raise
        self.b.loc = before

    def _run_operator(self, op: NodeProto, domain: str, place: str) -> None:
        location = Location(self.model.file, place)
        if domain not in self.opsets:
            what = f"is of the domain {domain!r}, which the model does not import"
            raise CompileError(location, what)
        opset = self.opsets[domain]
        schema = schema_of(op.op_type, opset, domain)
        if schema is None and op.op_type in UNVERSIONED:
            domain = CONTRIBUTED
        name = op.op_type if not domain else f"{domain}.{op.op_type}"
        operator = self._operator(name)
        if operator is None and name not in BY_DEFINITION:
            why = REFUSED.get(name)
            what = f"operator {name} is not supported" + (f": {why}" if why else "")
            raise Unsupported(location, what, "rnncc ops --onnx lists those that are")
        if schema is None and not domain:
            raise CompileError(location, f"opset {opset} has no operator {name}")
        if operator is None and domain:
            op, opset, domain = *standard_form(op, location), ""
            schema = schema_of(op.op_type, opset, domain)
        node = Node(op, self, opset, domain, place, operator)
        if operator is None:
            self._call(op, definition_of(node, schema), place)
            return
        read_as_7(node)
        try:
            with np.errstate(all="ignore"):
                self._store(node, self._results(node, name, operator))
        except SizeOverflow as error:
            raise node.error(f"computes a size beyond {TEXT[str(error)]}") from error
        except (CompileError, Fork, Learnt, InternalError, KeyboardInterrupt, MemoryError):
            raise
        except Exception as error:
            raise InternalError.at(location, error) from error

    def _results(self, node: Node, name: str, operator: OnnxOperator) -> Any:
        """The outputs, folded or built."""
        if any(isinstance(value, Partial | Crossed) for value in node.inputs):
            return self.model.build_partial(node, name, operator)
        for index in filter(node.has, operator.fixed if self.model.training else ()):
            node.inputs[index] = self.model.fixed_value(node.value(index))
        folded = self._fold(node, operator)
        if folded is None:
            return operator.build(node)
        if any(map(self.model.is_trained, node.inputs)):
            # what is made of a parameter changes with it, and gradients reach it only through that
            results = operator.build(node)
            self.model.remember_trained(results, folded)
            return results
        return folded

    def _operator(self, name: str) -> OnnxOperator | None:
        """How an operator is read: by a user's function, where there is one."""
        user = self.model.scalars.get(name)
        return self.model.operators.get(name) if user is None else OnnxOperator.of_numbers(user)

    def _fold(self, node: Node, operator: OnnxOperator) -> Any:
        """The outputs, where all inputs are known and that decides them."""
        known = [None if value is None else self.model.numbers_of(value) for value in node.inputs]
        if operator.fold is None or not all(
            a is not None or v is None for a, v in zip(known, node.inputs, strict=True)
        ):
            return None
        arrays = [np.zeros(0) if a is None else a for a in known]
        most = MAX_FOLDED_SIZES if any(a.dtype == object for a in arrays) else MAX_FOLDED
        large = sum(a.size for a in arrays) > most or elements_together(arrays) > most
        if large or not (self.model.may_fold() and may_fold(node.op.op_type, arrays)):
            return None
        try:
            outputs: Any = operator.fold(node, arrays)
        except NoFormula:
            return None
        self.model.count_folded(outputs)
        if outputs is None or isinstance(outputs, (list, tuple, Value)):
            return cast(Any, outputs)
        return np.asarray(outputs)  # NumPy gives plain numbers for arrays without axes

    def _store(self, node: Node, results: Any) -> None:
        outputs: Sequence[Any] = [results]
        if isinstance(results, (list, tuple)):
            outputs = cast(Sequence[Any], results)
        for index, name in enumerate(node.op.output):
            result = outputs[index] if index < len(outputs) else None
            if name and result is None:
                what = f'has the output "{name}", which is not supported'
                self.model.refused[name] = node.unsupported(what)
            elif name:
                self.define(name, self.value(node, index, result), node.location)

    def value(self, node: Node, index: int, result: Any) -> Value:
        """What an operator gives as an output, as the type that the standard says."""
        if isinstance(result, Value):
            return result
        if isinstance(result, np.ndarray):
            dtype = size_type(node, node.signature, index)
            return Value.of(cast(Array, result), dtype=dtype)
        result = self._of_learnt_sizes(result)
        value = Value.computed(self._stored(result, node.result_type(index)))
        if value.dtype not in STORED:
            raise node.unsupported(
                f"computes {TEXT[value.dtype]} at run time, which is not supported"
            )
        if self.model.training and value.dtype in NARROW_FLOATS:
            what = f"computes {TEXT[value.dtype]}, of which there are no gradients"
            raise node.unsupported(what, "train the model in float32")
        if value.rank > MAX_RANK:
            raise node.error(f"gives a tensor of {value.rank} axes, at most {MAX_RANK}")
        elements = product(value.dims)
        if any(abs(factor) > MAX_ELEMENTS for _, factor in elements.terms):
            what = f"gives a tensor of shape {shape_text(value.dims)}, which is too large"
            raise node.error(what)
        return value

    def _of_learnt_sizes(self, result: SSAValue) -> SSAValue:
        """A result, of whose sizes those that are equal to others are these: calls check it."""
        for kept, gone in self.model.known.same:
            for axis, size in enumerate(dims_of(result)):
                if size == gone:
                    result = self.b.slice(result, axis, 0, kept)
        return result

    def _stored(self, result: SSAValue, dtype: str | None) -> SSAValue:
        """A result as the type that the standard says."""
        computed = dtype_of(result)
        if dtype != computed and dtype in FLOATS and computed in FLOATS:
            return self.b.cast(result, dtype)
        if dtype is None or WIDE.get(dtype) != computed:
            return result
        converted = self.b.cast(result, dtype)
        if dtype in NARROW_FLOATS:
            self.model.wide[converted] = result
        return converted

    def _call(self, op: NodeProto, function: Any, place: str) -> None:
        """Build the nodes of a function in the place of one that calls it."""
        location = Location(self.model.file, place)
        self.model.calls += 1
        if self.model.calls > MAX_CALLS:
            first = Location(self.model.file, place.partition(": ")[0])
            what = f"calls functions more than {MAX_CALLS} deep, {function.name} among them"
            raise CompileError(first, what, "functions that do not call each other in a circle")
        inner = Scope(self.model, self.b, self)
        inner.outer = None  # it shares the constants made so far, but sees its arguments alone
        inner.opsets = {**self.opsets, **opsets_of(function)}
        arguments = arguments_of(op, function, location)
        inner.names = {name: self.read(read, location) for name, read in arguments.items()}
        try:
            nodes = self.model.nodes_of(op, function)
            run_all(inner, nodes, function.output, f"{place}: ")
        finally:  # a loop that cannot be a scan is built again, iteration by iteration
            self.model.calls -= 1
        for name, outer in zip(function.output, op.output, strict=False):
            if outer:
                self.define(outer, inner.output(name, f"{place}: "), location)
