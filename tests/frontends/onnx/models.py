"""Small ONNX models, and what ONNX Runtime and the interpreter say of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, Phase, settings
from onnx import TensorProto, helper, numpy_helper

from rnncc.frontends.onnx.importer import import_model
from rnncc.frontends.onnx.unread import CONTRIBUTED
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from tests.draw import examples
from tests.frontends.onnx.exact_sums import exact_session
from tests.golden import Arrays

KINDS = {
    "f32": TensorProto.FLOAT,
    "f64": TensorProto.DOUBLE,
    "i32": TensorProto.INT32,
    "i64": TensorProto.INT64,
    "i1": TensorProto.BOOL,
    "u8": TensorProto.UINT8,
    "i8": TensorProto.INT8,
    "u16": TensorProto.UINT16,
    "i16": TensorProto.INT16,
    "u32": TensorProto.UINT32,
    "u64": TensorProto.UINT64,
    "f16": TensorProto.FLOAT16,
    "bf16": TensorProto.BFLOAT16,
    "text": TensorProto.STRING,
}
EXAMPLES = int(os.environ.get("RNNCC_ONNX_EXAMPLES", examples(20)))
random_models = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=EXAMPLES <= 20,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    phases=[Phase.explicit, Phase.generate],
)


def info(name: str, shape: Sequence[int | str] | None, dtype: str = "f32") -> Any:
    """The declaration of an input or output."""
    return helper.make_tensor_value_info(name, KINDS[dtype], shape)


def node(kind: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    """A node; names with blanks between them, `_` for a missing one."""
    names = [["" if n == "_" else n for n in text.split()] for text in (inputs, outputs)]
    name = next((n for n in names[1] if n), "")
    return helper.make_node(kind, *names, name=name, **attributes)


def graph(
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    constants: Mapping[str, Any] | None = None,
) -> Any:
    """A graph with initialisers."""
    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()]
    return helper.make_graph(nodes, "graph", inputs, outputs, tensors)


def model(
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    constants: Mapping[str, Any] | None = None,
    opset: int = 17,
    domains: Mapping[str, int] | None = None,
    **more: Any,
) -> Any:
    """A model of one graph."""
    made = graph(nodes, inputs, outputs, constants)
    imports = [helper.make_opsetid(*each) for each in ({"": opset} | {**(domains or {})}).items()]
    return helper.make_model(made, opset_imports=imports, ir_version=8, **more)


def of_one(
    kind: str,
    inputs: Mapping[str, Any],
    outputs: str = "y",
    domain: str = CONTRIBUTED,
    **attributes: Any,
) -> tuple[Any, Arrays]:
    """A model of one node whose inputs, of which None is missing, are the model's."""
    arrays = {n: a for n, a in inputs.items() if a is not None}
    names = " ".join(n if n in arrays else "_" for n in inputs)
    kinds = {np.dtype(f"{kind[0]}{int(kind[1:]) // 8}"): kind for kind in ("f32", "i32", "i64")}
    made = model(
        [node(kind, names, outputs, domain=domain, **attributes)],
        [info(n, list(a.shape), kinds[a.dtype]) for n, a in arrays.items()],
        [info(n, None, "i32" if n == "count" else "f32") for n in outputs.split() if n != "_"],
    )
    made.opset_import.append(helper.make_opsetid(CONTRIBUTED, 1))
    return made, arrays


def interpreted(source: Any, inputs: Mapping[str, Any], **options: Any) -> Arrays:
    """The outputs by the interpreter of the IR."""
    return run(import_model(source, **options), inputs)


def imported(source: Any, **options: Any) -> Program:
    """The program."""
    return import_model(source, **options)


def by_onnxruntime(source: Any, inputs: Mapping[str, Any]) -> Arrays:
    """The outputs by ONNX Runtime, on one thread; without it the test is skipped."""
    pytest.importorskip("onnxruntime")
    session = exact_session(source.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    wanted = {i.name for i in session.get_inputs()}
    given = {name: array for name, array in inputs.items() if name in wanted}
    results: Any = session.run(None, given)
    return dict(zip(names, results, strict=True))


def assert_close(got: Mapping[str, Any], want: Mapping[str, Any]) -> None:
    """Within 1e-5 + 1e-4 · |x|."""
    assert got.keys() == want.keys()
    for name, array in want.items():
        assert got[name].shape == array.shape, name
        np.testing.assert_allclose(got[name], array, 1e-4, 1e-5, err_msg=name)


def checked(made: Any) -> Any:
    """The model, if the standard's own checker takes it."""
    onnx.checker.check_model(made)
    return made


def body(
    nodes: list[Any], states: str = "v", rows: str = "", condition: str = "go", first: str = "i go"
) -> Any:
    """A Loop's body: its inputs are the iteration, the condition and states; `v` becomes `v2`."""
    iteration, flag = first.split()
    inputs = [
        info(iteration, [], "i64"),
        info(flag, [], "i1"),
        *(info(s, None) for s in states.split()),
    ]
    outputs = [info(condition, [], "i1"), *(info(f"{s}2", None) for s in states.split())]
    return graph(nodes, inputs, [*outputs, *(info(r, None) for r in rows.split())])
