"""Convolutions, whose products read windows: one sum for each, in the order of the CPU's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rnncc
from tests.frontends.onnx.models import graph, imported, info, model, node
from tests.gpu.device_net import DeviceNet, library_of
from tests.gpu.nets import SHAPES, check, quiet_emulator

__all__ = ["quiet_emulator"]

CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    # channels in fours, so that tiles read fours of k; and not
    "many places": ((1, 16, 16, 12), (20, 16, 3, 3), {"pads": [1, 1, 1, 1]}),
    "odd channels": ((2, 11, 9, 7), (3, 11, 3, 3), {"strides": [2, 1]}),
    "few places": ((1, 32, 4, 4), (5, 32, 3, 3), {}),
    "dilated": ((1, 12, 40), (9, 12, 9), {"dilations": [3]}),
    "groups": ((1, 64, 8, 8), (64, 32, 3, 3), {"group": 2, "pads": [1, 1, 1, 1]}),
    "volumes": ((1, 8, 5, 6, 7), (4, 8, 2, 2, 3), {}),
}
"""Shapes of x and of the weights, and attributes."""


@pytest.mark.parametrize("shape", SHAPES[:2], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_bits(case: str, shape: tuple[int, int]) -> None:
    x, w, attributes = CASES[case]
    rng = np.random.default_rng(5)
    weights = rng.standard_normal(w, np.float32)
    made = model(
        [node("Conv", "x w", "y", **attributes)],
        [info("x", [*x[:2], *"HWD"[: len(x) - 2]])],
        [info("y", None)],
        {"w": weights},
    )
    _hold(
        made,
        {"x": rng.standard_normal(x, np.float32)},
        dict(zip("HWD", x[2:], strict=False)),
        shape,
    )


def test_a_convolution_in_a_loop() -> None:
    rng = np.random.default_rng(6)
    weights = rng.standard_normal((12, 12, 3, 3), np.float32) / 10
    step = graph(
        [
            node("Conv", "h w", "z", pads=[1, 1, 1, 1]),
            node("Add", "z x", "s"),
            node("Tanh", "s", "n"),
            node("Identity", "n", "out"),
        ],
        [info("h", [1, 12, 6, 5]), info("x", [1, 12, 6, 5])],
        [info("n", None), info("out", None)],
    )
    made = model(
        [node("Scan", "h0 xs", "last ys", num_scan_inputs=1, body=step)],
        [info("h0", [1, 12, 6, 5]), info("xs", ["T", 1, 12, 6, 5])],
        [info("last", None), info("ys", None)],
        {"w": weights},
    )
    xs, start = (rng.standard_normal(s, np.float32) for s in ((4, 1, 12, 6, 5), (1, 12, 6, 5)))
    _hold(made, {"h0": start, "xs": xs}, {"T": 4}, SHAPES[0])


def _hold(made: Any, inputs: Any, sizes: dict[str, int], shape: tuple[int, int]) -> None:
    program = imported(made, name="net")
    library = library_of(program.copy())
    got = DeviceNet(library, *shape).run(inputs, sizes)
    check(library, got, rnncc.compile(made).run(inputs))
