"""What `rnncc netdef` says of wrong words and damaged nets: one line, status 2."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rnncc.cli import main
from rnncc.netdef import NetDef, save
from tests.golden import GOLDEN

ROOT = Path(__file__).parents[2]
NET = str(ROOT / "examples/lstm.pbtxt")
INIT = str(ROOT / "examples/lstm_init.pbtxt")
ARRAYS = str(ROOT / "examples/lstm.npz")

Capture = pytest.CaptureFixture[str]
Pipe = Callable[[bytes], None]

GRADIENT = str(GOLDEN / "caffe2/lstm/train.pb")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], ""),
        (["frobnicate"], "No such command 'frobnicate'"),
        (["show"], "Missing argument 'NET'"),
        (["show", "none.pb"], "none.pb: No such file or directory"),
        (["show", ARRAYS], "lstm.npz: is no net but arrays of NumPy"),
        (["show", NET, "-o", "/proc/none/x"], "/proc/none/x: No such file"),
        (["ssa", NET, "-o", "x.pb"], "--out: goes with --rewrite"),
        (["extract", NET], "Missing argument 'BLOB...'"),
        (["extract", NET, "nothing"], 'lstm.pbtxt: has no blob "nothing"'),
        (["rename", NET, "nothing", "x2"], 'lstm.pbtxt: has no blob "nothing"'),
        (["rename", NET, "i2h", "x"], 'lstm.pbtxt: the name "x" is taken'),
        (["rename", NET, "i2h", ""], "'' is no name for a blob"),
        (["rename", NET, "i2h", "a", "--op", "9"], "there is no operator 9: the net has 4"),
        (
            ["rename", NET, "i2h", "a", "--op", "3"],
            'op 3 (Softmax "probabilities"): does not write',
        ),
        (["rename", NET, "i2h", "a", "--init", INIT], "--init: goes with --init-out"),
        (["rename", GRADIENT, "rnn/i2h", "a"], "the gradient knows"),
        (["prune", NET, "--init-out", "x.pb"], "--init-out: goes with --init"),
        (
            ["prune", NET, "--init", INIT, "-o", "x.pb", "--init-out", "./x.pb"],
            "--init-out: is where the net itself goes",
        ),
        (
            ["prune", NET, "--init", INIT, "--init-out", "-"],
            "--init-out: is where the net itself goes",
        ),
        (["ssa", NET, "--json", "--rewrite"], "--json: goes without --rewrite"),
        (["draw", NET, "-o", "x.png"], "x.png: is no file for a picture: .svg"),
        (["split", NET, "--seed", "-5"], "-5 is not in the range x>=0"),
        (["prune", NET, "--init", ARRAYS], "lstm.npz: is no net but arrays of NumPy"),
        (["split", NET, "--init", NET], "is no fill operator"),
        (["split", NET, "--outputs", "nothing"], 'the output "nothing" is no input'),
        (["split", NET, "-o", NET], "lstm.pbtxt: File exists"),
        (["diff", NET], "Missing argument 'SECOND'"),
        (["diff", "-", "-"], "<stdin>: cannot be read twice"),
        (["draw", NET, "--layout", "frob"], "'frob' is not one of"),
    ],
)
def test_bad_input(words: list[str], message: str, capsys: Capture) -> None:
    assert main(["netdef", *words]) == 2
    if not words:
        assert "Usage:" in capsys.readouterr().out
        return
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("rnncc: error: ")
    assert message in told.err
    assert told.err.count("\n") == 1


@pytest.mark.parametrize("command", [["show"], ["ssa"], ["prune"], ["draw"], ["split"]])
@pytest.mark.parametrize("data", [b"", b"op { input: 3 }", b"\xff\x00", b"op {" * 200])
def test_damaged_input_in_a_pipe(
    command: list[str], data: bytes, pipe: Pipe, capsys: Capture, tmp_path: Path
) -> None:
    pipe(data)
    more = ["-o", str(tmp_path)] if command == ["split"] else []
    assert main(["netdef", *command, "-", *more]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("rnncc: error: <stdin>: ") and told.err.count("\n") == 1


def test_a_damaged_step_net(tmp_path: Path, capsys: Capture) -> None:
    net = NetDef()
    op = net.op.add(type="RecurrentNetwork", input=["x"], output=["y"])
    op.arg.add(name="step_net", s=b"op { what: 1 }")
    save(net, tmp_path / "net.pb")
    for command in ("show", "draw"):
        assert main(["netdef", command, str(tmp_path / "net.pb")]) == 2
        told = capsys.readouterr().err
        assert "net.pb: RecurrentNetwork \"y\": argument 'step_net': line 1" in told
