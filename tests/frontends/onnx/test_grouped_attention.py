"""Attention of heads that share keys and values: what ONNX Runtime computes, of all plain forms."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import rnncc
from rnncc.errors import CompileError
from tests.frontends.onnx.models import (
    Arrays,
    assert_close,
    by_onnxruntime,
    info,
    interpreted,
    model,
    node,
)

DOMAIN = "com.microsoft"
HEADS, SHARED, SIZE = 4, 2, 16
OUTPUTS = "y keys values"


def random(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def inputs_of(
    steps: int, past: int | None, lengths: list[int], packed: bool, turns: bool
) -> Arrays:
    """`lengths`: how many keys each row of the batch has, the new ones among them."""
    batch = len(lengths)
    width = HEADS + 2 * SHARED if packed else HEADS
    made: Arrays = {"q": random(batch, steps, width * SIZE)}
    if not packed:
        made |= {name: random(batch, steps, SHARED * SIZE) + at for at, name in enumerate("kv")}
    if past is not None:
        made |= {name: random(batch, SHARED, past, SIZE) for name in ("past_k", "past_v")}
    made["lengths"] = np.array(lengths, np.int32) - 1
    if turns:
        made |= {name: random(24, SIZE // 2) for name in ("cos", "sin")}
    return made


def of_one(inputs: Arrays, total: int, **attributes: Any) -> Any:
    names = ["q", "k", "v", "past_k", "past_v", "lengths", "total", "cos", "sin"]
    shown = " ".join(n if n in inputs or n == "total" else "_" for n in names)
    kinds = {"f": "f32", "i": "i32"}
    told = {"num_heads": HEADS, "kv_num_heads": SHARED, **attributes}
    return model(
        [node("GroupQueryAttention", shown, OUTPUTS, domain=DOMAIN, **told)],
        [info(name, list(a.shape), kinds[a.dtype.kind]) for name, a in inputs.items()],
        [info(name, None) for name in OUTPUTS.split()],
        {"total": np.array(total, np.int32)},
        domains={DOMAIN: 1},
    )


FORMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "scaled and capped": {"scale": 0.7, "softcap": 2.0},
    "a window": {"local_window_size": 3},
    "turned": {"do_rotary": 1},
    "neighbours turned": {"do_rotary": 1, "rotary_interleaved": 1},
}
CALLS: dict[str, tuple[int, int | None, list[int], int]] = {
    "first": (5, None, [5, 5], 5),
    "first, no past": (5, 0, [5, 5], 5),
    "one step": (1, 6, [7, 7], 7),
    "one step of rows that are shorter": (1, 6, [7, 4], 7),
    "some steps": (3, 6, [9], 9),
    "one step in a longer buffer": (1, 12, [7, 7], 7),
}


@pytest.mark.peers
@pytest.mark.parametrize(("form", "call"), list(product(FORMS, CALLS)))
def test_operator(form: str, call: str) -> None:
    steps, past, lengths, total = CALLS[call]
    for packed in (False, True):
        inputs = inputs_of(steps, past, lengths, packed, "do_rotary" in FORMS[form])
        made = of_one(inputs, total, **FORMS[form])
        assert_close(interpreted(made, inputs), by_onnxruntime(made, inputs))


@pytest.mark.peers
def test_decoding_with_an_open_past() -> None:
    """One step after another: the present of a call is the past of the next; the total a size."""
    shapes: dict[str, list[int | str]] = {
        "q": ["N", 1, HEADS * SIZE],
        **{name: ["N", 1, SHARED * SIZE] for name in "kv"},
        **{name: ["N", SHARED, "P", SIZE] for name in ("past_k", "past_v")},
    }
    names = "q k v past_k past_v lengths total cos sin"
    told = {"num_heads": HEADS, "kv_num_heads": SHARED, "do_rotary": 1}
    made = model(
        [
            node("Shape", "past_k", "held", start=2, end=3),
            node("Add", "held one", "more"),
            node("Cast", "more", "wide", to=6),
            node("Squeeze", "wide", "total"),
            node("GroupQueryAttention", names, OUTPUTS, domain=DOMAIN, **told),
        ],
        [*(info(n, s) for n, s in shapes.items()), info("lengths", ["N"], "i32")],
        [info(name, None) for name in OUTPUTS.split()],
        {"one": np.array([1]), "cos": random(9, SIZE // 2), "sin": random(9, SIZE // 2)},
        domains={DOMAIN: 1},
    )
    compiled = rnncc.compile(made)
    keys = values = random(2, SHARED, 3, SIZE)
    for step in range(2):
        x = inputs_of(1, 3, [4 + step] * 2, False, False)
        x |= {"past_k": keys, "past_v": values}
        got = compiled.run(x)
        assert_close(got, by_onnxruntime(made, x))
        keys, values = got["keys"], got["values"]


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        ({"smooth_softmax": 1}, "has smooth_softmax 1"),
        ({"k_quant_type": "PER_TENSOR"}, "has quantised keys"),
        ({"kv_num_heads": 3}, "has 4 heads for 3 of keys"),
        ({"num_heads": 5, "kv_num_heads": 1}, "has 64 units for 5 heads"),
        ({"kv_num_heads": 1}, "has keys or values of shape 1 x 3 x 32, expected 1 x 3 x 16"),
    ],
)
def test_refusal(attributes: dict[str, Any], why: str) -> None:
    inputs = inputs_of(3, 6, [9], False, False)
    with pytest.raises(CompileError, match=why):
        interpreted(of_one(inputs, 9, **attributes), inputs)
