"""Programs of torch.export as files: compiled by the command line as nets of any other kind."""

from __future__ import annotations

import io
import json
import os
import pickle
import random
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rnncc_runtime
from click.testing import CliRunner

import rnncc
from rnncc import CompileError
from rnncc.cli import cli
from rnncc.ir import interpreter
from tests.torch.cells import nn, torch

rt: Any = pytest.importorskip("rnncc.torch")
reading: Any = pytest.importorskip("rnncc.frontends.torch.programs.files")
pytestmark = pytest.mark.peers
N, T = (torch.export.Dim(name) for name in "NT")


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 6, batch_first=True)
        self.tags = nn.Linear(6, 3)

    def forward(self, x: Any) -> Any:
        return self.tags(self.lstm(x)[0])


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A file, and the module in it."""
    torch.manual_seed(0)
    module, file = Tagger(), tmp_path_factory.mktemp("exported") / "tagger.pt2"
    exported = rt.export(module, (torch.zeros(2, 5, 4),), dynamic_shapes=({0: N, 1: T},))
    torch.export.save(exported, file)
    return file, module


def run(*command: object) -> Any:
    return CliRunner().invoke(cli, list(map(str, command)), catch_exceptions=False)


@pytest.mark.parametrize("name", ["tagger.pt2", "tagger", "tagger.zip"])
def test_a_file_becomes_a_library(tagger: Any, tmp_path: Path, name: str) -> None:
    """By its suffix or by what it holds; the library knows the sizes by the user's names."""
    source = tmp_path / name
    source.write_bytes(tagger[0].read_bytes())
    made = run("compile", source, "--shape", "x=N,T,4", "--name", "tagger", "-o", tmp_path)
    assert made.exit_code == 0, made.output
    model = rnncc_runtime.load(tmp_path / "libtagger.so")
    assert model.inputs["x"].shape == ("N", "T", 4)
    x = torch.randn(3, 7, 4)
    want = tagger[1](x).detach().numpy()
    np.testing.assert_allclose(model.run({"x": x.numpy()})["y"], want, rtol=1e-4, atol=1e-5)


def test_commands(tagger: Any) -> None:
    file = tagger[0]
    told = json.loads(run("inspect", "--json", file, "--shape", "x=N,T,4").output)
    assert [op["type"] for op in told["operators"]][-1] == "linear.default"
    assert told["inputs"] == [{"name": "x", "dtype": "f32", "shape": ["N", "T", 4]}]
    assert run("check", file, "--shape", "x=N,T,4").exit_code == 0
    assert "workspace" in run("plan", file).output


def test_from_python(tagger: Any) -> None:
    x = np.ones((2, 3, 4), np.float32)
    exported = torch.export.load(tagger[0])
    sources = [tagger[0], tagger[0].read_bytes(), exported]
    models = [rnncc.compile(source, shapes={"x": "N,T,4"}) for source in sources]
    outputs = [model.run({"x": x})["y"] for model in models]
    assert all(np.array_equal(outputs[0], y) for y in outputs)
    trained = rnncc.compile(tagger[0], train=True)
    assert set(trained.parameters) == {name for name, _ in tagger[1].named_parameters()}


class First(nn.Module):
    """What a layer gives at each step."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Any) -> Any:
        return self.layer(x)[0]


@pytest.mark.parametrize(
    "layer", [lambda: nn.LSTM(4, 3, 2, batch_first=True, bidirectional=True), lambda: nn.GRU(4, 3)]
)
def test_layers_that_pytorch_exported(layer: Any) -> None:
    """PyTorch takes nn.LSTM apart into the call of a library."""
    torch.manual_seed(0)
    module, x, file = First(layer()).eval(), torch.randn(5, 2, 4), io.BytesIO()
    torch.export.save(torch.export.export(module, (x,)), file)
    program = reading.import_file(file.getvalue(), "layers", {})
    y = interpreter.run(program, {"x": x.numpy()})["y"]
    np.testing.assert_allclose(y, module(x).detach().numpy(), rtol=1e-4, atol=1e-5)
    assert "rnn.scan" in str(program)


class Changing(nn.Module):
    """Views that are changed in a loop, also by way of a detached tensor."""

    def __init__(self, hidden: bool) -> None:
        super().__init__()
        self.linear, self.hidden = nn.Linear(4, 4), hidden

    def forward(self, x: Any) -> Any:
        h, out = x[:, 0] * 1, torch.zeros_like(x)
        for t in range(x.shape[1]):
            h = torch.tanh(self.linear(h)) + x[:, t]
            (h.detach() if self.hidden else h)[:, -1].add_(1.0)
            out[:, t] = h
        return out


@pytest.mark.parametrize("hidden", [False, True])
def test_changes_of_views_in_a_file(hidden: bool) -> None:
    """A file does not say which tensors share memory."""
    torch.manual_seed(0)
    module, x, file = Changing(hidden), torch.randn(2, 4, 4), io.BytesIO()
    exported = torch.export.export(module, (x,))
    torch.export.save(exported, file)
    if hidden:
        for source in (exported, file.getvalue()):
            with pytest.raises(CompileError, match="by way of its detached self"):
                rnncc.compile(source)
        return
    y = rnncc.compile(file.getvalue()).run({"x": x.numpy()})["y"]
    np.testing.assert_allclose(y, module(x).detach().numpy(), rtol=1e-4, atol=1e-5)


class Spike(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return (x > 0).float()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return 3 * grad


class Spiking(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return Spike.apply(self.linear(x))


OTHER = """
import sys, rnncc
print(rnncc.compile(sys.argv[1], train=True).parameters.keys())

import torch, rnncc.torch
made = rnncc.torch.elementwise(lambda x: x - 7)
class Applied(torch.nn.Module):
    def forward(self, x):
        return made(x)
torch.export.save(rnncc.torch.export(Applied(), (torch.zeros(2, 4),)), sys.argv[2])
"""


def test_operators_of_ours_in_files(tmp_path: Path) -> None:
    """Another process, that has not imported `rnncc.torch`, reads one; then it writes one, whose
    functions of numbers are not the ones known here."""
    files = tmp_path / "spiking.pt2", tmp_path / "applied.pt2"
    torch.export.save(rt.export(Spiking(), (torch.zeros(2, 4),)), files[0])
    told = subprocess.run(
        [sys.executable, "-c", OTHER, *map(str, files)], check=True, text=True, capture_output=True
    )
    assert "linear.weight" in told.stdout
    rt.elementwise(lambda x: x + 1)
    with pytest.raises(CompileError, match="a function of numbers in Python"):
        rnncc.compile(files[1])


SHAPES = {
    "z=N,T,4": r"no input z \(there is x\)",
    "x=N,T": "input x: has 3 axes, not 2",
    "x=N,T,5": "a size was exported as 4",
    "x=N,7,4": "was exported open, and 7 is no name",
    "x=N,2*T,4": "is no name",
    "x=N,N,4": "one name is given to several sizes",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_that_do_not_fit(tagger: Any, shape: str) -> None:
    name, _, text = shape.partition("=")
    with pytest.raises(CompileError, match=SHAPES[shape]):
        rnncc.compile(tagger[0], shapes={name: text})


def test_damaged_files(tagger: Any, caplog: Any) -> None:
    whole, rng = tagger[0].read_bytes(), random.Random(0)
    for _ in range(40):
        damaged = bytearray(whole)
        if rng.random() < 0.5:
            del damaged[rng.randrange(4, len(whole)) :]
        else:
            for _ in range(rng.randrange(1, 30)):
                damaged[rng.randrange(4, len(whole))] = rng.randrange(256)
        try:
            rnncc.compile(bytes(damaged))
        except CompileError as error:
            assert "\n" not in str(error)
            assert "warnings above" not in str(error)
    assert not caplog.records


def archive(**entries: bytes) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in entries.items():
            file.writestr(name, content)
    return held.getvalue()


def test_other_archives(tmp_path: Path) -> None:
    torch.save(Tagger().state_dict(), tmp_path / "weights.pt")
    for other in (archive(a=b"1"), (tmp_path / "weights.pt").read_bytes()):
        with pytest.raises(CompileError, match=r"no program of torch\.export\.save"):
            rnncc.compile(other)
    large = archive(archive_format=b"pt2", zeros=bytes(1 << 22))
    with pytest.raises(CompileError, match=r"holds more than 1000000 bytes"):
        rnncc.compile(large, max_input=1_000_000)


class Executed:
    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.file),)


def test_code_in_a_file_is_not_run(tagger: Any, tmp_path: Path) -> None:
    """Neither in place of example inputs nor of weights."""
    mark = tmp_path / "executed"
    hostile = pickle.dumps(Executed(mark))
    for wanted in ("sample_inputs", "weight_0"):
        with zipfile.ZipFile(tagger[0]) as file:
            entries = {e.filename: file.read(e.filename) for e in file.infolist()}
        for name in entries:
            if wanted in name:
                entries[name] = hostile
            if name.endswith("weights_config.json"):
                entries[name] = entries[name].replace(b'"use_pickle": false', b'"use_pickle": true')
        try:
            rnncc.compile(archive(**entries))
        except CompileError as error:
            assert "\n" not in str(error)
        assert not mark.exists()
