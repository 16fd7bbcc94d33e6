"""The LSTM, GRU and Elman layers against PyTorch's, with their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rnncc.cells import Layer, elman, gru, lstm
from tests.cells.helpers import compiled, exact, gradients, inputs_of
from tests.golden import Arrays

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peers
IN, H = 3, 5
BUILDERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "LSTM": (lstm, {}),
    "GRU": (gru, {}),
    "RNN": (elman, {}),
    "RNN relu": (elman, {"activation": "relu"}),
}
DIRECTIONS = ["forward", "both"]


def peer(name: str, direction: str) -> Any:
    """PyTorch's layer, in float64."""
    kind, *activation = name.split()
    options = {"nonlinearity": activation[0]} if activation else {}
    torch.manual_seed(0)
    both = direction == "both"
    return getattr(torch.nn, kind)(IN, H, bidirectional=both, dtype=torch.float64, **options)


def ours(theirs: Any, kind: str, end: str, read: Any) -> Arrays:
    """Their parameters, or what `read` makes of each, by our names."""
    tail = "_l0_reverse" if end == "B" else "_l0"
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    w, u, b, more = (read(getattr(theirs, name + tail)).numpy() for name in names)
    arrays = {"W": w.T, "RW": u.T, "b": b, "more": more}
    return {name + end: array for name, array in arrays.items()}


def parameters(theirs: Any, kind: str, end: str) -> Arrays:
    """As a layer takes them: their biases added up, but for the GRU's of n."""
    arrays = ours(theirs, kind, end, lambda p: p.detach())
    more = arrays.pop(f"more{end}")
    if kind == "GRU":
        arrays[f"rb{end}"], more = more[2 * H :].copy(), np.r_[more[: 2 * H], np.zeros(H)]
    arrays[f"b{end}"] = arrays[f"b{end}"] + more
    return arrays


def grads(theirs: Any, kind: str, end: str) -> Arrays:
    arrays = ours(theirs, kind, end, lambda p: p.grad)
    more = arrays.pop(f"more{end}")
    return {**arrays, f"rb{end}": more[2 * H :]} if kind == "GRU" else arrays


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", BUILDERS)
def test_outputs_and_gradients(name: str, direction: str) -> None:
    kind, (build, options) = name.split()[0], BUILDERS[name]
    theirs, ends = peer(name, direction), ["F", "B"] if direction == "both" else [""]
    known = {n: a for end in ends for n, a in parameters(theirs, kind, end).items()}
    layer: Layer = build(
        parameters=known, direction=direction, merge="concatenate", initial_state=True, **options
    )
    inputs = inputs_of(layer)
    states = [[n for n in inputs if n.startswith(s)] for s in ("h0", "c0")]
    given = [
        torch.tensor(np.stack([inputs[n] for n in ns]), dtype=torch.float64) for ns in states if ns
    ]
    x = torch.tensor(inputs["x"], dtype=torch.float64, requires_grad=True)
    for state in given:
        state.requires_grad_()
    y, last = theirs(x, tuple(given) if len(given) > 1 else given[0])
    lasts = last if isinstance(last, tuple) else (last,)
    want = {"y": y.detach().numpy()}
    for state, stacked in zip("hc", lasts, strict=False):
        for row, end in zip(stacked.detach().numpy(), ends, strict=True):
            want[f"{state}_last{end}"] = row
    for outputs in (exact(layer, inputs), compiled(layer, inputs)):
        assert outputs.keys() == want.keys()
        for output, array in want.items():
            np.testing.assert_allclose(outputs[output], array, 1e-5, 1e-6, err_msg=output)

    rng = np.random.default_rng(1)
    weights = {output: rng.standard_normal(array.shape) for output, array in want.items()}
    loss = (y * torch.tensor(weights["y"])).sum()
    for state, stacked in zip("hc", lasts, strict=False):
        each = np.stack([weights[f"{state}_last{end}"] for end in ends])
        loss = loss + (stacked * torch.tensor(each)).sum()
    loss.backward()
    slopes = {"x": x.grad.numpy()}
    for names, state in zip([ns for ns in states if ns], given, strict=True):
        slopes |= dict(zip(names, state.grad.numpy(), strict=True))
    for end in ends:
        slopes |= grads(theirs, kind, end)
    got = gradients(layer, inputs, weights)
    assert got.keys() == slopes.keys()
    for name, array in slopes.items():
        np.testing.assert_allclose(got[name], array, 1e-5, 1e-6, err_msg=name)
