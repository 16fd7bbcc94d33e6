"""`rnncc check`: what it finds right, and that it finds what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.ir import SSAValue

from rnncc.cli import main
from rnncc.ir.builder import Builder
from rnncc.ir.ops.functions import Tanh
from tests.frontends.caffe2.nets import net, op
from tests.golden import GOLDEN

ROOT = Path(__file__).parents[2]
NET = [str(ROOT / "examples/lstm.pbtxt"), str(ROOT / "examples/lstm_init.pbtxt")]

Capture = pytest.CaptureFixture[str]


def checked(capsys: Capture, *words: str, status: int = 0) -> dict[tuple[str, str], Any]:
    """By what was compared and the name: the comparison."""
    assert main(["check", *words, "--json"]) == status
    report = json.loads(capsys.readouterr().out)
    assert report["failures"] == sum(not row["ok"] for row in report["comparisons"])
    return {(row["compared"], row["name"]): row for row in report["comparisons"]}


def test_a_line_for_each_output_and_gradient(capsys: Capture) -> None:
    rows = checked(capsys, *NET, "--for", "3,2")
    outputs = {"probabilities", "hidden_last", "cell_last"}
    weights = {f"{layer}_{kind}" for layer in ("i2h", "gates", "out") for kind in "wb"}
    grads = {"x", "h0", "c0", *weights}
    expected = {(f"{part}, interpreter", name) for part in ("run", "forward") for name in outputs}
    expected |= {("backward, interpreter", name) for name in grads}
    expected |= {("interpreter, differences", name) for name in grads}
    assert rows.keys() == expected
    assert all(0 <= row["error"] <= row["tolerance"] < 1e-3 for row in rows.values())


@pytest.mark.parametrize(
    "name",
    [pytest.param("basic_rnn_relu", marks=pytest.mark.shared), "attention_dot", "lstm_unrolled"],
)
def test_golden_nets(name: str, capsys: Capture) -> None:
    case = GOLDEN / "caffe2" / name
    assert main(["check", str(case / "net.pb"), str(case / "init.pb"), "--for", "N=2"]) == 0
    at = "N=2" if name == "lstm_unrolled" else "T=7, N=2"  # T stands in no shape of that net
    assert f"comparisons within their tolerance at {at}" in capsys.readouterr().out


def test_a_table_for_people(capsys: Capture) -> None:
    assert main(["check", *NET, "--for", "T=0,N=1", "--recompute", "none"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "24 of 24 comparisons within their tolerance at T=0, N=1"
    assert sum(line.endswith("yes") for line in lines) == 24


def test_numbers_that_must_fit_each_other_are_asked_for(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "parts.pb"
    path.write_bytes(net([op("LengthsSum", "x l", "y")], "x l", "y").SerializeToString())
    words = ["check", str(path), "--shape", "x=S,3", "--shape", "l=N"]
    assert main(words) == 2
    assert "l was drawn at random: --input gives numbers that fit" in capsys.readouterr().err
    given = tmp_path / "l.npy"
    np.save(given, np.array([2, 0, 3], np.int32))
    assert main([*words, "--for", "N=3,S=5", "-i", f"l={given}"]) == 0


def test_inputs_of_the_user(capsys: Capture) -> None:
    rows = checked(capsys, *NET, "-i", str(ROOT / "examples/lstm.npz"))
    assert len(rows) == 24


def test_a_wrong_gradient_is_found(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    right = Tanh.vjp

    def wrong(self: Tanh, b: Builder, dy: SSAValue) -> list[SSAValue | None]:
        (dx,) = right(self, b, dy)
        assert dx is not None
        return [b.mul(dx, b.fill(1.001, []))]

    monkeypatch.setattr(Tanh, "vjp", wrong)
    rows = checked(capsys, *NET, "--for", "3,2", status=1)
    assert all(row["ok"] for (compared, _), row in rows.items() if "differences" not in compared)
    found = {name for (_, name), row in rows.items() if not row["ok"]}
    assert {"x", "gates_w", "i2h_w"} <= found
    assert not {"out_w", "out_b"} & found


def test_wrong_code_is_found(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(Tanh, "evaluate", lambda _, context, x: np.tanh(x) * 1.001)
    assert main(["check", *NET, "--for", "3,2"]) == 1
    printed = capsys.readouterr().out.splitlines()
    rows = [line.split() for line in printed if line.endswith("NO")]
    assert {row[1] for row in rows if row[2] == "run,"} >= {"hidden_last", "cell_last"}
    assert {row[1] for row in rows if row[2] == "backward,"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none.pb"], "none.pb: No such file or directory"),
        ([*NET, "--for", "3,x"], "--for: 'x' is not a number from 0 up"),
        ([*NET, "--for", "S=3"], "--for: the net has no S (its sizes are T, N)"),
        ([*NET, "--init", NET[1]], "--init: the init net is given twice"),
        ([*NET, "-i", "none.npz"], "none.npz: No such file or directory"),
    ],
)
def test_bad_input(words: list[str], message: str, capsys: Capture) -> None:
    assert main(["check", *words]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("rnncc: error: ")
    assert message in told.err
    assert told.err.count("\n") == 1


def test_sizes_that_no_memory_holds(capsys: Capture) -> None:
    assert main(["check", *NET, "--for", f"{10**17}"]) == 1
    assert capsys.readouterr().err == "rnncc: error: out of memory\n"


def test_an_array_of_a_wrong_shape(tmp_path: Path, capsys: Capture) -> None:
    np.save(tmp_path / "x.npy", np.zeros((3, 64), np.float32))
    assert main(["check", *NET, "-i", f"x={tmp_path}/x.npy"]) == 2
    assert "x has shape [3, 64], expected [T, N, 64]" in capsys.readouterr().err
