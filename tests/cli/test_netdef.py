"""`rnncc netdef`: every command, on files and in pipes."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import rnncc
from rnncc.cli import cli, main
from rnncc.commands.netdef.command import netdef
from rnncc.netdef import load, parameters, parse_text, save, ssa
from rnncc.netdef.diff import diff
from tests.golden import GOLDEN

ROOT = Path(__file__).parents[2]
NET = str(ROOT / "examples/lstm.pbtxt")
INIT = str(ROOT / "examples/lstm_init.pbtxt")
ARRAYS = str(ROOT / "examples/lstm.npz")

Capture = pytest.CaptureFixture[str]
BinaryCapture = pytest.CaptureFixture[bytes]
Pipe = Callable[[bytes], None]

SMALL = """
name: "small"
op { output: "w" type: "GivenTensorFill" arg { name: "shape" ints: 2 ints: 2 }
     arg { name: "values" floats: 1 floats: 2 floats: 3 floats: 4 } }
op { output: "b" type: "ConstantFill" arg { name: "shape" ints: 2 } arg { name: "value" f: 0.5 } }
op { output: "unread" type: "ConstantFill" arg { name: "shape" ints: 2 } }
op { output: "k" type: "ConstantFill" arg { name: "shape" ints: 2 } }
op { input: "x" input: "w" input: "b" output: "t" type: "FC" }
op { input: "t" output: "t" type: "Tanh" }
op { input: "k" input: "t" output: "k" type: "Add" }
op { input: "k" output: "y" type: "Relu" }
op { input: "t" output: "dead" type: "Sigmoid" }
external_input: "x" external_output: "y"
"""


@pytest.fixture
def small(tmp_path: Path) -> str:
    path = tmp_path / "small.pbtxt"
    path.write_text(SMALL)
    return str(path)


@pytest.mark.parametrize("command", list(netdef.commands))
def test_example_of_help_works(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    printed = CliRunner().invoke(cli, ["netdef", command, "--help"])
    assert printed.exit_code == 0
    example = shlex.split(printed.output.split("Example:")[1])
    assert example[:3] == ["rnncc", "netdef", command]
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    assert main(example[1:]) == 0, capsys.readouterr().err


def test_show_and_convert(tmp_path: Path, capsys: Capture) -> None:
    binary = tmp_path / "lstm.pb"
    assert main(["netdef", "show", NET, "-o", str(binary)]) == 0
    assert capsys.readouterr() == ("", "")
    assert binary.read_bytes()[:1] == b"\n"
    assert main(["netdef", "show", str(binary)]) == 0
    shown = capsys.readouterr().out
    assert diff(parse_text(shown, ""), load(NET)) == []
    assert main(["netdef", "show", NET]) == 0
    assert capsys.readouterr().out == shown


def test_show_does_not_depend_on_the_order_of_arguments(tmp_path: Path, capsys: Capture) -> None:
    """Nor on whether a step net is held as text."""
    path = GOLDEN / "caffe2/lstm/net.pb"
    net = load(path)
    for op in net.op:
        arguments = [type(arg).FromString(arg.SerializeToString()) for arg in op.arg]
        for arg in arguments:
            if arg.name == "step_net":
                arg.s = str(arg.n).encode()
                arg.ClearField("n")
        del op.arg[:]
        op.arg.extend(reversed(arguments))
    save(net, tmp_path / "other.pb")
    texts: list[str] = []
    for name in (path, tmp_path / "other.pb"):
        assert main(["netdef", "show", str(name)]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert net != load(path)


def test_ssa(small: str, capsys: Capture) -> None:
    assert main(["netdef", "ssa", small, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["operators"][5]["inputs"] == [["t", 1]]
    assert report["operators"][5]["outputs"] == [["t", 2]]
    assert report["last_versions"]["k"] == 2
    assert report["undefined"] == ["x"]
    assert main(["netdef", "ssa", small]) == 0
    printed = capsys.readouterr().out
    assert "x.0, w.1, b.1" in printed and "last version" in printed


def test_ssa_rewrite(small: str, tmp_path: Path) -> None:
    out = tmp_path / "once.pb"
    assert main(["netdef", "ssa", small, "--rewrite", "-o", str(out)]) == 0
    made = load(out)
    assert max(ssa(made)[1].values()) == 1
    assert diff(made, load(small)) == []


def test_extract(small: str, tmp_path: Path) -> None:
    out = tmp_path / "part.pbtxt"
    assert main(["netdef", "extract", small, "t", "-o", str(out)]) == 0
    assert out.read_text().startswith('name: "small"')
    made = load(out)
    assert [op.type for op in made.op] == ["GivenTensorFill", "ConstantFill", "FC", "Tanh"]
    assert list(made.external_output) == ["t"]


def test_prune(small: str, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "pruned.pb"
    assert main(["netdef", "prune", small, "-o", str(out)]) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert 'op 8 (Sigmoid "dead"): no external output depends on it' in told.err
    assert told.err.endswith("2 of 9 operators went\n")
    assert [op.type for op in load(out).op] == [
        *("GivenTensorFill", "ConstantFill", "ConstantFill"),
        *("FC", "Tanh", "Add", "Relu"),
    ]


def test_prune_leaves_out_parameters_that_nothing_reads(tmp_path: Path) -> None:
    net, init = tmp_path / "net.pbtxt", tmp_path / "init.pbtxt"
    net.write_text(
        """op { input: "x" input: "v" output: "dead" type: "Mul" }
        op { input: "x" output: "positive" type: "Relu" }
        op { input: "positive" input: "shape" output: "flat" output: "old" type: "Reshape" }
        op { input: "flat" input: "w" input: "b" output: "y" type: "FC" }
        external_input: "x" external_input: "v" external_input: "shape" external_input: "w"
        external_input: "b" external_output: "y" """
    )
    fills = [
        'output: "v" type: "ConstantFill" arg { name: "shape" ints: 3 }',
        'output: "shape" type: "GivenTensorInt64Fill" arg { name: "shape" ints: 2 }'
        ' arg { name: "values" ints: 0 ints: -1 }',
        'output: "w" type: "XavierFill" arg { name: "shape" ints: 2 ints: 3 }',
        'output: "b" type: "ConstantFill" arg { name: "shape" ints: 2 }',
    ]
    init.write_text("\n".join(f"op {{ {fill} }}" for fill in fills))
    outs = [str(tmp_path / "a.pb"), str(tmp_path / "b.pb")]
    words = ["--init", str(init), "--init-out", outs[1], "-o", outs[0]]
    assert main(["netdef", "prune", str(net), *words]) == 0
    assert [op.type for op in load(outs[0]).op] == ["Relu", "FC"]
    assert list(load(outs[0]).external_input) == ["x", "w", "b"]
    assert [op.output[0] for op in load(outs[1]).op] == ["w", "b"]
    shapes = {"x": "N,3"}
    before = rnncc.compile(net, init, name="a", shapes=shapes)
    after = rnncc.compile(outs[0], outs[1], name="b", shapes=shapes)
    x = np.random.default_rng(0).standard_normal((4, 3), np.float32)
    np.testing.assert_array_equal(before.run({"x": x})["y"], after.run({"x": x})["y"])


def test_rename_everywhere(tmp_path: Path, capsys: Capture) -> None:
    # arrays, because a random fill depends on its blob's name
    assert main(["netdef", "split", NET, "--init", INIT, "-o", str(tmp_path)]) == 0
    filled = str(tmp_path / "init_net.pb")
    outs = [str(tmp_path / "net.pb"), str(tmp_path / "init.pb")]
    words = ["--init", filled, "--init-out", outs[1], "-o", outs[0]]
    assert main(["netdef", "rename", NET, "gates_w", "recurrent", *words]) == 0
    assert capsys.readouterr() == ("", "")
    made, init = load(outs[0]), load(outs[1])
    assert "gates_w" not in str(made) + str(init)
    assert "recurrent" in made.external_input
    assert "recurrent" in parameters(init)
    step = next(arg.n for arg in made.op[1].arg if arg.name == "step_net")
    assert "recurrent" in [name for op in step.op for name in op.input]
    arrays = dict(np.load(ARRAYS))
    before, after = rnncc.compile(NET, filled), rnncc.compile(outs[0], outs[1])
    for name, array in before.run(arrays).items():
        np.testing.assert_array_equal(array, after.run(arrays)[name])


def test_rename_there_and_back(small: str, tmp_path: Path) -> None:
    out = str(tmp_path / "out.pb")
    for name in ("t", "k", "x", "y", "w"):
        assert main(["netdef", "rename", small, name, "other", "-o", out]) == 0
        assert name not in {n for op in load(out).op for n in (*op.input, *op.output)}
        assert main(["netdef", "rename", out, "other", name, "-o", out]) == 0
        assert load(out) == load(small)


def test_rename_one_version(small: str, tmp_path: Path) -> None:
    out = str(tmp_path / "out.pb")
    assert main(["netdef", "rename", small, "t", "u", "--op", "5", "-o", out]) == 0
    made = load(out)
    assert (list(made.op[5].input), list(made.op[5].output)) == (["t"], ["u"])
    assert list(made.op[6].input) == ["k", "u"]
    assert diff(made, load(small)) == []


def test_both_nets_or_none_are_written(tmp_path: Path, capsys: Capture) -> None:
    """The net was in place, with the old net of parameters beside it."""
    net, init = tmp_path / "net.pbtxt", tmp_path / "none/init.pb"
    net.write_bytes(Path(NET).read_bytes())
    words = ["rename", str(net), "i2h_w", "w", "--init", INIT, "-o", str(net)]
    assert main(["netdef", *words, "--init-out", str(init)]) == 2
    assert "none/init.pb: No such file" in capsys.readouterr().err
    assert net.read_bytes() == Path(NET).read_bytes()


def test_split_of_one_net(small: str, tmp_path: Path) -> None:
    folder = tmp_path / "nets"
    assert main(["netdef", "split", small, "-o", str(folder)]) == 0
    init, predict = load(folder / "init_net.pb"), load(folder / "predict_net.pb")
    # k is written again: it starts anew in every run, so that its fill stays
    assert sorted(parameters(init)) == ["b", "w"]
    assert [op.type for op in predict.op][:2] == ["ConstantFill", "FC"]
    assert set(predict.external_input) == {"x", "w", "b"}
    x = np.random.default_rng(0).standard_normal((3, 2), np.float32)
    whole = rnncc.compile(small, name="whole").run({"x": x})["y"]
    parts = rnncc.compile(folder / "predict_net.pb", folder / "init_net.pb").run({"x": x})["y"]
    np.testing.assert_array_equal(whole, parts)


def test_split_with_an_init_net(tmp_path: Path) -> None:
    words = ["--init", INIT, "--outputs", "logits", "--text", "-o", str(tmp_path)]
    assert main(["netdef", "split", NET, *words]) == 0
    init, predict = load(tmp_path / "init_net.pbtxt"), load(tmp_path / "predict_net.pbtxt")
    assert list(predict.external_output) == ["logits"]
    expected = parameters(load(INIT))
    for name, array in parameters(init).items():
        np.testing.assert_array_equal(array, expected[name])
    assert main(["netdef", "split", NET, "--init", INIT, "--seed", "1", "-o", str(tmp_path)]) == 0
    other = parameters(load(tmp_path / "init_net.pb"))
    assert not np.array_equal(other["out_w"], expected["out_w"])


def test_diff(small: str, tmp_path: Path, capsys: Capture) -> None:
    other = tmp_path / "other.pb"
    net = load(small)
    net.op[7].type = "Sigmoid"
    save(net, other)
    assert main(["netdef", "diff", small, small]) == 0
    assert capsys.readouterr().out == "no difference\n"
    assert main(["netdef", "diff", small, str(other)]) == 1
    told = capsys.readouterr()
    assert 'op 7 (Relu "y") is in the first net only\n' in told.out
    assert told.err == ""
    assert main(["netdef", "diff", small, str(other), "--json"]) == 1
    assert len(json.loads(capsys.readouterr().out)["differences"]) == 2


def test_draw(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "lstm.svg"
    assert main(["netdef", "draw", NET, "--layout", "own", "-o", str(out)]) == 0
    assert capsys.readouterr() == ("", "")
    assert main(["netdef", "draw", NET, "--layout", "own"]) == 0
    drawn = capsys.readouterr().out
    assert drawn == out.read_text(encoding="utf-8")
    assert "RecurrentNetwork" in drawn and "LSTMUnit" in drawn and "char_lstm" in drawn


def test_draw_with_an_init_net(tmp_path: Path, capsys: Capture) -> None:
    path, init = tmp_path / "net.pbtxt", tmp_path / "init.pbtxt"
    path.write_text('op { input: "x" input: "scale" output: "y" type: "Mul" }')
    init.write_text('op { output: "scale" type: "ConstantFill" arg { name: "shape" ints: 1 } }')
    counts: list[int] = []
    for words in ([], ["--init", str(init)]):
        assert main(["netdef", "draw", str(path), *words]) == 0
        counts.append(capsys.readouterr().out.count('<rect class="input"'))
    assert counts == [2, 1]


def test_pipes(small: str, pipe: Pipe, capsysbinary: BinaryCapture) -> None:
    """What one command writes the next one reads; a net in a pipe is binary."""
    assert main(["netdef", "rename", small, "t", "u"]) == 0
    renamed = capsysbinary.readouterr().out
    assert b"type:" not in renamed
    pipe(renamed)
    assert main(["netdef", "extract", "-", "u", "-o", "-"]) == 0
    cut = capsysbinary.readouterr().out
    assert [op.type for op in load(cut).op] == ["GivenTensorFill", "ConstantFill", "FC", "Tanh"]
    pipe(cut)
    assert main(["netdef", "show", "-"]) == 0
    text = capsysbinary.readouterr().out
    assert text.startswith(b'name: "small"')
    pipe(text)
    assert main(["netdef", "prune", "-", "--text"]) == 0
    assert b"type:" in capsysbinary.readouterr().out
    pipe(text)
    assert main(["netdef", "diff", "-", small]) == 1
    assert b"only" in capsysbinary.readouterr().out
    pipe(text)
    assert main(["netdef", "draw", "-"]) == 0
    assert capsysbinary.readouterr().out.startswith(b"<svg")


def test_a_real_pipe(small: str) -> None:
    rnncc_ = f"{shlex.quote(sys.executable)} -m rnncc netdef"
    line = f"{rnncc_} ssa --rewrite {shlex.quote(small)} | {rnncc_} show - | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, cwd=ROOT
    )
    assert done.stdout == 'name: "small"\n'
    assert done.stderr == ""


def test_text_on_a_terminal(small: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["netdef", "extract", small, "t"]) == 0
    assert capsys.readouterr().out.startswith('name: "small"')
