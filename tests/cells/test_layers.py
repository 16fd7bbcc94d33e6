"""The options of layers: how parts are put together, checked against the parts alone."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest

import rnncc
from rnncc.cells import elman, graves_lstm, gru, lstm, milstm
from rnncc.cells.settings import Layout
from tests.cells.helpers import assert_all_close, compiled, exact, gradients, inputs_of

BUILDERS = [graves_lstm, gru]  # two states or one; the cells themselves have tests of their own
each_cell = pytest.mark.parametrize("build", BUILDERS, ids=lambda f: f.__name__)
IN, H = 3, 5


@each_cell
@pytest.mark.parametrize("merge", ["add", "multiply", "average", "concatenate"])
def test_both_directions_are_two_layers(build: Any, merge: Any) -> None:
    options: dict[str, Any] = {"masked": True, "initial_state": True, "layout": "TNC"}
    both = build(IN, H, direction="both", merge=merge, **options)
    inputs = inputs_of(both)
    outputs: dict[str, dict[str, Any]] = {}
    for end, direction in (("F", "forward"), ("B", "backward")):
        own = {n.removesuffix(end): a for n, a in both.parameters.items() if n.endswith(end)}
        given = {
            n.removesuffix(end): a for n, a in inputs.items() if not n.endswith("FB".strip(end))
        }
        outputs[end] = exact(build(parameters=own, direction=direction, **options), given)
    f, b = (outputs[end].pop("y") for end in "FB")
    want = {
        "y": {
            "add": f + b,
            "multiply": f * b,
            "average": (f + b) / 2,
            "concatenate": np.concatenate([f, b], 2),
        }[merge]
    }
    want |= {f"{name}{end}": array for end in "FB" for name, array in outputs[end].items()}
    assert_all_close(exact(both, inputs), want, 1e-12, 1e-12)
    assert_all_close(compiled(both, inputs), want)


@each_cell
def test_backward_is_forward_on_reversed_time(build: Any) -> None:
    layer = build(IN, H, direction="backward", masked=True, layout="TNC")
    inputs = inputs_of(layer)
    ahead = build(parameters=layer.parameters, masked=True, layout="TNC")
    want = exact(ahead, {name: array[::-1] for name, array in inputs.items()})
    want["y"] = want["y"][::-1]
    assert_all_close(exact(layer, inputs), want, 0, 0)
    assert_all_close(compiled(layer, inputs), want)


@each_cell
def test_a_masked_step_hands_zeros_on(build: Any) -> None:
    """A hole in the middle: what follows is as if it began there."""
    layer = build(IN, H, masked=True, initial_state=True, layout="TNC")
    inputs = inputs_of(layer, steps=7)
    inputs["mask"] = np.ones((7, 3), np.float32)
    inputs["mask"][3] = 0
    plain = build(parameters=layer.parameters, initial_state=True, layout="TNC")
    states = [name for name in inputs if name in ("h0", "c0")]
    zeros = {name: np.zeros_like(inputs[name]) for name in states}
    first = exact(plain, {**{n: inputs[n] for n in states}, "x": inputs["x"][:3]})
    second = exact(plain, {**zeros, "x": inputs["x"][4:]})
    hole = np.zeros((1, 3, H))
    want = {**second, "y": np.concatenate([first["y"], hole, second["y"]])}
    assert_all_close(exact(layer, inputs), want, 1e-12, 1e-12)
    assert_all_close(compiled(layer, inputs), want)


@each_cell
def test_padding_at_the_end_of_a_backward_layer(build: Any) -> None:
    """A sequence starts from zeros at its own last step."""
    layer = build(IN, H, direction="backward", masked=True, layout="TNC")
    inputs = inputs_of(layer, steps=6)
    inputs["mask"] = (np.arange(6)[:, None] < np.array([6, 4, 1])).astype(np.float32)
    got = exact(layer, inputs)
    plain = build(parameters=layer.parameters, direction="backward", layout="TNC")
    for n, length in enumerate((6, 4, 1)):
        alone = exact(plain, {"x": inputs["x"][:length, n : n + 1]})
        np.testing.assert_allclose(got["y"][:length, n], alone["y"][:, 0], 1e-12, 1e-12)
        np.testing.assert_array_equal(got["y"][length:, n], 0)
        np.testing.assert_allclose(got["h_last"][n], alone["h_last"][0], 1e-12, 1e-12)


@each_cell
@pytest.mark.parametrize("layout", get_args(Layout))
def test_layouts(build: Any, layout: Any) -> None:
    steps = 1 if layout == "NC" else 4
    layer = build(IN, H, layout=layout, masked=True)
    usual = build(parameters=layer.parameters, layout="TNC", masked=True)
    inputs = inputs_of(usual, steps)
    want = exact(usual, inputs)

    def laid_out(array: Any, axes: str) -> Any:
        """An array of axes T, N and maybe C, as the layout has them."""
        if layout == "NC":
            return array[0]
        return array.transpose([axes.index(a) for a in layout if a in axes])

    given = {"x": laid_out(inputs["x"], "TNC"), "mask": laid_out(inputs["mask"], "TN")}
    want["y"] = laid_out(want["y"], "TNC")
    assert_all_close(exact(layer, given), want, 0, 0)
    assert_all_close(compiled(layer, given), want)


@each_cell
@pytest.mark.parametrize("merge", ["add", "concatenate"])
def test_layers(build: Any, merge: Any) -> None:
    """The second layer's input is the first one's y."""
    options: dict[str, Any] = {"direction": "both", "merge": merge, "layout": "TNC"}
    stack = build(IN, H, layers=2, initial_state=True, **options)
    inputs = inputs_of(stack)
    x, want = inputs["x"], dict[str, Any]()
    for prefix in ("layer0/", "layer1/"):
        own, given = (
            {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
            for arrays in (stack.parameters, inputs)
        )
        got = exact(build(parameters=own, initial_state=True, **options), {**given, "x": x})
        x = got.pop("y")
        want |= {prefix + name: array for name, array in got.items()}
    want = {"y": x, **want}
    assert_all_close(exact(stack, inputs), want, 1e-12, 1e-12)
    assert_all_close(compiled(stack, inputs), want)


@each_cell
def test_states_handed_over(build: Any) -> None:
    """A sequence in segments, each from the states after the one before, is the whole sequence."""
    whole = build(IN, H, layout="TNC")
    segment = build(parameters=whole.parameters, initial_state=True, layout="TNC")
    x = inputs_of(whole, steps=7)["x"]
    model, want = rnncc.compile(segment), rnncc.compile(whole).run({"x": x})
    names = [name for name in ("h", "c") if f"{name}_last" in want]
    states = {f"{name}0": np.zeros((3, H), np.float32) for name in names}
    ys: list[Any] = []
    for part in (x[:3], x[3:4], x[4:]):
        got = model.run({"x": part, **states})
        ys.append(got.pop("y"))
        states = {f"{name}0": got[f"{name}_last"] for name in names}
    np.testing.assert_array_equal(np.concatenate(ys), want["y"])
    for name in names:
        np.testing.assert_array_equal(states[f"{name}0"], want[f"{name}_last"])


def test_training_in_segments() -> None:
    """Handed over without gradient: each segment's gradients stand alone, and add up."""
    segment = graves_lstm(IN, H, initial_state=True, layout="TNC")
    inputs = inputs_of(segment, steps=6)
    weight = np.random.default_rng(1).standard_normal((6, 3, H))
    total = {name: np.zeros(array.shape) for name, array in segment.parameters.items()}
    states = {name: inputs[name] for name in ("h0", "c0")}
    for k in (slice(0, 3), slice(3, 6)):
        given = {"x": inputs["x"][k], **states}
        got = gradients(segment, given, {"y": weight[k]})
        total = {name: array + got[name] for name, array in total.items()}
        last = exact(segment, given)
        states = {"h0": last["h_last"], "c0": last["c_last"]}
    cut = graves_lstm(parameters=segment.parameters, initial_state=True, layout="TNC", tbptt=3)
    late = gradients(cut, inputs, {"y": weight})
    first = {name: inputs[name] for name in ("h0", "c0")}
    early = gradients(segment, {"x": inputs["x"][:3], **first}, {"y": weight[:3]})
    for name, array in total.items():
        np.testing.assert_allclose(array, early[name] + late[name], 1e-9, 1e-9, err_msg=name)


@each_cell
def test_no_steps(build: Any) -> None:
    layer = build(IN, H, initial_state=True, layout="TNC")
    inputs = inputs_of(layer, steps=0)
    got = compiled(layer, inputs)
    assert got["y"].shape == (0, 3, H)
    np.testing.assert_array_equal(got["h_last"], inputs["h0"])


def test_how_parameters_start() -> None:
    layer = graves_lstm(30, 50, seed=3)
    p = layer.parameters
    np.testing.assert_array_equal(p["b"], np.repeat(np.array([0, 1, 0, 0]), 50))
    for name in ("W", "RW"):
        assert abs(p[name].mean()) < 0.005
        np.testing.assert_allclose(p[name].std(), (2 / (50 + 30 + 50)) ** 0.5, 0.03)
    again, other = graves_lstm(30, 50, seed=3), graves_lstm(30, 50, seed=4)
    np.testing.assert_array_equal(again.parameters["W"], p["W"])
    assert (other.parameters["W"] != p["W"]).any()
    np.testing.assert_array_equal(lstm(2, 1).parameters["b"], np.array([0, 1, 0, 0]))
    np.testing.assert_array_equal(milstm(2, 1).parameters["b"], np.array([0, 1, 0, 0]))
    np.testing.assert_array_equal(milstm(2, 1).parameters["alpha"], np.ones(4))


def test_names() -> None:
    layer = graves_lstm(
        IN, H, direction="both", masked=True, initial_state=True, drop_connect=0.1, layers=2
    )
    states = [f"layer{k}/{s}0{end}" for k in (0, 1) for end in "FB" for s in "hc"]
    assert list(layer.net.inputs) == ["x", "mask", "seed", *states]
    assert list(layer.net.outputs) == [
        "y",
        *(s.replace("0F", "_lastF").replace("0B", "_lastB") for s in states),
    ]
    names = [f"layer{k}/{p}{end}" for k in (0, 1) for end in "FB" for p in ("W", "RW", "b")]
    assert list(layer.parameters) == names
    small = elman(1, 1)
    assert rnncc.compile(small).name == "elman"
    assert rnncc.compile(small, name="other").name == "other"
    assert rnncc.compile(elman(1, 1, name="mine")).name == "mine"


def test_compiling_leaves_the_layer_as_it_was() -> None:
    layer = graves_lstm(IN, H, tbptt=2, drop_connect=0.5)
    before, arrays = str(layer.module), layer.parameters
    rnncc.compile(layer)
    assert str(layer.module) == before
    assert layer.parameters.keys() == arrays.keys()


def test_light_import() -> None:
    """`rnncc.cells` is there without importing it, and nothing else is."""
    assert rnncc.cells.graves_lstm is graves_lstm
    with pytest.raises(AttributeError, match="module 'rnncc' has no attribute 'cell'"):
        getattr(rnncc, "cell")  # noqa: B009
