"""The command line of training."""

from __future__ import annotations

from pathlib import Path

import pytest
import rnncc_runtime

from rnncc.cli import main

ROOT = Path(__file__).parents[2]
NET = [str(ROOT / "examples/lstm.pbtxt"), "--init", str(ROOT / "examples/lstm_init.pbtxt")]

Capture = pytest.CaptureFixture[str]


def test_compile(tmp_path: Path, capsys: Capture) -> None:
    tapes: list[str] = []
    for rule in ("none", "all"):
        words = ["--train", "--recompute", rule, "--name", rule, "-v"]
        assert main(["compile", *NET, *words, "-o", str(tmp_path)]) == 0
        model = rnncc_runtime.load(tmp_path / f"lib{rule}.so", train=True)
        tapes.append(model.metadata["tape"])
        told = capsys.readouterr()
        assert told.out == ""
        assert f"tape       {tapes[-1]} bytes\n" in told.err
        assert f"int {rule}_backward(" in (tmp_path / f"{rule}.h").read_text()
    assert tapes[0] != tapes[1]


def test_outputs_with_grads(tmp_path: Path) -> None:
    words = ["--train", "--outputs-with-grads", "probabilities, cell_last", "--products", "so,h"]
    assert main(["compile", *NET, *words, "-o", str(tmp_path)]) == 0
    metadata = rnncc_runtime.load(tmp_path / "liblstm.so", train=True).metadata
    assert [entry["name"] for entry in metadata["output_grads"]] == ["probabilities", "cell_last"]


@pytest.mark.parametrize(
    ("kind", "holds"), [("rnn", "rnn.net"), ("kern", "kern.func"), ("llvm", "lstm_backward(")]
)
def test_emit_shows_both_halves(kind: str, holds: str, capsys: Capture) -> None:
    assert main(["compile", *NET, "--train", "--emit", kind]) == 0
    printed = capsys.readouterr().out
    assert printed.count(holds) >= (1 if kind == "llvm" else 2)
    assert "grad:gates_w" in printed or kind == "llvm"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--recompute", "all"], "recompute goes with train"),
        (["--outputs-with-grads", "probabilities"], "outputs_with_grads goes with train"),
        (["--train", "--outputs-with-grads", "y"], "no output 'y' to differentiate; there are"),
    ],
)
def test_bad_input(words: list[str], message: str, capsys: Capture) -> None:
    assert main(["compile", *NET, *words]) == 2
    told = capsys.readouterr().err
    assert told.startswith("rnncc: error: ")
    assert message in told
    assert told.count("\n") == 1


def test_a_library_for_training_is_not_run(tmp_path: Path, capsys: Capture) -> None:
    assert main(["compile", *NET, "--train", "--products", "so", "-o", str(tmp_path)]) == 0
    assert main(["run", str(tmp_path / "liblstm.so")]) == 2
    assert "liblstm.so: is a library for training, which" in capsys.readouterr().err
