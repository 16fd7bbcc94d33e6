"""The JavaScript module of a net: runs and streams in node give the bits of x86-64 without FMA."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rnncc
from rnncc.driver.remote.runners import NEWER, validates
from rnncc.errors import CompileError
from rnncc.packaging.linkers import find_linker

NODE = shutil.which("node")
PROGRAM = """
import { readFileSync } from "node:fs";
import { inputs, load } from "./net.js";

const given = JSON.parse(readFileSync("given.json"));
const arrays = Object.fromEntries(inputs.filter((port) => port.name in given)
  .map((port) => [port.name, port.array.from(given[port.name])]));
const net = await load(readFileSync("net.wasm"));
const whole = net.run(arrays, { N: 2 });
const again = net.run(arrays, { N: 2 });
const { x, ...begin } = arrays;
const stream = net.stream({ N: 2 }, begin);
const width = x.length / 6, pieces = [];
for (let t = 0; t < 6; t += t ? 2 : 1) {
  const piece = stream.step({ x: x.subarray(t * width, Math.min(t + (t ? 2 : 1), 6) * width) });
  pieces.push(...piece[process.argv[2]]);
}
stream.reset();
const first = Array.from(stream.step({ x: x.subarray(0, width) })[process.argv[2]]);
let refused = "";
try {
  net.run({ ...arrays, x: x.subarray(1) }, { T: 6, N: 2 });
} catch (error) {
  refused = error.message;
}
const plain = (outputs) => Object.fromEntries(Object.entries(outputs).map(([k, a]) => [k, [...a]]));
console.log(JSON.stringify({ whole: plain(whole), again: plain(again), pieces, first, refused }));
"""


@pytest.fixture
def linker() -> None:
    try:
        find_linker("wasm32-unknown-unknown")
    except CompileError as error:
        pytest.skip(str(error))


@pytest.mark.skipif(NODE is None, reason="no node here")
@pytest.mark.parametrize("target", ["wasm32", "wasm64"])
def test_runs_and_streams(tmp_path: Path, linker: None, target: str) -> None:
    newer = NEWER.get(target)
    if newer is not None and not validates(str(NODE), newer.module):
        pytest.skip(f"this node lacks {newer.title}: {newer.node}")
    net = rnncc.cells.lstm(3, 5, layers=2)
    made = rnncc.build(net, out=tmp_path, name="net", target=target)
    assert made.library is not None and made.module is not None and made.types is not None
    model = rnncc.compile(net, name="net", cpu="x86-64-v2")
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {}
    for name, spec in model.inputs.items():
        shape = [size.evaluate({"T": 6, "N": 2}) for size in spec.sizes]
        drawn = rng.standard_normal(shape)
        arrays[name] = drawn.astype(spec.dtype) if spec.dtype.kind == "f" else None
        if arrays[name] is None:
            arrays[name] = np.full(shape, 6, spec.dtype)
    x = next(name for name, spec in model.inputs.items() if len(spec.sizes) == 3 and name == "x")
    want = model.run(arrays)
    output = next(name for name, spec in model.outputs.items() if spec.sizes[0].text == "T")
    given = {name: array.ravel().tolist() for name, array in arrays.items()}
    (tmp_path / "given.json").write_text(json.dumps(given))
    (tmp_path / "main.mjs").write_text(PROGRAM)
    command = [str(NODE), "main.mjs", output]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    for name in want:
        np.testing.assert_array_equal(told["whole"][name], want[name].ravel())
    assert told["again"] == told["whole"]
    np.testing.assert_array_equal(told["pieces"], want[output].ravel())
    np.testing.assert_array_equal(told["first"], want[output][0].ravel())
    assert f"{x} has {arrays[x].size - 1} elements, not {arrays[x].size}" in told["refused"]


def test_a_net_for_training_has_no_module(tmp_path: Path, linker: None) -> None:
    with pytest.raises(CompileError, match="no JavaScript module of a net for training"):
        rnncc.build(rnncc.cells.lstm(3, 5), out=tmp_path, name="net", target="wasm32", train=True)
