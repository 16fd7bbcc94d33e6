"""Mutates ONNX models and imports what comes out: only success or a CompileError may follow.

    python -m tests.fuzz.fuzz_onnx --count 100000

The models are those of the standard's node tests, one with loops, branches and functions, and one
with lists.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, parser

from rnncc.frontends.onnx.importer import import_model
from rnncc.frontends.onnx.table import OPERATORS
from rnncc.frontends.onnx.unread import BY_DEFINITION
from rnncc.ir.program import Program
from tests.fuzz.harness import (
    FLOATS,
    VALUES,
    Report,
    attempts,
    change_number,
    change_one,
    change_order,
    main,
    mutate_bytes,
)

SMALL = [-5, -3, -2, -1, 0, 0, 1, 1, 2, 3, 4, 7]
TEXTS = [b"", b"x", b"\xff", b"reverse", b"SAME_UPPER", b"ij,jk->ik", b"edge"]
NESTED = """
<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
nested (float[T, N, 4] x, float[N, 4] h, bool flag) => (float[N, 4] last, float[T, N, 4] ys) {
  count = Constant <value = int64 {3}> ()
  yes = Constant <value = bool {1}> ()
  wide = own.twice (x)
  start = If (flag) <
    then_branch = one () => (float[N, 4] a) { a = Identity (h) },
    else_branch = two () => (float[N, 4] b) { b = Neg (h) }
  >
  more = Loop (count, yes, start) <body = iteration (int64 i, bool c, float[N, 4] v)
    => (bool c2, float[N, 4] v2) { c2 = Identity (c) v2 = Tanh (v) }>
  last, ys = Scan (more, wide) <num_scan_inputs = 1, body = step (float[N, 4] s, float[N, 4] r)
    => (float[N, 4] s2, float[N, 4] y) { s2 = Add (s, r) y = Mul (s2, r) }>
}
<domain: "own", opset_import: ["" : 17]>
twice (v) => (w) { w = Add (v, v) }
"""

LISTS = """
<ir_version: 8, opset_import: ["" : 17]>
lists (float[4, 3] x, bool flag, int64 k) => (float[4, 3] y, float[R, 3] joined, seq(float[4, 3]) z)
{
  zero = Constant <value = int64 {0}> ()
  two = Constant <value = int64 {2}> ()
  count = Constant <value = int64 {3}> ()
  rows = SplitToSequence <axis = 0> (x, two)
  mapped = SequenceMap <body = each (float[2, 3] e) => (float[2, 3] f) { f = Exp (e) }> (rows)
  more = SequenceInsert (mapped, x, zero)
  less = SequenceErase (more)
  joined = ConcatFromSequence <axis = 0> (less)
  pair = SequenceConstruct (x, x)
  chosen = If (flag) <
    then_branch = one () => (seq(float[4, 3]) a) { a = Identity (pair) },
    else_branch = other () => (seq(float[4, 3]) b) { n = Neg (x) b = SequenceConstruct (n, x) }
  >
  empty = SequenceEmpty ()
  kept, z = Loop (count, , chosen, empty) <body = iteration (int64 i, bool c, seq(float[4, 3]) s,
    seq(float[4, 3]) t) => (bool c2, seq(float[4, 3]) s2, seq(float[4, 3]) t2)
    { c2 = Identity (c) p = SequenceAt (s, zero) q = Tanh (p) s2 = SequenceConstruct (q, p)
      t2 = SequenceInsert (t, q) }>
  perhaps = Optional (kept)
  there = OptionalHasElement (perhaps)
  y = If (there) <
    then_branch = yes () => (float[4, 3] a) { g = OptionalGetElement (perhaps)
      a = SequenceAt (g, zero) },
    else_branch = no () => (float[4, 3] b) { b = Identity (x) }
  >
}
"""

Mutation = Callable[[random.Random, Any], None]


@cache
def models() -> list[Any]:
    """What is damaged."""
    from tests.frontends.onnx.official import node_tests

    large = 20_000
    tests = [t for t in node_tests().values() if t.model.ByteSize() < large]
    found = [t.model for t in tests] + [m for t in tests for m in _with_constants(t)]
    return [parser.parse_model(NESTED)] * 60 + [parser.parse_model(LISTS)] * 60 + found


def _with_constants(test: Any) -> list[Any]:
    """A test's model with its small inputs as constants: integers alone, and all of them."""
    inputs = [np.asarray(a) for a in test.data_sets[0][0] if isinstance(a, np.ndarray)]
    if len(inputs) != len(test.model.graph.input) or len(inputs) != len(test.data_sets[0][0]):
        return []
    kinds = ("iub", "iubf")
    chosen = [[a.dtype.kind in kind and a.size <= 64 for a in inputs] for kind in kinds]
    return [_fixed(test.model, inputs, each) for each in chosen if any(each)]


def _fixed(model: Any, inputs: list[Any], chosen: list[bool]) -> Any:
    """A copy with some inputs as initialisers."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    infos = list(model.graph.input)
    del made.graph.input[:]
    for info, array, fixed in zip(infos, inputs, chosen, strict=True):
        if fixed:
            made.graph.initializer.append(numpy_helper.from_array(array, info.name))
        else:
            made.graph.input.append(info)
    return made


def graphs(model: Any) -> Iterator[Any]:
    """All graphs and functions of a model."""
    waiting = [model.graph, *model.functions]
    while waiting:
        graph = waiting.pop()
        yield graph
        waiting += [a.g for n in graph.node for a in n.attribute if a.HasField("g")]


def _nodes(model: Any) -> list[Any]:
    return [node for graph in graphs(model) for node in graph.node]


def _names(model: Any) -> list[str]:
    nodes = _nodes(model)
    inputs = [i.name for i in model.graph.input]
    return [*(n for op in nodes for n in (*op.input, *op.output)), *inputs, "nothing", ""]


def change_type(rng: random.Random, model: Any) -> None:
    """Another operator in its place."""
    rng.choice(_nodes(model)).op_type = rng.choice([*OPERATORS, *BY_DEFINITION, "Nothing"])


def change_name(rng: random.Random, model: Any) -> None:
    """Another value, read or written."""
    node = rng.choice(_nodes(model))
    change_one(rng, rng.choice([node.input, node.output]), lambda: _names(model))


def change_count(rng: random.Random, model: Any) -> None:
    """One operand fewer or more."""
    node = rng.choice(_nodes(model))
    change_number(rng, rng.choice([node.input, node.output]), lambda: _names(model))


@cache
def _attributes() -> dict[str, list[str]]:
    """Operator -> the names of its attributes in all versions."""
    found: dict[str, list[str]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        found.setdefault(schema.name, []).extend(schema.attributes)
    return found


def change_attribute(rng: random.Random, model: Any) -> None:
    """Another value, of the same kind or of another; or none."""
    node = rng.choice(_nodes(model))
    if not node.attribute or rng.random() < 0.2:
        name = rng.choice(_attributes().get(node.op_type) or ["axis"])
        value = rng.choice([rng.choice(VALUES), rng.choice(FLOATS), rng.choice(TEXTS), [1, -1]])
        node.attribute.append(helper.make_attribute(name, value))
        return
    attribute = rng.choice(node.attribute)
    match rng.randrange(6):
        case 0:
            attribute.i = rng.choice(VALUES)
        case 1:
            attribute.f = rng.choice(FLOATS)
        case 2:
            attribute.s = rng.choice(TEXTS)
        case 3 if attribute.ints:
            attribute.ints[rng.randrange(len(attribute.ints))] = rng.choice(VALUES)
        case 4:
            attribute.type = rng.randrange(12)
        case _:
            node.attribute.remove(attribute)


def change_tensor(rng: random.Random, model: Any) -> None:
    """Another size, type or number of a tensor."""
    tensors = [t for g in graphs(model) for t in getattr(g, "initializer", ())]
    tensors += [a.t for n in _nodes(model) for a in n.attribute if a.HasField("t")]
    if not tensors:
        return
    tensor = rng.choice(tensors)
    match rng.randrange(5):
        case 0 if tensor.dims:
            tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(VALUES)
        case 1:
            tensor.data_type = rng.randrange(24)
        case 2 if tensor.raw_data:
            tensor.raw_data = mutate_bytes(rng, tensor.raw_data)
        case 3 if tensor.int64_data:
            tensor.int64_data[rng.randrange(len(tensor.int64_data))] = rng.choice(VALUES)
        case _:
            tensor.data_location = 1
            tensor.external_data.add(key="location", value=rng.choice(["../x", "/etc/passwd", ""]))


def change_input(rng: random.Random, model: Any) -> None:
    """Another shape or type of an input, or a constant in its place."""
    if not model.graph.input:
        return
    info = rng.choice(model.graph.input)
    dims = info.type.tensor_type.shape.dim
    match rng.randrange(5):
        case 0 if dims:
            rng.choice(dims).dim_value = rng.choice(VALUES)
        case 1 if dims:
            rng.choice(dims).dim_param = rng.choice(["T", "N", "a b", "", "inputs", "\n"])
        case 2:
            info.type.tensor_type.elem_type = rng.randrange(24)
        case 3:
            del dims[:]
        case _:
            numbers = [rng.choice(VALUES) for _ in range(rng.randrange(4))]
            tensor = helper.make_tensor(info.name, 7, [len(numbers)], numbers)
            model.graph.initializer.append(tensor)


def change_numbers(rng: random.Random, model: Any) -> None:
    """A small constant of another shape or other numbers, of the same type."""
    tensors = [t for g in graphs(model) for t in getattr(g, "initializer", ())]
    if not tensors:
        return
    tensor = rng.choice(tensors)
    try:
        array = numpy_helper.to_array(tensor)
    except Exception:  # it was damaged before
        return
    if array.size > 256 or array.dtype.kind not in "iubf":
        return
    if array.size and rng.random() < 0.5:
        made = np.array(array)
        made.reshape(-1)[rng.randrange(array.size)] = np.array(rng.choice(SMALL)).astype(made.dtype)
    else:
        shape = _small_shape(rng)
        source = np.resize(array, shape) if array.size else np.zeros(shape)
        made = source.astype(array.dtype)
    tensor.CopyFrom(numpy_helper.from_array(made, tensor.name))


def _small_shape(rng: random.Random) -> list[int]:
    return [rng.choice([0, 1, 1, 2, 2, 3, 4]) for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 4]))]


def change_shape(rng: random.Random, model: Any) -> None:
    """Another rank of an input, or another small size, known or open."""
    if not model.graph.input:
        return
    type_ = rng.choice(model.graph.input).type.tensor_type
    dims = list(type_.shape.dim)
    if dims and rng.random() < 0.5:
        rng.choice(dims).dim_value = rng.choice([0, 1, 2, 3, 5])
        return
    del type_.shape.dim[:]
    for size in _small_shape(rng):
        dim = type_.shape.dim.add()
        if rng.random() < 0.2:
            dim.dim_param = rng.choice(["N", "T"])
        else:
            dim.dim_value = size


def change_integers(rng: random.Random, model: Any) -> None:
    """Other small numbers in an attribute of the same kind, fewer or more of them."""
    attributes = [a for node in _nodes(model) for a in node.attribute if a.type in (2, 7)]
    if not attributes:
        return
    attribute = rng.choice(attributes)
    if attribute.type == 2:
        attribute.i = rng.choice(SMALL)
    elif attribute.ints and rng.random() < 0.6:
        attribute.ints[rng.randrange(len(attribute.ints))] = rng.choice(SMALL)
    else:
        change_number(rng, attribute.ints, lambda: SMALL)


def change_nodes(rng: random.Random, model: Any) -> None:
    """A node moved, doubled or gone."""
    change_order(rng, rng.choice([g for g in graphs(model) if g.node]).node)


def repeat_node(rng: random.Random, model: Any) -> None:
    """A node on its own result, again and again: what doubles has a million elements, or parts."""
    chosen = rng.choice([g for g in graphs(model) if g.node])
    place = rng.randrange(len(chosen.node))
    node, count = chosen.node[place], rng.choice([2, 5, 12, 20])
    if len(node.output) != 1 or any(a.HasField("g") for a in node.attribute):
        return
    computed = {n for op in chosen.node for n in op.output} | {i.name for i in model.graph.input}
    copies = [type(node)() for _ in range(count)]
    last = node.output[0]
    for at, copied in enumerate(copies):
        copied.CopyFrom(node)
        before = f"{last}.{at}"
        copied.input[:] = [before if name in computed else name for name in node.input]
        copied.output[0] = f"{last}.{at + 1}" if at + 1 < count else last
    node.output[0] = f"{last}.0"
    for copied in reversed(copies):
        chosen.node.insert(place + 1, copied)


def change_version(rng: random.Random, model: Any) -> None:
    """Another opset, or another domain of a node."""
    if model.opset_import:
        rng.choice(model.opset_import).version = rng.choice([0, 1, *range(7, 28), 99])
    if rng.random() < 0.3:
        node, domains = rng.choice(_nodes(model)), ["", "ai.onnx", "com.microsoft", "ai.onnx.ml"]
        node.domain = rng.choice(domains)
        model.opset_import.add(domain=node.domain, version=rng.choice([1, 3, 17]))


def change_declared(rng: random.Random, model: Any) -> None:
    """What an output, or a value between nodes, is said to be."""
    graph = _graph(rng, model)
    names = [name for op in graph.node for name in op.output if name]
    if graph.output and rng.random() < 0.4:
        info = rng.choice(graph.output)
    elif names:
        info = graph.value_info.add(name=rng.choice(names))
    else:
        return
    kind = rng.choice([info.type.tensor_type.elem_type or 1, rng.randrange(24)])
    sizes = [size or rng.choice(["N", "T", "N+1"]) for size in _small_shape(rng)]
    shape = rng.choice([sizes, sizes, None])
    info.CopyFrom(helper.make_tensor_value_info(info.name, kind, shape))


def change_scope(rng: random.Random, model: Any) -> None:
    """A graph's input, output or initialiser by the name of another value, or twice."""
    graph = _graph(rng, model)
    held = [*graph.input, *graph.output, *graph.initializer]
    tensors = [tensor for each in graphs(model) for tensor in getattr(each, "initializer", ())]
    if tensors and rng.random() < 0.4:
        graph.initializer.add().CopyFrom(rng.choice(tensors))
    elif held:
        rng.choice(held).name = rng.choice(_names(model))


def _graph(rng: random.Random, model: Any) -> Any:
    """A graph that is no function's."""
    return rng.choice([each for each in graphs(model) if hasattr(each, "initializer")])


MUTATIONS: list[Mutation] = [
    *(change_type, change_name, change_count, change_attribute, change_attribute),
    *(change_tensor, change_tensor, change_input, change_nodes, change_version),
    *(change_declared, change_scope),
    *(change_numbers, change_numbers, change_shape, change_shape, change_integers, repeat_node),
]


def mutant(rng: random.Random, model: Any) -> bytes:
    """A damaged file."""
    if rng.random() < 0.3:
        return mutate_bytes(rng, model.SerializeToString())
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        if any(graph.node for graph in graphs(made)):
            rng.choice(MUTATIONS)(rng, made)
    return made.SerializeToString()


def run(count: int, seed: int = 0, progress: bool = False) -> Report:
    """Import `count` mutants."""
    cases = models()

    def draw(rng: random.Random) -> Callable[[], Program]:
        return partial(import_model, mutant(rng, rng.choice(cases)))

    return attempts(count, seed, progress, draw)


if __name__ == "__main__":
    sys.exit(main(run, __doc__ or ""))
