"""What operators without a schema take: as ONNX Runtime's own schemas say it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rnncc.errors import CompileError
from rnncc.frontends.onnx.signature import MANY, stated_signature
from rnncc.frontends.onnx.table import OPERATORS
from rnncc.frontends.onnx.unread import CONTRIBUTED
from tests.frontends.onnx.models import imported, of_one

ROW = np.zeros(8, np.float32)
OWN_COPIES = {"LayerNormalization", "SimplifiedLayerNormalization"}
"""Read in this domain too, where old files have them."""


def _contributed() -> dict[str, Any]:
    names = (name.rpartition(".") for name in OPERATORS)
    return {
        name: OPERATORS[f"{domain}.{name}"].signature
        for domain, _, name in names
        if domain == CONTRIBUTED
    }


def test_every_operator_without_a_schema_states_what_it_takes() -> None:
    assert [name for name, stated in _contributed().items() if stated is None] == []


@pytest.mark.peers
@pytest.mark.parametrize("name", sorted(_contributed().keys() - OWN_COPIES))
def test_it_is_what_onnx_runtime_takes(name: str) -> None:
    state = pytest.importorskip("onnxruntime.capi.onnxruntime_pybind11_state")
    schemas = {(s.domain, s.name): s for s in state.get_all_operator_schema()}
    theirs, ours = schemas[CONTRIBUTED, name], _contributed()[name]
    most = theirs.max_input if theirs.max_input < MANY else MANY
    assert ours.counts == (theirs.min_input, most)
    assert ours.outputs[1] == theirs.max_output
    assert [f.option for f in ours.inputs] == [i.option.name for i in theirs.inputs]
    assert {n: (t, needed) for n, (t, needed) in ours.attributes.items()} == {
        n: (int(a.type.value), a.required) for n, a in theirs.attributes.items()
    }


def test_texts_are_read() -> None:
    stated = stated_signature("x scale? rest*", "axis:i! pads:ints", 2)
    assert [f.option for f in stated.inputs] == ["Single", "Optional", "Variadic"]
    assert stated.counts == (3, MANY)
    assert stated.attributes == {"axis": (2, True), "pads": (7, False)}
    assert stated_signature("x scale?").counts == (1, 2)


@pytest.mark.parametrize(
    ("attributes", "inputs", "why"),
    [
        ({"K": 32, "N": 8, "block_size": 32, "tiles": 4}, {}, "the unknown attribute 'tiles'"),
        ({"K": 32, "N": 8}, {}, "lacks the attribute 'block_size'"),
        ({"K": 32, "N": 8.0, "block_size": 32}, {}, "attribute 'N' is of another type"),
        ({"K": 32, "N": 8, "block_size": 32}, {"s": None}, "lacks its input 'scales'"),
        (
            {"K": 32, "N": 8, "block_size": 32},
            dict.fromkeys("zgbc", ROW),
            "has 7 inputs, expected 3 to 6",
        ),
    ],
)
def test_what_is_not_stated_is_an_error(
    attributes: dict[str, Any], inputs: dict[str, Any], why: str
) -> None:
    arrays = {"x": np.zeros((2, 32), np.float32), "w": ROW, "s": ROW} | inputs
    model, _ = of_one("MatMulNBits", arrays, **attributes)
    with pytest.raises(CompileError, match=why):
        imported(model)
