"""Recurrent cells and the driver of layers, in NumPy and by finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.interpreter import run
from rnncc.nn.activations import hard_sigmoid, soft_sign
from rnncc.nn.cells import CellWeights, Elman, Gru, Lstm, reset_after_biases
from rnncc.nn.layer import Cell, Direction, laid_out, run_layers, stack_states, time_first
from tests.passes.gradients import check_gradients
from tests.strategies import make_inputs

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
Made = Callable[[Builder, dict[str, SSAValue]], Cell]
Step = Callable[[Arrays, Array, Sequence[Array]], list[Array]]
IN, H, P = 3, 4, 2
SIZES = {"T": 5, "N": 3}


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def normed(z: Array, gain: Array, bias: Array) -> Array:
    centred = z - z.mean(-1, keepdims=True)
    return centred / np.sqrt(z.var(-1, keepdims=True) + 1e-5) * gain + bias


def lstm(p: Arrays, z: Array, c: Array, order: str, coupled: bool = False) -> list[Array]:
    i, f, g, o = (np.split(z, 4, -1)[order.index(letter)] for letter in "ifgo")
    peep = {k: p.get(f"peep_{k}", 0.0) for k in "ifo"}
    i = sigmoid(i + peep["i"] * c)
    f = 1 - i if coupled else sigmoid(f + peep["f"] * c)
    c = f * c + i * np.tanh(g)
    return [sigmoid(o + peep["o"] * c) * np.tanh(c), c]


def sums(p: Arrays, x: Array, h: Array) -> Array:
    return x @ p["w"].T + h @ p["u"].T + p["b"] + p["c"]


def multiplied(p: Arrays, x: Array, h: Array) -> Array:
    u, v = x @ p["w"], h @ p["u"]
    return p["alpha"] * u * v + p["beta_x"] * u + p["beta_h"] * v + p["b"]


def gru(p: Arrays, x: Array, h: Array, after: bool) -> list[Array]:
    u, w = x @ p["w"].T + p["b"], p["u"].T
    z, r = (sigmoid(u[:, k : k + H] + h @ w[:, k : k + H] + p["c"][k : k + H]) for k in (0, H))
    new, late = h @ w[:, 2 * H :], p["c"][2 * H :]
    new = r * (new + late) if after else (r * h) @ w[:, 2 * H :] + late
    return [z * h + (1 - z) * np.tanh(u[:, 2 * H :] + new)]


def projected(p: Arrays, x: Array, states: Sequence[Array]) -> list[Array]:
    h, c = lstm(p, sums(p, x, states[0]), states[1], "ifgo")
    return [h @ p["projection"].T, c]


def weights(p: dict[str, SSAValue], **options: Any) -> CellWeights:
    return CellWeights(p["w"], p["u"], [p[n] for n in "bc" if n in p], **options)


def peepholes(p: dict[str, SSAValue]) -> dict[str, SSAValue]:
    return {letter: p[f"peep_{letter}"] for letter in "ifo"}


def gru_after(b: Builder, p: dict[str, SSAValue]) -> Cell:
    biases, late = reset_after_biases(b, p["b"], p["c"])
    return Gru(CellWeights(p["w"], p["u"], biases), "zrn", late=late)


def by_column(p: dict[str, SSAValue]) -> CellWeights:
    return CellWeights(p["w"], p["u"], by_unit=False)


GATES = {"w": (4 * H, IN), "u": (4 * H, H), "b": (4 * H,), "c": (4 * H,)}
THREE = {"w": (3 * H, IN), "u": (3 * H, H), "b": (3 * H,), "c": (3 * H,)}
PEEP = {f"peep_{k}": (H,) for k in "ifo"}
FACTORS = dict.fromkeys(("alpha", "beta_x", "beta_h", "b"), (4 * H,))
CASES: dict[str, tuple[dict[str, Any], int, Made, Step]] = {
    # shapes of the parameters, states, the cell, the same in NumPy
    "lstm": (
        GATES,
        2,
        lambda b, p: Lstm(weights(p), "ifog"),
        lambda p, x, s: lstm(p, sums(p, x, s[0]), s[1], "ifog"),
    ),
    "lstm with peepholes": (
        {**GATES, **PEEP},
        2,
        lambda b, p: Lstm(weights(p), peepholes=peepholes(p)),
        lambda p, x, s: lstm(p, sums(p, x, s[0]), s[1], "ifgo"),
    ),
    "lstm with coupled gates": (
        GATES,
        2,
        lambda b, p: Lstm(weights(p), "iofg", coupled=True),
        lambda p, x, s: lstm(p, sums(p, x, s[0]), s[1], "iofg", coupled=True),
    ),
    "lstm with a projection": (
        {**GATES, "u": (4 * H, P), "projection": (P, H)},
        2,
        lambda b, p: Lstm(weights(p), projection=p["projection"]),
        projected,
    ),
    "lstm with multiplicative integration": (
        {"w": (IN, 4 * H), "u": (H, 4 * H), **FACTORS},
        2,
        lambda b, p: Lstm(by_column(p), integration={n: p[n] for n in FACTORS}),
        lambda p, x, s: lstm(p, multiplied(p, x, s[0]), s[1], "ifgo"),
    ),
    "lstm with layer norm": (
        {"w": (4 * H, IN), "u": (4 * H, H), "gain": (4 * H,), "bias": (4 * H,)},
        2,
        lambda b, p: Lstm(weights(p, norm=(p["gain"], p["bias"]))),
        lambda p, x, s: lstm(
            p, normed(x @ p["w"].T + s[0] @ p["u"].T, p["gain"], p["bias"]), s[1], "ifgo"
        ),
    ),
    "gru that resets after": (THREE, 1, gru_after, lambda p, x, s: gru(p, x, s[0], True)),
    "gru that resets before": (
        THREE,
        1,
        lambda b, p: Gru(weights(p), "zrn", reset_after=False),
        lambda p, x, s: gru(p, x, s[0], False),
    ),
    "elman": (
        {"w": (IN, H), "u": (H, H)},
        1,
        lambda b, p: Elman(by_column(p), soft_sign),
        lambda p, x, s: [(z := x @ p["w"] + s[0] @ p["u"]) / (1 + abs(z))],
    ),
}


def widths(name: str) -> list[int]:
    """Of the states."""
    return [P, H] if "projection" in name else [H] * CASES[name][1]


def one_layer(name: str, reverse: bool, ragged: bool) -> Any:
    shapes, _, make, _ = CASES[name]
    b = Builder.net("layer")
    x = b.input("x", ["T", "N", IN])
    starts = [b.input(f"s{k}", ["N", width]) for k, width in enumerate(widths(name))]
    lengths = b.input("lengths", ["N"], "i32") if ragged else None
    p = {key: b.input(key, shape) for key, shape in shapes.items()}
    layer = [Direction(make(b, p), starts, reverse)]
    y, (finals,) = run_layers(b, x, [layer], lengths)
    return b.finish({"y": y, **{f"last{k}": s for k, s in enumerate(finals)}})


def expected(name: str, arrays: Arrays, reverse: bool) -> Arrays:
    step, x = CASES[name][3], arrays["x"]
    states = [arrays[f"s{k}"] for k in range(len(widths(name)))]
    lengths = arrays.get("lengths", np.full(x.shape[1], len(x)))
    y = np.zeros((*x.shape[:2], widths(name)[0]))
    for t in reversed(range(len(x))) if reverse else range(len(x)):
        live = (t < lengths)[:, None]
        new = step(arrays, x[t], states)
        states = [np.where(live, a, old) for a, old in zip(new, states, strict=True)]
        y[t] = np.where(live, new[0], 0)
    return {"y": y, **{f"last{k}": s for k, s in enumerate(states)}}


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_cells(name: str, ragged: bool) -> None:
    program = one_layer(name, reverse=ragged, ragged=ragged)
    sizes, arrays = make_inputs(program, SIZES)
    got = run(program, arrays, np.float64, sizes)
    for key, array in expected(name, arrays, ragged).items():
        np.testing.assert_allclose(got[key], array, 1e-9, 1e-12, err_msg=key)
    check_gradients(program, SIZES)


def test_stacks_and_layouts() -> None:
    """Two layers of two directions, batch first: each direction is a layer of its own."""
    b = Builder.net("stack")
    x = b.input("x", ["N", "T", IN])
    shapes = [(H, IN), (H, IN), (H, 2 * H), (H, 2 * H)]
    w = [b.input(f"w{k}", shape) for k, shape in enumerate(shapes)]
    u = [b.input(f"u{k}", (H, H)) for k in range(4)]
    start = b.fill(0.0, ["N", H])
    cells = [Direction(Elman(CellWeights(w[k], u[k])), [start], bool(k % 2)) for k in range(4)]
    doubled = lambda y: b.add(y, y)  # noqa: E731, what layers do to the y before them
    y, finals = run_layers(b, time_first(b, x, "NTC"), [cells[:2], cells[2:]], between=doubled)
    (h,) = stack_states(b, finals)
    program = b.finish({"y": laid_out(b, y, "NTC"), "h": h})
    sizes, arrays = make_inputs(program, SIZES)
    got = run(program, arrays, np.float64, sizes)
    rows, lasts = arrays["x"].swapaxes(0, 1), list[Array]()
    for layer in range(2):
        rows, parts = rows * (1 + layer), list[Array]()
        for k in (2 * layer, 2 * layer + 1):
            h_t, ys = np.zeros((SIZES["N"], H)), list[Array]()
            for row in rows[:: -1 if k % 2 else 1]:
                h_t = np.tanh(row @ arrays[f"w{k}"].T + h_t @ arrays[f"u{k}"].T)
                ys.append(h_t)
            parts.append(np.stack(ys[:: -1 if k % 2 else 1]))
            lasts.append(h_t)
        rows = np.concatenate(parts, -1)
    np.testing.assert_allclose(got["y"], rows.swapaxes(0, 1), 1e-9, 1e-12)
    np.testing.assert_allclose(got["h"], np.stack(lasts), 1e-9, 1e-12)


def test_gates_of_any_function() -> None:
    b = Builder.net("gates")
    x, c = (b.input(name, ["N", H]) for name in ("x", "c"))
    p = {"w": b.input("w", (4 * H, H)), "u": b.input("u", (4 * H, H))}
    cell = Lstm(
        weights(p), gate=lambda b, z: hard_sigmoid(b, z, 0.2, 0.5), act=soft_sign, out=Builder.relu
    )
    shared, rows = cell.prepare(b, x)
    h, new = cell.step(b, shared, rows, [b.full_like(x, 0.0), c])
    program = b.finish({"h": h, "new": new})
    sizes, arrays = make_inputs(program, SIZES)
    got = run(program, arrays, np.float64, sizes)
    i, f, g, o = np.split(arrays["x"] @ arrays["w"].T, 4, -1)
    gate = [np.clip(0.2 * z + 0.5, 0, 1) for z in (i, f, o)]
    state = gate[1] * arrays["c"] + gate[0] * g / (1 + abs(g))
    np.testing.assert_allclose(got["new"], state, 1e-9)
    np.testing.assert_allclose(got["h"], gate[2] * np.maximum(state, 0), 1e-9)
