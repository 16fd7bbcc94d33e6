"""The Python side of training: what is wanted, what is refused, tapes, threads."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from rnncc_runtime import ArrayError, TrainableModel

import rnncc
from rnncc.commands.charnet import char_lstm
from rnncc.ir.builder import Builder, Values
from rnncc.ir.dims import Dim
from rnncc.ir.program import Program
from tests.training.models import assert_same_bits

T, N, V, H = 5, 3, 7, 4
SHAPES = {"probabilities": (T, N, V), "hidden_last": (1, N, H), "cell_last": (1, N, H)}
Arrays = dict[str, Any]


@pytest.fixture(scope="module")
def model() -> TrainableModel:
    return rnncc.compile(*char_lstm(V, H), train=True)


def draw(seed: int = 0) -> Arrays:
    rng = np.random.default_rng(seed)
    shapes = {"x": (T, N, V), "h0": (1, N, H), "c0": (1, N, H)}
    inputs = {n: rng.uniform(-1, 1, shape).astype(np.float32) for n, shape in shapes.items()}
    return {**inputs, "seq_lengths": np.array([T, 0, 2], np.int32)}


def loss_grads(seed: int = 1) -> Arrays:
    rng = np.random.default_rng(seed)
    return {n: rng.uniform(-1, 1, shape).astype(np.float32) for n, shape in SHAPES.items()}


def trained(model: TrainableModel, inputs: Arrays, outer: Arrays, **more: Any) -> Arrays:
    _, tape = model.forward(inputs)
    return model.backward(tape, outer, **more)


def test_an_output_without_a_gradient_has_zeros(model: TrainableModel) -> None:
    outer = loss_grads()
    zeros = {name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()}
    for given in ({}, {"probabilities"}, {"hidden_last", "cell_last"}):
        some = {name: outer[name] for name in given}
        got = trained(model, draw(), some)
        expected = trained(model, draw(), zeros | some)
        for name, array in expected.items():
            np.testing.assert_array_equal(got[name], array, err_msg=f"{name}, given {given}")
    assert not any(array.any() for array in trained(model, draw(), {}).values())


def test_passes_over_addresses(model: TrainableModel) -> None:
    """Of an output that has no gradient, and of gradients that nobody wants, too."""
    inputs, outer = draw(), loss_grads()
    del outer["hidden_last"]
    expected, tape = model.forward(inputs)
    grads = model.backward(tape, outer, wanted=["x", "c0"])
    results = {name: np.empty_like(array) for name, array in expected.items()}
    arrays = [*(inputs[name] for name in model.inputs), *results.values()]
    tape = model.forward_at(arrays, [array.ctypes.data for array in arrays])
    assert_same_bits(results, expected, "by addresses")
    out = {name: np.empty_like(array) for name, array in grads.items()}
    groups = ("output_grads", outer), ("grads", out)
    given, written = ([g.get(x["name"]) for x in model.metadata[group]] for group, g in groups)
    places = [0 if array is None else array.ctypes.data for array in (*given, *written)]
    model.backward_at(tape, given, written, places)
    assert_same_bits(out, grads, "by addresses")
    with pytest.raises(ArrayError, match="used up"):
        model.backward_at(tape, given, written, places)
    _, tape = model.forward(inputs)
    name = model.metadata["grads"][0]["name"]
    with pytest.raises(ArrayError, match=f"the gradient of {name} has shape"):
        model.backward_at(tape, given, [np.empty(1, np.float32), *written[1:]], places)


def test_only_gradients_that_are_wanted(model: TrainableModel) -> None:
    every = trained(model, draw(), loss_grads())
    assert every.keys() == {"x", "h0", "c0", *model.parameters}
    for wanted in ([], ["x"], ["gates_w", "out_b"], iter(["h0"])):
        names = list(wanted)
        some = trained(model, draw(), loss_grads(), wanted=names)
        assert_same_bits(some, {name: every[name] for name in every if name in names}, "")


def test_gradients_into_the_callers_arrays(model: TrainableModel) -> None:
    every = trained(model, draw(), loss_grads())
    into = np.full((4 * H, H), 7, np.float32)
    some = trained(model, draw(), loss_grads(), wanted=[], out={"gates_w": into})
    assert some["gates_w"] is into
    assert_same_bits(some, {"gates_w": every["gates_w"]}, "")


def test_outputs_into_the_callers_arrays(model: TrainableModel) -> None:
    outputs, _ = model.forward(draw())
    into = np.full(SHAPES["probabilities"], 7, np.float32)
    again, _ = model.forward(draw(), out={"probabilities": into})
    assert again["probabilities"] is into
    assert_same_bits(outputs, again, "")
    assert_same_bits(outputs, model.run(draw()), "run")


def test_tapes_stand_side_by_side(model: TrainableModel) -> None:
    """Any number of forward passes before their backward passes, in any order."""
    expected = [trained(model, draw(seed), loss_grads(seed)) for seed in range(5)]
    tapes = [model.forward(draw(seed))[1] for seed in range(5)]
    for seed in (3, 0, 4, 1, 2):
        assert_same_bits(model.backward(tapes[seed], loss_grads(seed)), expected[seed], "")


def test_a_tape_is_used_once(model: TrainableModel) -> None:
    _, tape = model.forward(draw())
    assert tape.nbytes > 0
    model.backward(tape, loss_grads())
    assert tape.nbytes == 0
    with pytest.raises(ArrayError, match="the tape was used up by an earlier backward pass"):
        model.backward(tape, loss_grads())


def test_a_refused_backward_leaves_the_tape(model: TrainableModel) -> None:
    expected = trained(model, draw(), loss_grads())
    _, tape = model.forward(draw())
    with pytest.raises(ArrayError):
        model.backward(tape, {"probabilities": np.zeros((1, 1, V), np.float32)})
    assert_same_bits(model.backward(tape, loss_grads()), expected, "")


def test_parameters_are_updated_in_place(model: TrainableModel) -> None:
    own = rnncc.compile(*char_lstm(V, H), train=True)
    before, _ = own.forward(draw())
    own.parameters["out_b"] += np.linspace(0, 1, V, dtype=np.float32)
    after, _ = own.forward(draw())
    assert (before["probabilities"] != after["probabilities"]).any()
    own.parameters["out_b"] = model.parameters["out_b"].copy()
    restored, _ = own.forward(draw())
    assert_same_bits(restored, before, "")


def test_outputs_that_a_loss_depends_on() -> None:
    """What no loss depends on costs no gradient, and one cannot be given for it."""
    wanted = ["probabilities"]
    model = rnncc.compile(*char_lstm(V, H), train=True, outputs_with_grads=wanted)
    outer = {name: loss_grads()[name] for name in wanted}
    every = rnncc.compile(*char_lstm(V, H), train=True)
    for name, array in trained(every, draw(), outer).items():
        got = trained(model, draw(), outer)[name]
        np.testing.assert_allclose(got, array, 1e-5, 1e-6, err_msg=name)
    with pytest.raises(ArrayError, match="no output with a gradient is named hidden_last"):
        trained(model, draw(), {"hidden_last": loss_grads()["hidden_last"]})


@pytest.mark.parametrize(
    ("outer", "more", "message"),
    [
        ({"frob": 0}, {}, "no output with a gradient is named frob"),
        ({"hidden_last": np.zeros((1, N, H))}, {}, "hidden_last is float64, expected float32"),
        (
            {"hidden_last": np.zeros((1, N, H + 1), np.float32)},
            {},
            "the gradient of hidden_last has shape [1, 3, 5], expected [1, 3, 4]",
        ),
        ({}, {"wanted": ["seq_lengths"]}, "no gradient is there for seq_lengths"),
        (3, {}, "output gradients are int, expected arrays by name"),
        ({}, {"wanted": ["frob"]}, "no gradient is there for frob"),
        ({}, {"wanted": [3, "frob"]}, "no gradient is there for 3, frob"),
        ({}, {"out": {"x": np.zeros((T, N, V))}}, "gradient x is float64, expected float32"),
        (
            {},
            {"out": {"x": np.zeros((T, N), np.float32)}},
            "the gradient of x has shape [5, 3], expected [5, 3, 7]",
        ),
    ],
)
def test_what_backward_refuses(
    model: TrainableModel, outer: Any, more: Arrays, message: str
) -> None:
    with pytest.raises(ArrayError) as caught:
        trained(model, draw(), outer, **more)
    assert message in str(caught.value)


def test_what_forward_refuses(model: TrainableModel) -> None:
    with pytest.raises(ArrayError, match="missing: x"):
        model.forward({name: array for name, array in draw().items() if name != "x"})
    with pytest.raises(ArrayError, match="N is 3 in x but 2 in h0"):
        model.forward({**draw(), "h0": np.zeros((1, 2, H), np.float32)})
    inputs = draw()
    with pytest.raises(ArrayError, match="overlaps input h0"):
        model.forward(inputs, out={"hidden_last": inputs["h0"]})


def test_memory_that_is_read_is_not_written() -> None:
    own = rnncc.compile(*char_lstm(V, V), train=True)
    h0, c0 = (np.zeros((1, N, V), np.float32) for _ in range(2))
    inputs = {**draw(), "h0": h0, "c0": c0}
    flat = own.parameters["i2h_w"].reshape(-1)
    place = {"hidden_last": flat[: N * V].reshape(1, N, V)}
    with pytest.raises(ArrayError, match="output hidden_last overlaps input i2h_w"):
        own.forward(inputs, out=place)
    outputs, tape = own.forward(inputs)
    outer = {"probabilities": outputs["probabilities"]}
    for name, array, other in (
        ("x", outputs["probabilities"], "probabilities"),
        ("out_b", own.parameters["out_b"], "out_b"),
        ("h0", c0, "c0"),
    ):
        with pytest.raises(ArrayError, match=f"gradient of {name} overlaps input {other}"):
            own.backward(tape, outer, out={name: array})
    twice = np.zeros((1, N, V), np.float32)
    with pytest.raises(ArrayError, match="gradient of c0 overlaps output gradient of h0"):
        own.backward(tape, outer, out={"h0": twice, "c0": twice})
    assert own.backward(tape, outer)["x"].any()


@pytest.mark.parametrize(
    "array", [np.zeros(V), np.zeros(V + 1, np.float32), np.zeros(2 * V, np.float32)[::2], None]
)
def test_parameters_of_a_wrong_kind(array: Any) -> None:
    model = rnncc.compile(*char_lstm(V, H), train=True)
    model.parameters["out_b"] = array
    with pytest.raises(ArrayError, match="out_b"):
        model.forward(draw())


def test_threads(model: TrainableModel) -> None:
    """One model computes in several threads at once; each gets its own bits."""
    expected = [trained(model, draw(seed), loss_grads(seed)) for seed in range(4)]

    def work(seed: int) -> None:
        for _ in range(50):
            assert_same_bits(trained(model, draw(seed), loss_grads(seed)), expected[seed], "")

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work, seed) for seed in range(4)]:
            done.result()


NAMES = ["x", "w", "h0", "h", "y"]
"""Of a small loop: the sequence, the kernel, the first state; sines of states and their squares."""


def squares_of_sines(names: Sequence[str]) -> Program:
    x, w, h0, h, y = names
    b = Builder.net("squares")
    xs, first = b.input(x, (Dim.of("T"), Dim.of("N"), 3)), b.input(h0, (Dim.of("N"), 3))

    def step(inner: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        h = inner.tanh(inner.add(rows[0], inner.matmul(carry[0], consts[0])))
        return [h], [inner.sin(h)]

    _, (states,) = b.scan([b.param(w, (3, 3))], [first], [xs], step)
    kernel = np.linspace(-1, 1, 9, dtype=np.float32).reshape(3, 3)
    return b.finish({h: states, y: b.mul(states, states)}, {w: kernel})


@pytest.mark.parametrize("budget", [None, 12_000])
@pytest.mark.parametrize(
    "names",
    [
        ["grad:x", "grad:grad:x", "saved:h", "kept:saved:h", "grad:y"],
        ["kept:h", "grad:kept:h", "grad:h", "h", "grad:kept:h.2"],
        ["x", "w", "h", "h", "x"],  # outputs that are called as inputs are
    ],
)
def test_names_of_added_ports_are_free(names: list[str], budget: int | None) -> None:
    """Blobs may be called as added ports are, with checkpoints too; the bits are the same."""
    options: dict[str, Any] = {}
    if budget is not None:
        options = {"memory_budget": budget, "plan_for": {"T": 200, "N": 2}}
    rng = np.random.default_rng(1)
    x, h0 = (rng.standard_normal(shape).astype(np.float32) for shape in [(200, 2, 3), (2, 3)])
    found = list[list[Any]]()
    for those in (NAMES, names):
        model = rnncc.compile(squares_of_sines(those), train=True, **options)
        outputs, tape = model.forward(dict(zip((those[0], those[2]), (x, h0), strict=True)))
        grads = model.backward(tape, {those[4]: x})
        assert (list(outputs), set(grads)) == (those[3:], set(those[:3]))
        assert budget is None or model.metadata["checkpoints"].startswith("checkpoints every")
        found.append([*outputs.values(), *(grads[name] for name in those[:3])])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
