"""Operators, alone or two in a row, with arguments that nobody means: of any type, number and size.

What is imported must be what the interpreter and the code agree on; all else is a CompileError.
"""

from __future__ import annotations

import random
from collections import defaultdict
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, defs, helper, numpy_helper

from rnncc.frontends.caffe2.table import OPERATORS
from rnncc.frontends.onnx.table import OPERATORS as READ
from rnncc.netdef import NetDef
from rnncc.records import record
from tests.frontends.caffe2.nets import net

DOMAINS = "", "ai.onnx.ml"
VERSIONS = 13, 17, 21, 23
ML_VERSION = 3
DIMS = [0, 1, 2, 2, 3, 3, 4, "N", "T"]
RANKS = [0, 1, 1, 2, 2, 3, 3, 4, 5]
SMALL = [-1, 0, 1, 2, 3]
INTEGERS = [*SMALL, -3, -2, 4, 5, 7, 10**6, 2**31 - 1, 2**31, -(2**31), 2**62, 2**63 - 1, -(2**63)]
FLOATS = [0.0, -0.0, 0.5, 1.0, -1.5, 1e38, 1e-40, float("inf"), float("-inf"), float("nan")]
WORDS = """NOTSET SAME_UPPER VALID linear nearest cubic constant reflect edge wrap mean sum none
add mul max min bilinear Relu Tanh forward bidirectional DCR CRD LEFT NCHW NHWC sequence window
bij,bjk->bik ij->ji ii é"'""".split()
WORDS += ["", "\n"]
KINDS = {
    TensorProto.FLOAT: np.float32,
    TensorProto.INT64: np.int64,
    TensorProto.INT32: np.int32,
    TensorProto.BOOL: np.bool_,
    TensorProto.UINT8: np.uint8,
    TensorProto.INT8: np.int8,
    TensorProto.FLOAT16: np.float16,
    TensorProto.DOUBLE: np.float64,
}
ARGUMENTS = """axis axes shape k dims starts ends kernel kernels stride strides pad pads group order
value dtype tiles dim_size num_reduce_dim max_length target_length broadcast keepdims axis_str
epsilon alpha beta size scale min max power to num_segments padding_width end_padding_width radius
embedding_size boundaries low_value mode batch repeat_from_axis fill_val width_scale height_scale
block_size legacy_pad p add_axis split num_layers has_biases forget_bias drop_states
sequence_lengths hidden_size values divisor label_prob""".split()
MOST_INPUTS = 12
"""As many as an operator must have at the most, DynamicQuantizeLSTM."""
LONGEST = 4
"""Numbers of an argument, axes of a constant, inputs more than an operator must have."""


@cache
def _schemas() -> list[list[Any]]:
    """All versions of each operator of the standard."""
    versions = defaultdict[tuple[str, str], list[Any]](list)
    for schema in defs.get_all_schemas_with_history():
        if schema.domain in DOMAINS:
            versions[schema.domain, schema.name].append(schema)
    return [versions[key] for key in sorted(versions)]


CONTRIBUTED = "com.microsoft"


@record
class _Form:
    """An operator as it may stand in a model: how many inputs and outputs, and its attributes.

    Attributes:
        since: its first version, or 1.
        attributes: name -> its type in AttributeProto, and whether it must be there.
    """

    domain: str
    name: str
    since: int
    inputs: tuple[int, int]
    outputs: tuple[int, int]
    attributes: dict[str, tuple[int, bool]]


def _form(schema: Any) -> _Form:
    return _Form(
        schema.domain,
        schema.name,
        schema.since_version,
        (schema.min_input, schema.max_input),
        (schema.min_output, schema.max_output),
        {name: (int(a.type.value), a.required) for name, a in schema.attributes.items()},
    )


@cache
def _contributed() -> list[_Form]:
    """The operators without a schema, as the importer takes them."""
    forms = list[_Form]()
    for full_name, operator in sorted(READ.items()):
        domain, _, name = full_name.rpartition(".")
        if operator.signature is not None:
            taken = operator.signature
            forms.append(_Form(domain, name, 1, taken.counts, taken.outputs, {**taken.attributes}))
    return forms


def onnx_operator(rng: random.Random) -> bytes:
    """A model of one operator, or of one that reads what another computes."""
    names, shape = [f"x{i}" for i in range(MOST_INPUTS)], _shape(rng, DIMS)
    kind = rng.choice([TensorProto.FLOAT, rng.choice([*KINDS])])
    nodes, imports = list[Any](), {"": VERSIONS[1], "ai.onnx.ml": ML_VERSION, CONTRIBUTED: 1}
    for at in range(rng.choice([1, 1, 2])):
        is_contributed = rng.random() < 0.2
        versions = _contributed() if is_contributed else rng.choice(_schemas())
        form = _form(chosen) if not isinstance(chosen := rng.choice(versions), _Form) else chosen
        before = [name for node in nodes for name in node.output]
        nodes.append(_node(rng, form, names, before, f"y{at}_"))
        if not is_contributed:
            version = max(form.since, rng.choice([form.since, *VERSIONS]))
            imports[form.domain] = version if not at else max(imports[form.domain], version)
    read = {name for node in nodes for name in node.input}
    inputs, constants = list[Any](), list[Any]()
    for name in (name for name in names if name in read):
        if rng.random() < 0.25:
            constants.append(_tensor(rng, name))
        else:
            alike = rng.random() < 0.6
            dims = shape if alike else _shape(rng, DIMS)
            other = rng.choice([*KINDS]) if rng.random() < 0.3 else kind
            inputs.append(helper.make_tensor_value_info(name, other, dims))
    results = [helper.make_empty_tensor_value_info(name) for name in nodes[-1].output]
    graph = helper.make_graph(nodes, "one", inputs, results, constants)
    operators = [helper.make_opsetid(*each) for each in imports.items()]
    return helper.make_model(graph, opset_imports=operators).SerializeToString()


def _node(
    rng: random.Random, form: _Form, names: list[str], before: list[str], prefix: str
) -> onnx.NodeProto:
    """A node that reads inputs of the model, and what nodes before it gave."""
    fewest, many = form.inputs
    read = names[: rng.randint(fewest, min(many, fewest + LONGEST, len(names)))]
    for at in range(len(read)):
        if before and (not at or rng.random() < 0.2):
            read[at] = rng.choice(before)
    fewest, many = form.outputs
    outputs = max(rng.randint(fewest, min(many, fewest + 2)), 1)
    node = helper.make_node(
        form.name,
        [name if rng.random() < 0.95 else "" for name in read],
        [f"{prefix}{i}" for i in range(outputs)],
        domain=form.domain,
    )
    for name, (kind, is_needed) in form.attributes.items():
        if is_needed or rng.random() < 0.5:
            node.attribute.extend(_attribute(rng, name, kind))
    return node


def _shape(rng: random.Random, dims: list[Any]) -> list[Any]:
    return [rng.choice(dims) for _ in range(rng.choice(RANKS))]


def _integers(rng: random.Random, count: int) -> list[int]:
    return [rng.choice(INTEGERS if rng.random() < 0.3 else SMALL) for _ in range(count)]


def _tensor(rng: random.Random, name: str) -> Any:
    kind, shape = rng.choice([*KINDS.values()]), _shape(rng, SMALL[1:])[:LONGEST]
    numbers = np.array(_integers(rng, int(np.prod(shape))), object).astype(np.int64)
    with np.errstate(all="ignore"):
        return numpy_helper.from_array(numbers.astype(kind).reshape(shape), name)


def _attribute(rng: random.Random, name: str, kind: int) -> list[Any]:
    """One of that type, or none."""
    types, count = AttributeProto, rng.randint(0, LONGEST)
    made: dict[int, Any] = {
        types.INT: lambda: _integers(rng, 1)[0],
        types.FLOAT: lambda: rng.choice(FLOATS),
        types.STRING: lambda: rng.choice(WORDS),
        types.INTS: lambda: _integers(rng, count),
        types.FLOATS: lambda: [rng.choice(FLOATS) for _ in range(count)],
        types.STRINGS: lambda: [rng.choice(WORDS) for _ in range(count)],
        types.TENSOR: lambda: _tensor(rng, "value"),
        types.GRAPH: lambda: _body(rng),
    }
    if kind not in made:
        return []
    return [helper.make_attribute(name, made[kind](), attr_type=kind)]


def _body(rng: random.Random) -> onnx.GraphProto:
    """What hands a value of its own, or one from outside, on."""
    own = [helper.make_tensor_value_info("a", TensorProto.FLOAT, None)][: rng.randint(0, 1)]
    node = helper.make_node("Identity", [rng.choice(["x0", "a"])], ["b"])
    return helper.make_graph([node], "body", own, [helper.make_empty_tensor_value_info("b")])


def caffe2_operator(rng: random.Random) -> tuple[NetDef, NetDef, dict[str, tuple[Any, ...]]]:
    """A net of one operator, its init net, and the shapes of its inputs."""
    kind = rng.choice(sorted(OPERATORS))
    least, most = OPERATORS[kind].inputs
    names = [f"x{i}" for i in range(rng.randint(least, min(most, least + LONGEST)))]
    fewest, many = OPERATORS[kind].outputs
    results = max(rng.randint(fewest, min(many, fewest + 2)), 1)
    operator = NetDef().op.add(type=kind, input=names, output=[f"y{i}" for i in range(results)])
    for _ in range(rng.randint(0, 3)):
        _add_argument(rng, operator)
    shapes, init = dict[str, tuple[Any, ...]](), NetDef(name="init")
    for name in names:
        if rng.random() < 0.3:
            numbers = [rng.choice([0, 1, 2, 3, -1, 2**31 - 1]) for _ in range(rng.randint(0, 4))]
            fill = init.op.add(type="GivenTensorIntFill", output=[name])
            fill.arg.add(name="shape").ints.append(len(numbers))
            fill.arg.add(name="values").ints.extend(numbers)
        else:
            shapes[name] = tuple(_shape(rng, DIMS)[:LONGEST])
    return net([operator], " ".join(names) or "none", "y0"), init, shapes


def _add_argument(rng: random.Random, operator: Any) -> None:
    argument, count = operator.arg.add(name=rng.choice(ARGUMENTS)), rng.randint(0, LONGEST)
    match rng.choice(["i", "f", "s", "ints", "floats", "strings"]):
        case "i":
            argument.i = _integers(rng, 1)[0]
        case "f":
            argument.f = rng.choice(FLOATS)
        case "s":
            argument.s = rng.choice([*(word.encode() for word in WORDS), b"\xff"])
        case "ints":
            argument.ints.extend(_integers(rng, count))
        case "floats":
            argument.floats.extend(rng.choice(FLOATS) for _ in range(count))
        case _:
            argument.strings.extend([b"a"] * count)
