"""Nets of float64: random ones and loops against the interpreter, rows' bits, casts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from rnncc_runtime import Pool

import rnncc
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.ir.builder import Builder
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.kern import interpreter as kern_interpreter
from tests.codegen.compiled import Bare
from tests.codegen.doubled import assert_near, in_doubles
from tests.codegen.guarded import guards
from tests.codegen.random_programs import PROGRAMS, SIZES, after_passes, examples
from tests.codegen.reference.built import COMPILER, built
from tests.doubles import doubled
from tests.golden import Arrays
from tests.strategies import make_inputs


@examples(15)
@given(PROGRAMS)
def test_random_programs(program: Program) -> None:
    check(in_doubles(program))


@pytest.mark.slow
@examples(500)
@given(PROGRAMS)
def test_many_random_programs(program: Program) -> None:
    check(in_doubles(program))


def check(wide: Program) -> None:
    """In guarded memory, whatever is absent."""
    cases = [make_inputs(wide, sizes, sizes["T"]) for sizes in SIZES]
    wanted = [run(wide, inputs, sizes=sizes) for sizes, inputs in cases]
    bare = Bare(after_passes(wide), resolve_target())
    for (sizes, inputs), want in zip(cases, wanted, strict=True):
        with guards(end=True) as memory:
            got = bare.run(inputs, sizes, memory)
        assert_near(got, want, f"{sizes} ")
        with guards(end=False) as memory:
            for name, array in got.items():
                alone = bare.run(inputs, sizes, memory, absent=got.keys() - {name})
                np.testing.assert_array_equal(alone[name], array, err_msg=name)


@pytest.mark.slow
@examples(60)
@given(PROGRAMS)
def test_random_programs_as_kernels_and_as_c(
    tmp_path_factory: pytest.TempPathFactory, program: Program
) -> None:
    wide = in_doubles(program)
    c = built(wide.copy(), tmp_path_factory.mktemp("c")) if COMPILER else None
    kernels = after_passes(wide.copy())
    for sizes in SIZES:
        _, inputs = make_inputs(wide, sizes, sizes["T"])
        want = run(wide, inputs, sizes=sizes)
        assert_near(kern_interpreter.run(kernels, inputs, sizes), want, f"{sizes} ")
        if c is not None and sizes["T"]:
            assert_near(c.run({name: inputs[name] for name in c.inputs}), want, f"{sizes} ")


def layer(units: int) -> Program:
    """Gates of a loop, and a softmax of its rows."""
    rng = np.random.default_rng(units)
    cell = rnncc.cells.lstm(7, units, layout="TNC")
    program = doubled(cell)
    program.arrays = {n: rng.uniform(-1, 1, a.shape) for n, a in program.arrays.items()}
    return program


CPUS = ["x86-64-v2", "x86-64-v3", "x86-64-v4"]


@pytest.mark.parametrize("units", [1, 3, 20, 66])
@pytest.mark.parametrize("cpu", [None, *CPUS])
def test_a_row_has_its_bits_in_any_batch(cpu: str | None, units: int) -> None:
    """And is the interpreter's, on every vector length."""
    program = layer(units)
    try:
        model = rnncc.compile(program, cpu=cpu, threads=True)
    except rnncc.CompileError as error:
        pytest.skip(str(error))
    x = np.random.default_rng(0).uniform(-1, 1, (5, 17, 7))
    want = run(program, {"x": x})
    whole = model.run({"x": x})
    assert_near(whole, want, f"{cpu} ")
    with Pool(3) as threads:
        shared = model.run({"x": x}, pool=threads)
    for count in (1, 2, 5, 16):
        part = model.run({"x": np.ascontiguousarray(x[:, :count])})
        np.testing.assert_array_equal(part["y"], whole["y"][:, :count])
    np.testing.assert_array_equal(shared["y"], whole["y"])


def test_pieces_of_a_sequence_have_its_bits() -> None:
    model = rnncc.compile(layer(20))
    x = np.random.default_rng(1).uniform(-1, 1, (9, 3, 7))
    whole, stream = model.run({"x": x})["y"], model.stream()
    pieces = [stream.step({"x": x[a:b]})["y"] for a, b in [(0, 1), (1, 2), (2, 9)]]
    np.testing.assert_array_equal(np.concatenate(pieces), whole)


def test_gpus_refuse_it(tmp_path: Path) -> None:
    """As inputs, and inside of a net of float32."""
    b = Builder.net("inside")
    x = b.input("x", ["N"])
    inside = b.finish({"y": b.cast(b.exp(b.cast(x, "f64")), "f32")})
    for program, name in ((layer(3), "is float64"), (inside, "computes with float64")):
        with pytest.raises(rnncc.CompileError, match=f"{name}: not supported"):
            rnncc.build(program, out=tmp_path, target="nvptx", name="net")


EDGES = [0.0, -0.0, 0.5, -1.5, 2.5, 3e9, -3e9, 9.3e18, -1e19, 1e-310, 2e7, np.inf, -np.inf, np.nan]


def test_operations_and_casts_at_their_edges() -> None:
    """Those that are exact: the interpreter's bits."""
    b = Builder.net("edges")
    x, y = b.input("x", ["N"], "f64"), b.input("y", ["N"], "f64")
    n = {dtype: b.input(dtype, ["N"], dtype) for dtype in ("f32", "i32", "i64", "i1", "u8", "f16")}
    both = ("add", "sub", "mul", "div", "rem", "maximum", "minimum")
    outputs = {name: getattr(b, name)(x, y) for name in both}
    outputs |= {name: getattr(b, name)(x) for name in ("neg", "abs", "sqrt", "relu")}
    outputs |= {f"round {kind}": b.round(kind, x) for kind in ("floor", "ceil", "even", "trunc")}
    outputs |= {k: b.compare(k, x, y) for k in ("lt", "le", "gt", "ge", "eq", "ne")}
    outputs |= {f"to {dtype}": b.cast(x, dtype) for dtype in n}
    outputs |= {f"from {dtype}": b.cast(value, "f64") for dtype, value in n.items()}
    outputs |= {k: b.reduce(k, b.select(b.compare("eq", x, x), x, y), [0]) for k in ("max", "min")}
    program = b.finish(outputs)
    grid = np.meshgrid(EDGES, EDGES)
    inputs: Arrays = dict(zip("xy", (a.ravel() for a in grid), strict=True))
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 63, inputs["x"].size)
    inputs |= {"i64": bits - (1 << 62), "i32": bits.astype(np.int32), "i1": bits % 2 == 0}
    inputs |= {"u8": bits.astype(np.uint8), "f16": bits.astype(np.uint16).view(np.float16)}
    inputs["f32"] = bits.astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        want = run(program, inputs)
    got = rnncc.compile(program).run(inputs)
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array, err_msg=name)


def test_what_float32_rounds_stays_rounded() -> None:
    """A cast to float32 and back is none that may go, of constants neither."""
    b = Builder.net("rounded")
    x = b.input("x", ["N"], "f64")
    single, double = b.fill(0.1, (), "f32"), b.fill(0.1, (), "f64")
    outputs = {
        "x": b.sub(x, b.cast(b.cast(x, "f32"), "f64")),
        "single": b.mul(x, b.cast(single, "f64")),
        "double": b.mul(x, double),
        "there and back": b.mul(x, b.cast(b.cast(double, "f32"), "f64")),
        "literal": b.mul(x, b.cast(b.constant(np.array([0.1], np.float32)), "f64")),
    }
    program = b.finish(outputs)
    values = np.array([0.1, 1 / 3, -2.7, 3.0])
    rounded, tenth = values.astype(np.float32).astype(np.float64), float(np.float32(0.1))
    got = rnncc.compile(program).run({"x": values})
    np.testing.assert_array_equal(got["x"], values - rounded)
    for name in outputs.keys() - {"x"}:
        np.testing.assert_array_equal(got[name], values * (0.1 if name == "double" else tenth))
