"""Nets as C: streams, numbers at their edges, random bits, names, errors, and what is refused."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from rnncc_runtime import Model, RunError

import rnncc
from rnncc.cli import main
from rnncc.errors import CompileError
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.ir.types import FLOATS, NUMPY
from tests.codegen.random_programs import PROGRAMS, check, examples
from tests.codegen.reference.built import COMPILER, built, built_to_train, source_of
from tests.golden import GOLDEN, Arrays

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler here")
T, N = Dim.of("T"), Dim.of("N")
LSTM = GOLDEN / "caffe2" / "lstm"
EDGES = [0.0, -0.0, 0.5, -1.5, 2.5, 3e9, -3e9, 9.3e18, -1e19, 1e-40, 2e7, np.inf, -np.inf, np.nan]


@pytest.fixture(scope="module")
def lstm(tmp_path_factory: pytest.TempPathFactory) -> Model:
    if COMPILER is None:
        pytest.skip("no C compiler here")
    return built(LSTM / "net.pb", tmp_path_factory.mktemp("lstm"), LSTM / "init.pb")


@needs_compiler
@pytest.mark.slow
@examples(60)
@given(PROGRAMS)
def test_random_programs(tmp_path_factory: pytest.TempPathFactory, program: Program) -> None:
    model = built(program, tmp_path_factory.mktemp("random"))

    def execute(inputs: Arrays, sizes: dict[str, int]) -> Arrays:
        return model.run({name: inputs[name] for name in model.inputs})

    check(program, lambda _: None, lambda _: execute)  # type: ignore[arg-type, return-value]


def test_pieces_of_a_sequence_have_its_bits(lstm: Model) -> None:
    rng = np.random.default_rng(0)
    inputs: Arrays = {
        "x": rng.standard_normal((9, 3, 5)).astype(np.float32),
        "seq_lengths": np.array([9, 4, 0], np.int32),
        "h0_0": rng.standard_normal((1, 3, 6)).astype(np.float32),
        "c0_0": rng.standard_normal((1, 3, 6)).astype(np.float32),
    }
    whole = lstm.run(inputs)["rnn/hidden_state_all"]
    stream = lstm.stream(inputs={name: a for name, a in inputs.items() if name != "x"})
    cuts = [(0, 1), (1, 1), (1, 6), (6, 9)]
    pieces = [stream.step({"x": inputs["x"][a:b]})["rnn/hidden_state_all"] for a, b in cuts]
    np.testing.assert_array_equal(np.concatenate(pieces), whole)


@needs_compiler
@pytest.mark.parametrize("real", FLOATS)
def test_functions_at_their_edges(tmp_path: Path, real: str) -> None:
    """All that a body computes, at what its type holds at most, beyond it, and at NaN."""
    b = Builder.net("edges")
    x, y = b.input("x", (N,), real), b.input("y", (N,), real)
    ints = {d: (b.input(f"{d} a", (N,), d), b.input(f"{d} b", (N,), d)) for d in ("i32", "i64")}
    flags = b.compare("lt", x, y)
    one = ("neg", "abs", "sqrt", "exp", "log", "tanh", "sigmoid", "relu", "erf", "sin", "cos")
    both = ("add", "sub", "mul", "div", "maximum", "minimum", "rem")
    outputs = {name: getattr(b, name)(x) for name in (*one, "log1p", "expm1")}
    outputs |= {f"{kind} x": b.round(kind, x) for kind in ("floor", "ceil", "even", "trunc")}
    for d, (p, q) in {real: (x, y), **ints}.items():
        outputs |= {f"{name} of {d}": getattr(b, name)(p, q) for name in both}
        kinds = ("lt", "le", "gt", "ge", "eq", "ne")
        outputs |= {f"{kind} of {d}": b.compare(kind, p, q) for kind in kinds}
        outputs |= {f"{d} to {to}": b.cast(p, to) for to in (*FLOATS, "i32", "i64", "i1")}
        outputs |= {f"bits of {d}": b.bitcast(p)}
    for d, (p, q) in ints.items():
        kinds = ("and", "or", "xor", "left", "right")
        outputs |= {f"{kind} of {d}'s bits": b.bits(kind, p, q) for kind in kinds}
    other = b.compare("ne", x, x)
    outputs |= {kind: b.logical(kind, flags, other) for kind in ("and", "or", "xor")}
    outputs |= {"not": b.logical_not(flags), "select": b.select(flags, x, y)}
    outputs |= {f"flag to {to}": b.cast(flags, to) for to in (*FLOATS, "i32", "i64")}
    program = b.finish(outputs)
    grid = np.meshgrid(EDGES, EDGES)
    inputs: Arrays = dict(zip("xy", (a.ravel().astype(NUMPY[real]) for a in grid), strict=True))
    for dtype in (np.int32, np.int64):
        limits = np.iinfo(dtype)
        numbers = [0, 1, 2, 5, -1, 7, -7, limits.min, limits.max, 31, 32, 33, 63, 64]
        pairs = np.meshgrid(np.array(numbers, dtype), np.array(numbers, dtype))
        name = f"i{limits.bits}"
        inputs |= {f"{name} a": pairs[0].ravel(), f"{name} b": pairs[1].ravel()}
    model = built(program, tmp_path)
    with np.errstate(all="ignore"):
        want = run(program, inputs, sizes={"N": len(EDGES) ** 2})
    got = model.run(inputs)
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, 2e-6, 1e-37, err_msg=name)


@needs_compiler
def test_random_numbers_have_the_bits_of_all_targets(tmp_path: Path) -> None:
    b = Builder.net("drawn")
    seed = b.input("seed", (N,), "i32")
    y = b.uniform(seed, b.iota((N,), 0), stream=7)
    program = b.finish({"y": y})
    inputs = {"seed": np.arange(-500, 500, dtype=np.int32)}
    want = run(program, inputs)["y"]
    np.testing.assert_array_equal(built(program, tmp_path).run(inputs)["y"], want)
    np.testing.assert_array_equal(rnncc.compile(program).run(inputs)["y"], want)


@needs_compiler
def test_kernels_that_move_rows(tmp_path: Path) -> None:
    b = Builder.net("moves")
    x, index = b.input("x", (T, N, 3)), b.input("index", (4,), "i32")
    lengths = b.input("lengths", (N,), "i32")
    zeros = b.fill(0.0, (N, 3))
    outputs = {
        "gathered": b.gather(x, index, 0),
        "columns": b.gather(x, index, 1),
        "reversed": b.reverse_segments(x, lengths),
        "windows": b.windows(x, 2, 0, 2, 2),
        "later": b.shift(x, zeros),
        "largest": b.reduce("max", x, [0, 2]),
    }
    program = b.finish(outputs)
    rng = np.random.default_rng(1)
    inputs: Arrays = {
        "x": rng.standard_normal((5, 4, 3)).astype(np.float32),
        "index": np.array([3, 0, 3, 1], np.int32),
        "lengths": np.array([0, 5, 2, 1], np.int32),
    }
    model = built(program, tmp_path)
    got = model.run(inputs)
    for name, array in run(program, inputs).items():
        np.testing.assert_array_equal(got[name], array, err_msg=name)
    with pytest.raises(RunError, match="index"):
        model.run({**inputs, "index": np.array([0, 4, 0, 0], np.int32)})
    with pytest.raises(RunError, match="length"):
        model.run({**inputs, "lengths": np.array([6, 0, 0, 0], np.int32)})


@needs_compiler
def test_names_that_mean_something_in_c(tmp_path: Path) -> None:
    """Blobs may be called as macros, functions, variables of the code, sizes that nothing reads,
    or the end of a comment."""
    names = "x0 i0 k w total expf float */ int NULL workspace n T N".split()
    b = Builder.net("names")
    values = [b.input(name, (T, 4)) for name in names]
    outputs = {f"{name}!": b.exp(value) for name, value in zip(names, values, strict=True)}
    outputs["memcpy"] = b.reduce("sum", b.mul(values[0], values[-1]), [0])
    outputs["y */"] = b.matmul(values[2], b.param("net_run", (4, 4)))
    program = b.finish(outputs, arrays={"net_run": np.eye(4, dtype=np.float32)})
    inputs = {name: np.full((3, 4), i, np.float32) / 8 for i, name in enumerate(names)}
    got = built(program, tmp_path).run(inputs)
    for name, array in run(program, inputs).items():
        np.testing.assert_allclose(got[name], array, 1e-6, err_msg=name)


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler here")
@pytest.mark.parametrize("train", [False, True])
def test_the_code_is_cpp_too(train: bool, tmp_path: Path) -> None:
    source = source_of(LSTM / "net.pb", tmp_path, LSTM / "init.pb", train=train)
    flags = "-x c++ -std=c++20 -Wall -Wextra -Werror -pedantic -fsyntax-only".split()
    done = subprocess.run(["c++", *flags, source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]


@needs_compiler
def test_backward_looks_at_the_seal_of_a_tape(tmp_path: Path) -> None:
    model = built_to_train(LSTM / "net.pb", tmp_path, LSTM / "init.pb")
    sizes = (2, 3)
    tape = np.zeros(model._functions["tape_bytes"](*sizes), np.uint8)
    table = (ctypes.c_void_p * 64)()
    blocks = [ctypes.addressof(table)] * 4 + [tape.ctypes.data] * 2
    assert model._functions["backward"](*blocks, *sizes) == 6
    assert model._functions["backward"](None, *blocks[1:], *sizes) == 1
    assert model._functions["backward"](*blocks, -1, 3) == 2


def refusal(**options: Any) -> str:
    with pytest.raises(CompileError) as caught:
        rnncc.build(LSTM / "net.pb", LSTM / "init.pb", target="reference", **options)
    return str(caught.value)


def test_what_it_refuses(tmp_path: Path) -> None:
    shared: dict[str, Any] = {"out": tmp_path}
    assert "does not make the product so" in refusal(products=["so"], **shared)
    assert "one thread" in refusal(threads=True, **shared)
    assert "no code for int8 weights" in refusal(precision="int8", **shared)
    assert "no code for bf16 weights" in refusal(precision="bf16", **shared)
    assert "is nothing to the reference target" in refusal(cpu="native", **shared)
    assert "does not run before it is compiled" in refusal(tune=True, **shared)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(CompileError, match="does not run before it is compiled"):
        rnncc.compile(LSTM / "net.pb", LSTM / "init.pb", target="reference")
    with pytest.raises(CompileError, match="does not make the product c"):
        rnncc.build(LSTM / "net.pb", LSTM / "init.pb", out=tmp_path, products=["c"])


def test_the_command_writes_c(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = [str(LSTM / "net.pb"), "--init", str(LSTM / "init.pb"), "--target", "reference"]
    assert main(["compile", *net, "--name", "net", "-o", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.c", "net.h"]
    source = (tmp_path / "net.c").read_text()
    assert max(map(len, source.splitlines())) <= 120
    assert "@" not in source
    capsys.readouterr()
    assert main(["compile", *net, "--name", "net", "--emit", "c"]) == 0
    assert capsys.readouterr().out.strip() == source.strip()
    assert main(["compile", *net, "--emit", "asm"]) == 2
    assert "has no form asm" in capsys.readouterr().err
