"""Every command on the example net, and its errors: one line, status 2."""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import rnncc_runtime
from click.testing import CliRunner

import rnncc
from rnncc.cli import cli, main
from rnncc.commands import demo
from rnncc.commands.charnet import char_lstm
from rnncc.commands.demo import CHARACTERS, UNITS
from rnncc.netdef import parameters
from rnncc.packaging.compiled import OBJECT_PRODUCTS

ROOT = Path(__file__).parents[2]
NET = str(ROOT / "examples/lstm.pbtxt")
INIT = ["--init", str(ROOT / "examples/lstm_init.pbtxt")]
ARRAYS = str(ROOT / "examples/lstm.npz")
DIGITS = "9" * 5000  # more than Python makes a number of
ONNX = str(ROOT / "examples/onnx/gru.onnx")
OUTPUTS = {"probabilities", "hidden_last", "cell_last"}

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds every product of the example net."""
    folder = tmp_path_factory.mktemp("lstm") / "build"
    products = ["--products", ",".join(OBJECT_PRODUCTS)]
    assert main(["compile", NET, *INIT, "-o", str(folder), *products]) == 0
    return folder


def test_example_files_are_those_of_their_script(tmp_path: Path) -> None:
    script = tmp_path / "make_lstm.py"
    script.write_text((ROOT / "examples/make_lstm.py").read_text())
    subprocess.run([sys.executable, script], check=True)
    for name in ("lstm.pbtxt", "lstm_init.pbtxt"):
        assert (tmp_path / name).read_bytes() == (ROOT / "examples" / name).read_bytes()
    # releases of Python differ in what the headers of a zip file say
    made, kept = (np.load(folder / "lstm.npz") for folder in (tmp_path, ROOT / "examples"))
    assert {n: a.tobytes() for n, a in made.items()} == {n: a.tobytes() for n, a in kept.items()}


@pytest.mark.parametrize("command", [name for name in cli.commands if name != "demo"])
def test_example_of_help_works(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    printed = CliRunner().invoke(cli, [command, "--help"]).output
    example = shlex.split(printed.split("Example:")[1])
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    assert example[0] == "rnncc"
    assert main(example[1:]) == 0, capsys.readouterr().err


def test_names_of_system_libraries_are_refused(tmp_path: Path, capsys: Capture) -> None:
    """Whether the user gives them or the file has them."""
    (tmp_path / "c.pbtxt").write_text(Path(NET).read_text())
    for net, name in ((NET, ["--name", "m"]), (str(tmp_path / "c.pbtxt"), [])):
        assert main(["compile", net, *INIT, "-o", str(tmp_path / "out"), *name]) == 2
        library = "libm.so" if name else "libc.so"
        error = capsys.readouterr().err
        assert f"{library} would be taken for the system's file of that name" in error
        assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_compile_writes_the_products(folder: Path) -> None:
    written = {path.name for path in folder.iterdir()}
    expected = {"liblstm.so", "lstm.h", "lstm.py", "lstm.o", "liblstm.a", "lstm.pc"}
    wheels = {name for name in written if name.endswith(".whl")}
    assert written == {*expected, "lstmConfig.cmake", *wheels} and len(wheels) == 1


def test_compile_is_quiet_in_a_pipe(tmp_path: Path, capsys: Capture) -> None:
    assert main(["compile", NET, *INIT, "-o", str(tmp_path)]) == 0
    assert capsys.readouterr() == ("", "")
    assert main(["compile", NET, *INIT, "-o", str(tmp_path), "-v"]) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert "liblstm.so" in told.err and "workspace" in told.err


def test_name_and_shape(tmp_path: Path) -> None:
    shape = ["--shape", "x=TIME,3,64"]
    assert main(["compile", NET, *INIT, "--name", "net2", *shape, "-o", str(tmp_path)]) == 0
    model = rnncc_runtime.load(tmp_path / "libnet2.so")
    assert model.inputs["x"].shape == ("TIME", 3, 64)


@pytest.mark.parametrize("of_library", [True, False])
def test_run(folder: Path, tmp_path: Path, of_library: bool) -> None:
    source = [str(folder / "liblstm.so")] if of_library else [NET, *INIT]
    out = tmp_path / "y.npz"
    assert main(["run", *source, "-i", ARRAYS, "-o", str(out)]) == 0
    with np.load(out) as arrays:
        assert set(arrays.files) == OUTPUTS
        assert arrays["probabilities"].shape == (12, 1, 64)
        np.testing.assert_allclose(arrays["probabilities"].sum(-1), 1, atol=1e-5)


def test_run_from_single_arrays(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    words: list[str] = []
    with np.load(ARRAYS) as arrays:
        for name in arrays.files:
            np.save(tmp_path / f"{name}.npy", arrays[name])
            words += ["-i", f"{name}={tmp_path / name}.npy"]
    assert main(["run", str(folder / "liblstm.so"), *words]) == 0
    assert "probabilities" in capsys.readouterr().out
    words[1] = words[1].removeprefix("x=")
    assert main(["run", str(folder / "liblstm.so"), *words]) == 0


def test_inspect(capsys: Capture) -> None:
    assert main(["inspect", NET, *INIT, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [op["type"] for op in report["operators"]] == ["FC", "RecurrentNetwork", "FC", "Softmax"]
    step = report["operators"][1]["operators"]
    assert [op["type"] for op in step] == ["FC", "Sum", "LSTMUnit"]
    assert report["inputs"][0] == {"name": "x", "dtype": "f32", "shape": ["T", "N", 64]}
    assert report["symbols"] == ["T", "N"]
    assert {"name": "i2h", "role": "temporary", "last_version": 1} in report["blobs"]
    assert main(["inspect", NET]) == 0
    assert "no shapes:" in capsys.readouterr().out


def test_plan(capsys: Capture) -> None:
    """The JSON has the keys that docs/planning.md names."""
    assert main(["plan", NET, *INIT, "--plan-for", "7, 3", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    groups = {"programs", "shared", "checkpoints"}
    assert report.keys() == {"name", "sizes", "workspace", "peak", *groups}
    assert report["sizes"] == {"T": 7, "N": 3}
    told = (ROOT / "docs/planning.md").read_text()
    for program in report["programs"]:
        assert 1 <= program["ratio"] <= 1.05
        for key in (*program, *program["buffers"][0], *program["kernels"][0]):
            assert f"`{key}`" in told
    assert main(["plan", NET, *INIT, "--plan-for", "N=3,T=7"]) == 0
    printed = capsys.readouterr().out
    for program in report["programs"]:
        assert f"workspace: {program['workspace']} bytes" in printed
        assert f"peak at T=7, N=3: {program['peak']} bytes" in printed
    assert all(row["name"] in printed for row in report["programs"][0]["buffers"])


def test_plan_of_training(capsys: Capture) -> None:
    tapes: list[int] = []
    for recompute in ("none", "all"):
        words = ["--train", "--recompute", recompute, "--plan-for", "20,3"]
        assert main(["plan", NET, *INIT, *words, "--json"]) == 0
        report = json.loads(capsys.readouterr().out)
        assert [program["title"] for program in report["programs"]] == ["forward", "backward"]
        assert all(1 <= program["ratio"] <= 1.05 for program in report["programs"])
        assert report["peak"] >= max(program["peak"] for program in report["programs"])
        (tape,) = report["shared"]
        saved = {slot["name"] for slot in tape["slots"]}
        for buffer in report["programs"][0]["buffers"]:
            assert buffer["offset"] is None or buffer["name"] not in saved
        ends = [slot["start"] + slot["bytes"] for slot in tape["slots"]]
        starts = [slot["start"] for slot in tape["slots"]]
        assert all(a <= b for a, b in zip(ends, [*starts[1:], tape["bytes"]], strict=True))
        tapes.append(tape["bytes"])
    assert tapes[1] < tapes[0]


def test_plan_drawn(tmp_path: Path, capsys: Capture) -> None:
    page = tmp_path / "plan.html"
    assert main(["plan", NET, *INIT, "--html", str(page)]) == 0
    assert capsys.readouterr() == ("", "")
    text = page.read_text()
    assert text.startswith("<!DOCTYPE html>") and "Memory plan of lstm" in text
    assert text.count("<rect") >= 5


@pytest.mark.parametrize(
    ("kind", "holds"),
    [("rnn", "rnn.scan"), ("kern", "kern."), ("llvm", "define"), ("asm", "lstm_run:")],
)
def test_emit(kind: str, holds: str, tmp_path: Path, capsys: Capture) -> None:
    assert main(["compile", NET, *INIT, "--emit", kind]) == 0
    assert holds in capsys.readouterr().out
    assert main(["compile", NET, *INIT, "--emit", kind, "-o", str(tmp_path / "text")]) == 0
    assert capsys.readouterr().out == ""
    assert holds in (tmp_path / "text").read_text()


def test_emit_object_and_library(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["compile", NET, *INIT, "--emit", "obj", "-o", str(tmp_path / "a.o")]) == 0
    assert (tmp_path / "a.o").read_bytes()[:4] == b"\x7fELF"
    assert main(["compile", NET, *INIT, "--emit", "obj", "-o", "-"]) == 0
    assert capfdbinary.readouterr().out == (tmp_path / "a.o").read_bytes()
    assert main(["compile", NET, *INIT, "--emit", "so", "-o", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.o", "liblstm.so"]


def test_demo(tmp_path: Path, capsys: Capture) -> None:
    assert main(["demo", "-o", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "off the interpreter" in told
    assert (tmp_path / "liblstm.so").is_file()
    assert "<svg" in (tmp_path / "plan.html").read_text()
    assert f"look at   {tmp_path}/plan.html" in told and "next      rnncc compile" in told


def test_demo_compares_equals() -> None:
    """Its loop in NumPy computes what the compiled net does."""
    net, init = char_lstm(CHARACTERS, UNITS)
    inputs = demo.drawn()
    found = rnncc.compile(net, init).run(inputs)["probabilities"][:, 0]
    expected = demo.loop(parameters(init), inputs["x"][:, 0])
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compile"], "Missing argument 'NET' (see rnncc compile --help)"),
        (["compile", "none.pb"], "none.pb: No such file or directory"),
        (["compile", NET, "--bogus"], "No such option '--bogus'"),
        (["inspect", NET, "--cpu", "bogus"], "No such option '--cpu'"),  # it did nothing
        (["draw", NET, "--precision", "bogus"], "No such option '--precision'"),
        (["draw", NET, *INIT, "-o", "x.png"], "x.png: is no file for a picture: .svg, .html"),
        (["inspect", NET, "--shape", "x=T,N,4", "--shape", "x=T,N,5"], "x has a shape already"),
        (["frobnicate"], "No such command 'frobnicate'"),
        ([__file__], "is a file, and a command comes before it"),
        (["compile", NET, "--products", "so,exe"], "no product is named exe"),
        (["compile", NET, *INIT, "-o", ""], "'-o' / '--out': it is empty"),
        (["compile", ""], "'NET': it is empty"),
        (["compile", NET, *INIT, "--train", "--outputs-with-grads", ""], "grads: names none"),
        (["compile", NET, "--name", "a-b"], "name 'a-b' is not a C identifier"),
        (["compile", NET, "--shape", "x"], "--shape: 'x' is not of the form BLOB=T,N,40"),
        (["compile", NET, *INIT, "--shape", "y=T"], "--shape y: is no input of the net"),
        (["compile", NET, *INIT, "--seed", "-1"], "seed -1 is not a number from 0 up"),
        (
            ["compile", NET, *INIT, "--max-iterations", "0"],
            "max_iterations 0 is not a number from 1 to 2147483647",
        ),
        (
            ["compile", NET, *INIT, "--max-steps", "0"],
            "max_steps 0 is not a number from 1 to 2147483647",
        ),
        (["compile", NET, *INIT, "--stop-after", "fuse"], "--stop-after: goes with --emit rnn"),
        (["compile", NET, *INIT, "--wheel-version", "1"], "goes with --products wheel"),
        (["compile", NET, *INIT, "--tune", "--emit", "rnn"], "which no setting changes"),
        (["compile", NET, *INIT, "--plan-for", "3,2"], "goes with --memory-budget or --tune"),
        (["compile", NET, *INIT, "--emit", "rnn", "--products", "so"], "--products: goes without"),
        (
            ["compile", NET, *INIT, "--emit", "so", "--target", "wasm32"],
            "--emit: the target has no so",
        ),
        (["compile", NET, *INIT, "-o", "-"], "--out: - is standard output"),
        (["compile", NET, *INIT, "--cpu", "frob"], "frob"),
        (["compile", NET, *INIT, "--cpu", ""], "cpu '' is not one"),
        (["netdef", "show", ONNX], "is an ONNX model, not a NetDef"),
        (["compile", NET, *INIT, "--target", "frob"], "frob"),
        (["compile", NET, *INIT, "--emit", "rnn", "--stop-after", "frob"], "frob"),
        (["compile", NET, *INIT, "-o", "/proc/none"], "/proc/none: cannot write"),
        (["compile", ARRAYS], "lstm.npz"),
        (["run", "none.so"], "none.so: No such file or directory"),
        (["run", NET, *INIT, "-i", "none.npz"], "none.npz: No such file or directory"),
        (["run", NET, *INIT, "-i", NET], "lstm.pbtxt: is no .npy or .npz file of plain arrays"),
        (["run", NET, *INIT], "inputs missing: x, seq_lengths, h0, c0"),
        (["run", NET, *INIT, "-i", ARRAYS, "-i", ARRAYS], "a second array is named 'x'"),
        (["run", NET, *INIT, "-i", ARRAYS, "-o", "y.txt"], "y.txt: 3 outputs go into an .npz file"),
        (["inspect", ARRAYS], "lstm.npz"),
        (["plan", NET], "lstm.pbtxt: op 0"),
        (["plan", NET, *INIT, "--plan-for", "5,4,3"], "--plan-for: the net has no size number 3"),
        (["plan", NET, *INIT, "--plan-for", "B=5"], "--plan-for: the net has no B"),
        (["plan", NET, *INIT, "--plan-for", "5,-1"], "'-1' is not a number from 0 up"),
        (["plan", NET, *INIT, "--html", "/proc/none"], "/proc/none: "),
        (["plan", NET, *INIT, "--plan-for", DIGITS], "is not a number from 0 up to 10**18"),
        (["plan", NET, *INIT, "--max-input", DIGITS], "--max-input: '999"),
        (["plan", NET, *INIT, "--max-iterations", DIGITS], "is no number"),
        (["bench", NET, *INIT, "--threads", DIGITS], "is not a number from 1 to"),
    ],
)
def test_bad_input(words: list[str], message: str, capsys: Capture) -> None:
    assert main(words) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("rnncc: error: ")
    assert message in told.err
    assert told.err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ["compile", "lstm.pbtxt", "lstm_init.pbtxt", "--emit", "llvm", "-o", "lstm_init.pbtxt"],
        ["compile", "lstm.pbtxt", "lstm_init.pbtxt", "--emit", "obj", "-o", "link"],
        ["compile", "lstm.pbtxt", "lstm_init.pbtxt", "--emit", "rnn", "-o", "lstm.rnn.mlir"],
        ["compile", "lstm.o", "lstm_init.pbtxt", "--emit", "obj"],
        ["compile", "lstm.o", "lstm_init.pbtxt", "--products", "o,h"],
        ["run", "lstm.pbtxt", "lstm_init.pbtxt", "-i", "x=lstm.npz", "-o", "lstm.npz"],
        ["plan", "lstm.pbtxt", "lstm_init.pbtxt", "--html", "./lstm.pbtxt"],
        ["draw", "lstm", "-o", "lstm"],
    ],
)
def test_no_file_of_somebody_elses_is_replaced(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("lstm.pbtxt", "lstm_init.pbtxt", "lstm.npz"):
        shutil.copy(ROOT / "examples" / name, name)
    shutil.copy("lstm.pbtxt", "lstm")
    shutil.copy("lstm.pbtxt", "lstm.o")
    os.link("lstm.pbtxt", "link")
    before = {path: path.read_bytes() for path in Path().iterdir()}
    assert main(words) == 2
    error = capsys.readouterr().err
    assert "is read, too: what is written would take its place" in error or "be lost" in error
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


def test_a_net_and_its_parameters_are_written_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """A net beside the parameters of another would be compiled as if they were its own."""

    def full(arrays: object, path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    paths = [tmp_path / "net.rnn.mlir", tmp_path / "net.npz"]
    for path in paths:
        path.write_text("old")
    monkeypatch.setattr("rnncc.arrays.write", full)
    assert main(["compile", NET, *INIT, "--emit", "rnn", "-o", str(paths[0])]) == 2
    assert capsys.readouterr().err == f"rnncc: error: {paths[1]}: No space left on device\n"
    assert [path.read_text() for path in paths] == ["old", "old"]
    assert sorted(tmp_path.iterdir()) == sorted(paths)


def test_what_is_no_file_has_no_parameters_beside_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    words = ["compile", NET, *INIT, "--emit", "rnn", "-o", str(tmp_path / "pipe")]
    reader = threading.Thread(target=(tmp_path / "pipe").read_bytes)
    reader.start()
    assert main(words) == 0
    reader.join()
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_fault_of_ours_is_one_line_too(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def broken(*_: object) -> None:
        raise KeyError("oops")

    monkeypatch.delenv("RNNCC_DEBUG", raising=False)
    monkeypatch.setattr("rnncc.driver.compiling.compile_object", broken)
    assert main(["compile", NET, *INIT]) == 1
    told = capsys.readouterr().err
    assert told == "rnncc: error: internal error: KeyError: 'oops' (RNNCC_DEBUG=1 shows where)\n"
    monkeypatch.setenv("RNNCC_DEBUG", "1")
    with pytest.raises(KeyError):
        main(["compile", NET, *INIT])


def test_run_with_threads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / f"{threads}.npz" for threads in (1, 2)]
    for threads, file in enumerate(files, 1):
        assert (
            main(["run", NET, *INIT, "-i", ARRAYS, "-o", str(file), "--threads", str(threads)]) == 0
        )
    one, two = (np.load(file) for file in files)
    assert one.files == two.files
    assert all(np.array_equal(one[name], two[name]) for name in one.files)
    assert main(["run", NET, *INIT, "-i", ARRAYS, "--threads", "0"]) == 2
    assert "0 is not in the range" in capsys.readouterr().err
