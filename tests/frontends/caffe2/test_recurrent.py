"""RecurrentNetwork: states of every rank, windows, aliases, references, nets in nets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rnncc.errors import CompileError
from rnncc.frontends.caffe2 import import_net
from rnncc.ir.interpreter import run
from rnncc.ir.types import dims_of
from rnncc.netdef import NetDef, parse_text
from tests.frontends.caffe2.nets import add_arg, net, op, recurrent, sum_net, sum_step

RANDOM = np.random.default_rng(3)
Array = np.ndarray[Any, Any]


def real(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


def sums(x: Array, h: Array) -> Array:
    rows = [h := np.tanh(h + row) for row in x]
    return np.array(rows).reshape(x.shape)


def shape_of(program: Any, name: str) -> str:
    return ",".join(str(d) for d in dims_of({**program.net.inputs, **program.net.outputs}[name]))


@pytest.mark.parametrize("steps", [0, 1, 5])
@pytest.mark.parametrize("shape", ["4", "N,4", "1,N,4"])
def test_initial_states_of_every_rank(shape: str, steps: int) -> None:
    program = import_net(sum_net(), shapes={"h0": shape})
    assert shape_of(program, "x") == "T,N,4"
    x, h = real(steps, 3, 4), real(*(3 if d == "N" else int(d) for d in shape.split(",")))
    got = run(program, {"x": x, "h0": h})
    start = np.broadcast_to(h, (1, 3, 4))
    want = sums(x, start[0])
    np.testing.assert_allclose(got["h_all"], want, 1e-5, 1e-6)
    np.testing.assert_allclose(got["h_last"], want[-1:] if steps else start, 1e-5, 1e-6)


def test_an_initial_state_of_unknown_rank_has_three_axes() -> None:
    program = import_net(sum_net(), shapes={"x": "T,N,4"})
    assert shape_of(program, "h0") == "1,N,4"
    assert shape_of(program, "h_all") == "T,N,4"
    assert shape_of(program, "h_last") == "1,N,4"


def test_the_step_net_may_be_text_and_hold_a_timestep() -> None:
    text = """
        name: "step"
        op { type: "Cast" input: "now" output: "t" arg { name: "to" i: 1 } }
        op { type: "Add" input: "h_prev" input: "t" output: "h" arg { name: "broadcast" i: 1 } }
    """
    made = sum_net()
    made.op[0].CopyFrom(recurrent(text, links=(("h_prev", "h_states", 0), ("h", "h_states", 1))))
    add_arg(made.op[0], "timestep", "now")
    got = run(
        import_net(made, shapes={"x": "T,N,4"}), {"x": real(4, 1, 4), "h0": np.zeros((1, 1, 4))}
    )
    np.testing.assert_array_equal(got["h_all"][:, 0, 0], [0, 1, 3, 6])


def test_a_window_of_a_state_with_several_rows() -> None:
    """y[t] = h[t] + h[t + 1] + h[t + 2], the last of them made in this step: h[t + 2] = x[t]."""
    step = net(
        [
            op("Copy", "x_t", "new"),
            op("Split", "window", "a b c", axis=0),
            op("Sum", "a b c", "y"),
        ],
        "",
        "",
    )
    links = (("window", "h", 0), ("new", "h", 2), ("x_t", "x", 0), ("y", "ys", 1))
    aliases = (("h", "h_all", 2), ("h", "h_some", 1), ("h", "h_tail", -2), ("ys", "y_all", 1))
    made = net(
        [
            recurrent(
                step,
                inputs="x h0 y0",
                outputs="h_all h_some h_tail y_all ws",
                states=("h", "ys"),
                initial=(1, 2),
                links=links,
                aliases=aliases,
                link_window=[3, 1, 1, 1],
            )
        ],
        "x h0 y0",
        "h_all h_some h_tail y_all",
    )
    program = import_net(made, shapes={"x": "T,N,4"})
    assert shape_of(program, "h0") == "2,N,4"
    for steps in (0, 1, 5):
        x, h = real(steps, 3, 4), real(2, 3, 4)
        got = run(program, {"x": x, "h0": h, "y0": real(1, 3, 4)})
        rows = np.concatenate([h, x])
        np.testing.assert_array_equal(got["h_all"], x)
        np.testing.assert_array_equal(got["h_some"], rows[1:])
        np.testing.assert_array_equal(got["h_tail"], rows[-2:])
        want = np.array([rows[t : t + 3].sum(0) for t in range(steps)]).reshape(x.shape)
        np.testing.assert_allclose(got["y_all"], want, 1e-5, 1e-6)


def test_a_window_of_a_second_sequence() -> None:
    step = net([op("Split", "w", "a b", axis=0), op("Sum", "a b h_prev", "h")], "", "")
    links = (("h_prev", "h_states", 0), ("h", "h_states", 1), ("w", "z", 1))
    node = recurrent(step, inputs="x h0 z", links=links, link_window=[1, 1, 2])
    program = import_net(net([node], "x h0 z", "h_all"), shapes={"x": "T,N,4", "h0": "?,?,4"})
    assert shape_of(program, "z") == "T + 2,N,4"
    x, h, z = real(3, 2, 4), real(1, 2, 4), real(5, 2, 4)
    got = run(program, {"x": x, "h0": h, "z": z})["h_all"]
    np.testing.assert_allclose(got, h + np.cumsum(z[1:4] + z[2:5], 0), 1e-5, 1e-6)


def test_links_of_different_reach_on_one_sequence() -> None:
    """h[t] = h[t - 1] + z[t] + z[t + 2]; rows behind those may stay unread, but not be missing."""
    step = net([op("Sum", "a b h_prev", "h")], "", "")
    links = (("h_prev", "h_states", 0), ("h", "h_states", 1), ("a", "z", 0), ("b", "z", 2))
    made = net([recurrent(step, inputs="x h0 z", links=links)], "x h0 z", "h_all")
    h0, z = real(1, 2, 4), real(6, 2, 4)
    for rows, shape in ((5, "T + 2,N,4"), (5, "5,2,4"), (6, "6,2,4")):
        steps = "T,N,4" if "T" in shape else "3,2,4"
        program = import_net(made, shapes={"x": steps, "h0": "?,?,4", "z": shape})
        got = run(program, {"x": real(3, 2, 4), "h0": h0, "z": z[:rows]})["h_all"]
        np.testing.assert_allclose(got, h0 + np.cumsum(z[:3] + z[2:5], 0), 1e-5, 1e-6)
    with pytest.raises(CompileError, match='"z" has 4 rows, and the steps read 5'):
        import_net(made, shapes={"x": "3,2,4", "h0": "?,?,4", "z": "4,2,4"})


def test_references_and_several_networks_in_a_net() -> None:
    step = net([op("FC", "h_prev w b", "fc", axis=2), op("Sum", "fc x_t", "h")], "", "")
    first = recurrent(step, inputs="x h0 w b")
    links = (("h_prev", "s2", 0), ("h", "s2", 1), ("x_t", "h_all", 0))
    aliases = (("s2", "y", 1),)
    second = recurrent(
        step,
        inputs="h_all h_last w b",
        outputs="y ws2",
        states=("s2",),
        links=links,
        aliases=aliases,
    )
    program = import_net(net([first, second], "x h0 w b", "y"), shapes={"w": (4, 4)})
    x, h, w, b = real(3, 2, 4), real(1, 2, 4), real(4, 4), real(4)

    def layer(rows: Array, state: Array) -> Array:
        return np.array([state := state @ w.T + b + row for row in rows])

    hidden = layer(x, h[0])
    got = run(program, {"x": x, "h0": h, "w": w, "b": b})["y"]
    np.testing.assert_allclose(got, layer(hidden, hidden[-1]), 1e-4, 1e-5)


def test_a_recurrent_network_inside_a_step_net() -> None:
    """The inner loop runs over the whole of z, a reference, in every step."""
    inner = recurrent(sum_step(), inputs="z h_prev", outputs="all h ws")
    inner.arg[[a.name for a in inner.arg].index("link_external")].strings[2] = b"z"
    inner.arg[[a.name for a in inner.arg].index("alias_dst")].strings[:] = [b"all", b"h"]
    outer = recurrent(
        net([inner], "", ""),
        inputs="x h0 z",
        links=(("h_prev", "h_states", 0), ("h", "h_states", 1)),
    )
    program = import_net(net([outer], "x h0 z", "h_all"), shapes={"x": "T,N,4", "z": "S,N,4"})
    x, h, z = real(2, 3, 4), real(1, 3, 4), real(5, 3, 4)
    first = sums(z, h[0])[-1]
    got = run(program, {"x": x, "h0": h, "z": z})["h_all"]
    np.testing.assert_allclose(got, [first, sums(z, first)[-1]], 1e-6)


def test_basic_rnn_with_lengths() -> None:
    """What BasicRNNCell emits with seq_lengths: masks by comparison, cast and legacy products."""
    step = net(
        [
            op("Sum", "h_prev x_t", "s"),
            op("Tanh", "s", "h"),
            op("CopyFromCPUInput", "timestep", "now"),
            op("GT", "lengths now", "valid_b", broadcast=1),
            op("LE", "lengths now", "invalid_b", broadcast=1),
            op("Cast", "valid_b", "valid", to="float"),
            op("Cast", "invalid_b", "invalid", to="float"),
            op("Mul", "h valid", "h_valid", broadcast=1, axis=1),
            op("Mul", "h_prev invalid", "h_invalid", broadcast=1, axis=1),
            op("Add", "h_valid h_invalid", "h"),
        ],
        "",
        "",
    )
    made = net([recurrent(step, inputs="x h0 lengths")], "x h0 lengths", "h_all")
    program = import_net(made, shapes={"x": "T,N,4"})
    assert str(program.net.inputs["lengths"].type) == 'tensor<?xi32, ["N"]>'
    x, h, lengths = real(3, 2, 4), real(1, 2, 4), np.array([3, 1], np.int32)
    want = sums(x, h[0])
    want[1:, 1] = want[0, 1]
    np.testing.assert_allclose(
        run(program, {"x": x, "h0": h, "lengths": lengths})["h_all"], want, 1e-6
    )


def test_the_training_form_is_read_and_its_backward_net_ignored() -> None:
    backward = net([op("SumGradient", "a", "b")], "", "")
    made = sum_net(backward_step_net=backward)
    program = import_net(made, shapes={"x": "T,N,4"})
    assert list(program.net.outputs) == ["h_all", "h_last"]
    broken = sum_net(backward_step_net="op { nonsense }")
    with pytest.raises(CompileError, match="backward_step_net: line 1"):
        import_net(broken, shapes={"x": "T,N,4"})


def test_a_net_in_text_form_is_a_net() -> None:
    made = parse_text(str(sum_net()).replace("rnncc.caffe2.", ""), "net")
    assert isinstance(made, NetDef)
    assert import_net(made, shapes={"x": "T,N,4"}).symbols == ["T", "N"]
