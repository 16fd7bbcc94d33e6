"""`--emit rnn` is what is compiled: xdsl-opt reads it, and so does rnncc, to the same code."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rnncc_runtime
from hypothesis import given
from onnx import parser
from xdsl.ir import SSAValue

import rnncc
from rnncc import arrays, cells, pipeline
from rnncc.cli import main
from rnncc.driver import compiling
from rnncc.errors import CompileError
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.program import Program
from rnncc.options import Options
from rnncc.sources import Content
from rnncc.stages import ir_text
from rnncc.stages.compilation import Compilation
from tests.driver.ir_texts import TARGET, code_of, emitted
from tests.fuzz.fuzz_onnx import LISTS, NESTED
from tests.golden import CASES
from tests.passes.helpers import quick
from tests.strategies import programs

ROOT = Path(__file__).parents[2]
INSTALLED = any(e.name == "rnncc" for e in entry_points(group="xdsl.universe"))
XDSL_OPT = Path(sys.executable).with_name("xdsl-opt")
Values = Sequence[SSAValue]
both = pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])


@both
@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_golden_nets_compile_to_the_same_code(case: Path, train: bool, tmp_path: Path) -> None:
    net, init = case / "net.pb", case / "init.pb"
    text, params = emitted(net, init, tmp_path, train=train)
    assert code_of(text, params) == code_of(net, init, train=train)


@both
@pytest.mark.skipif(not INSTALLED, reason="rnncc is not installed: run pip install -e .")
def test_stock_xdsl_opt_reads_golden_nets(
    train: bool, tmp_path: Path, one_in: Callable[[int], slice]
) -> None:
    """In one process, as a module each: all for inference, every other one's training, and of
    every third the kernels too."""
    texts = list[str]()
    for number, case in enumerate((CASES[::2] if train else CASES)[one_in(2)]):
        for kind in ("rnn", "kern") if number % 3 == 0 else ("rnn",):
            options = Options(**TARGET, train=train)
            content = compiling.emit(case / "net.pb", case / "init.pb", options, kind).content
            assert isinstance(content, str)
            texts.append(content)
    (tmp_path / "all.mlir").write_text("// -----\n".join(texts))
    command = [XDSL_OPT, "--split-input-file", tmp_path / "all.mlir"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert out.count("builtin.module") == len(texts)


@pytest.mark.skipif(not INSTALLED, reason="rnncc is not installed: run pip install -e .")
def test_xdsl_opt_runs_passes_on_a_dump(tmp_path: Path) -> None:
    b = Builder.net("net")
    x, w, h0 = b.input("x", ["T", "N", 3]), b.param("w", [3, 4]), b.input("h0", ["N", 4])

    def body(inner: Builder, consts: Any, carry: Any, rows: Any) -> tuple[Any, Any]:
        h = inner.tanh(inner.add(inner.matmul(rows[0], consts[0]), carry[0]))
        return [h], [h]

    net = b.finish({"y": b.scan([w], [h0], [x], body)[1][0]})
    compiling.emit(net, None, Options(dump_ir=tmp_path), "rnn")
    (dump,) = tmp_path.glob("*-split-stream.mlir")
    names = [
        "rnn-simplify",
        "rnn-split-scans",
        "rnn-merge-matmuls",
        "rnn-reassociate-sums",
        "rnn-hoist",
    ]
    command = [XDSL_OPT, "-p", ",".join(names), dump]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    before, after = (
        text.index("rnn.matmul") < text.index("rnn.scan") for text in (dump.read_text(), out)
    )
    assert (before, after) == (False, True)  # the projection of x has left the loop


@both
def test_compiling_goes_on_from_every_step(
    train: bool, tmp_path: Path, one_in: Callable[[int], slice]
) -> None:
    net = cells.lstm(3, 4)
    code = code_of(net, None, train=train)
    for step in pipeline.net_steps(Options(train=train))[one_in(3)]:
        files = emitted(net, None, tmp_path, train=train, stop_after=step.name)
        assert code_of(*files, train=train) == code, step.name


def test_compiling_goes_on_from_checkpoints(tmp_path: Path) -> None:
    """A run's length is a symbol of its body alone."""

    def step(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        h = i.add(i.mul(i.sigmoid(consts[0]), carry[0]), i.broadcast(rows[0], [8, 16], [0]))
        return [h], [i.reduce("sum", i.mul(h, h), [1])]

    b = Builder.net("net")
    state, rows = b.input("h", [8, 16]), b.input("x", ["T", 8])
    net = b.finish({"y": b.scan([b.input("a", [8, 16])], [state], [rows], step)[1][0]})
    files = emitted(net, None, tmp_path, stop_after="checkpoint", train=True)
    assert "rnn.chunks" in files[0].read_text()
    assert code_of(*files, train=True) == code_of(net, None, train=True)


@quick
@given(program=programs())
def test_random_programs_come_back(program: Program) -> None:
    c = Compilation(Options(), programs={"net": program}, symbols=program.symbols)
    c.inputs = list(program.net.inputs)
    text = ir_text.write(c, "read")
    held = ir_text.parameters(c)
    back = Compilation(Options(), Content(text.encode(), "net.mlir"), _npz(held))
    ir_text.read(back)
    assert ir_text.write(back, "read") == text
    assert back.programs["net"].arrays.keys() == program.arrays.keys()


def _npz(held: dict[str, Any]) -> Content | None:
    import io

    if not held:
        return None
    file = io.BytesIO()
    np.savez(file, **held)
    return Content(file.getvalue(), "net.npz")


def test_the_command_line(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    net, init = (str(ROOT / "examples" / f"{n}.pbtxt") for n in ("lstm", "lstm_init"))
    text = str(tmp_path / "lstm.rnn.mlir")
    assert main(["compile", net, "--init", init, "--emit", "rnn", "-o", text]) == 0
    codes = list[bytes]()
    for words in ([net, "--init", init], [text, "--params", str(tmp_path / "lstm.npz")]):
        assert main(["compile", *words, "--emit", "obj", "-o", str(tmp_path / "x.o")]) == 0
        codes.append((tmp_path / "x.o").read_bytes())
    assert codes[0] == codes[1]
    assert main(["compile", net, "--init", init, "--emit", "rnn", "-v"]) == 0
    printed = capsysbinary.readouterr()
    assert printed.out == Path(text).read_bytes()
    assert b"time " in printed.err


def text_of(net: Any, **options: Any) -> str:
    content = compiling.emit(net, None, Options(**TARGET, **options), "rnn").content
    assert isinstance(content, str)
    return content


GOOD = text_of(cells.elman(2, 3))
LOOPS, LISTED = (text_of(parser.parse_model(text).SerializeToString()) for text in (NESTED, LISTS))
AFTER = f'after = "{pipeline.net_steps(Options())[-1].name}"'
IOTA = '%i = "rnn.iota"() <{axis = #builtin.int<5>}> : () -> tensor<3xi32>\n    '


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "line 1"),
        ("builtin.module {", "line 1"),
        ("builtin.module {\n}\n", "something else than nets"),
        (GOOD[: len(GOOD) // 2], "line"),
        (GOOD.replace("rnn.tanh", "rnn.frob"), "rnn.frob"),
        (GOOD.replace("rnn.tanh", "rnn.matmul"), "no net in rnn"),
        (GOOD.replace('["init", ', '["step", ', 1), "not as rnncc writes them"),
        (GOOD.replace("programs = [", "programs = [unit, "), "not as rnncc writes them"),
        (LISTED.replace('["run", ', '["again", '), "no step leaves again"),
        (LOOPS.replace("limited = false", "limited = true"), "no gate that it carries"),
        (GOOD.replace("array<i32", "array<i322"), "is no net in rnn"),
        (GOOD.replace('param_name = "W"', 'param_name = "x"'), "x is an input and a parameter"),
        (GOOD.replace('param_name = "W"', 'param_name = "b"'), "parameter b has two types"),
        (GOOD.replace('["y", "h_last"', '["y", "y"'), "two outputs have one name"),
        (GOOD.replace("inputs = [", f"inputs = [{10**30} : i64, "), "is no net in rnn"),
        (GOOD.replace(AFTER, 'after = "frob"'), "no step is named frob"),
        (GOOD.replace("after =", "again ="), "other programs than reading leaves"),
        (GOOD.replace(AFTER, 'after = "read"'), "other programs than read"),
        (GOOD.replace(AFTER, "after = 3 : i64"), "not as rnncc writes them"),
        (GOOD.replace(AFTER, 'after = "lower"'), "no step is named lower"),
        (GOOD.replace('["T", "N"], inputs', '["N", "T"], inputs'), "first symbols are T and N"),
        (GOOD.replace('["T", "N"], inputs', '["T", "N", "T/0"], inputs'), "symbols are names"),
        (
            GOOD.replace('"N"', '"Q"').replace('["T", "Q"], inputs', '["T", "N"], inputs'),
            "no symbols",
        ),
        (GOOD.replace('inputs = ["x"]', 'inputs = ["y"]'), "none of the model's"),
        (GOOD.replace('"next:0", unit', '"next:1", unit'), "of one type in both nets"),
        (GOOD.replace("xf32, [", "xindex, ["), "no type of values"),
        (GOOD.replace("xf32, [", "xf32, [[], "), "no type of values"),
        (GOOD.replace('dims = ["T", "N"', 'dims = [unit, "N"'), "unit is no size"),
        (re.sub(r'(%\w+) = "rnn.tanh"\(%\w+\)', r'\1 = "rnn.tanh"(\1)', GOOD), "made behind it"),
        *(
            (
                GOOD.replace("reverse = false,", f"reverse = false, gate = #builtin.int<{at}>,"),
                f"the gate is argument {at} of 3",
            )
            for at in (7, -1)
        ),
        (GOOD.replace("?x", "?x" * 20_000, 1), "net.rnn.mlir"),
        ("builtin.module " + "{" * 100_000, "line 1"),
        (GOOD.replace("rnn.tanh", "rnn.t" + "a" * 100_000), "Operation rnn.ta+$"),
        (GOOD.replace(AFTER, f'after = "{"a" * 100_000}"'), "named a{40} "),
        (
            GOOD.replace('%0 = "rnn.fill"', IOTA + '%0 = "rnn.fill"', 1),
            "axis 5 of 1",
        ),
        ("\udcff", "utf-8"),
        (GOOD.replace('"h_last"', '"' + "h" * 100), "line 6: holds a string without an end"),
        (GOOD.replace('rnn.tanh"', 'rnn.tanh\\"'), "holds a string without an end"),
        (GOOD.replace("rnn.tanh", "rnn.t\\anh"), "holds a string without an end"),
    ],
)
def test_damaged_texts_are_refused(text: str, what: str, tmp_path: Path) -> None:
    path = tmp_path / "net.rnn.mlir"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(CompileError, match=what) as error:
        code_of(path, None)
    assert "net.rnn.mlir" in str(error.value)


def test_bounds_that_a_file_leaves_out_hold(tmp_path: Path) -> None:
    """A file is not trusted: without its bounds, a slice would read in front of its rows."""
    b = Builder.net("net")
    x = b.input("x", ["T", 3])
    text = text_of(b.finish({"y": b.slice(x, 0, 2, Dim.of("T") - 2)}))
    assert 'bounds = ["T - 2"]' in text
    path = tmp_path / "net.rnn.mlir"
    path.write_text(text.replace('bounds = ["T - 2"]', "bounds = []"))
    with pytest.raises(rnncc_runtime.ArrayError, match="T - 2 would be -1"):
        rnncc.compile(path).run({"x": np.zeros((1, 3), np.float32)})


def test_damaged_texts_of_training_are_refused(tmp_path: Path) -> None:
    text, params = emitted(cells.lstm(2, 3), None, tmp_path, train=True)
    good = text.read_text()
    assert params is not None
    held = arrays.read(params)
    assert isinstance(held, dict)
    name = re.findall(r'param_name = "(\w+)"', good)[-1]
    with pytest.raises(CompileError, match="no array is there for the parameter"):
        code_of(text, None, train=True)
    arrays.write({**held, f"initial/{name}": np.zeros((7, 7), np.float32)}, params)
    with pytest.raises(CompileError, match="expected tensor"):
        code_of(text, params, train=True)
    arrays.write(held, params)
    at = good.rindex(f'param_name = "{name}"')
    first, *_, last = re.findall(r'added_outputs = \[\["([^"]+)", "grad", "([^"]+)"\]', good)[-1]
    for changed, what in (
        (
            good.replace(f'["{first}", "grad", "{last}"]', f'["{first}", "grad", "q"]'),
            "are of inputs",
        ),
        (good.replace(f'["{first}", "grad", "{last}"], ', ""), "gradients alone"),
        (good.replace(f'["{first}", "grad", "{last}"]', f'["{first}", "kept", "{last}"]'), "alone"),
        (good.replace('"grad", "y"', '"grad", "q"'), "come in of outputs"),
        (good[:at] + good[at:].replace(f'"{name}"', '"frob"', 1), "frob is of one type in both"),
        (re.sub(r"saved = \[[^]]*\]", "saved = []", good), "what backward reads is saved"),
        (re.sub(r"kept = \[[^]]*\]", "kept = []", good), "what backward reads is kept"),
    ):
        text.write_text(changed)
        with pytest.raises(CompileError, match=what):
            code_of(text, params, train=True)


def test_parameters_have_to_fit(tmp_path: Path) -> None:
    text, params = emitted(cells.elman(2, 3), None, tmp_path)
    assert params is not None
    held = arrays.read(params)
    assert isinstance(held, dict)
    name = next(iter(held))
    for changed, what in (
        ({name: held[name][..., :-1]}, "expected tensor"),
        ({name: held[name].astype(np.float64)}, "is float64"),
        ({f"{name.split('/')[0]}/frob": held[name]}, 'nothing takes the parameter "frob"'),
    ):
        arrays.write({**held, **changed}, tmp_path / "other.npz")
        with pytest.raises(CompileError, match=what):
            code_of(text, tmp_path / "other.npz")
    np.save(tmp_path / "one.npy", np.zeros(3))
    with pytest.raises(CompileError, match="one array without a name"):
        code_of(text, tmp_path / "one.npy")
