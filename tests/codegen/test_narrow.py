"""Narrow element types: every cast by machine code and by C has the interpreter's bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import StringAttr

import rnncc
from rnncc.codegen.cpu.library.entries import emit_module
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.errors import CompileError
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.interpreter import run
from rnncc.ir.ops.casts import Cast
from rnncc.ir.program import Program
from rnncc.ir.types import NUMPY, WIDE, cast_steps
from rnncc.kern.library import Library
from rnncc.options import Options
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.codegen.reference.built import COMPILER, built
from tests.compiling import lower
from tests.golden import Arrays

ALL16 = np.arange(1 << 16, dtype=np.uint16)
TIES = [65519.9, 65520.0, 2**-24, 2**-25, 3 * 2**-25, 2**-14, 1.5 * 2**-14, 1 + 2**-11, 1 + 2**-8]
EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 300.0, -300.0, 2.0**31, -1e10, *TIES]


def floats() -> np.ndarray:
    rng = np.random.default_rng(0)
    drawn = rng.standard_normal(2000) * 10.0 ** rng.integers(-10, 9, 2000)
    return np.concatenate([EDGES, drawn]).astype(np.float32)


def casts() -> tuple[Program, Arrays]:
    """Each wide type as each narrow one, and each narrow one as every other."""
    b, outputs, inputs = Builder.net("casts"), {}, {}
    given = {"f32": floats(), "i32": np.arange(-70000, 70000, 7, dtype=np.int32)}
    given["i64"] = given["i32"].astype(np.int64) * 70001
    for dtype in ("f32", "i32", "i64", *WIDE):
        held = given.get(dtype, ALL16.astype(np.uint32) * 65521 if dtype == "u32" else ALL16)
        inputs[dtype] = np.resize(held.view(NUMPY[dtype]), 1 << 16)
        x = b.input(dtype, ["N"], dtype)
        for new in (*WIDE, "f32", "i64", "i1"):
            if new != dtype:
                outputs[f"{dtype}_{new}"] = b.cast(x, new)
    return b.finish(outputs), inputs


def assert_equal_bits(got: Arrays, want: Arrays) -> None:
    for name, array in want.items():
        assert got[name].dtype == array.dtype, name
        bits = [a.view(f"u{a.itemsize}") for a in (got[name], array)]
        same = bits[0] == bits[1]
        if array.dtype.kind == "f":
            same |= np.isnan(got[name]) & np.isnan(array)
        elif name.endswith("_bf16"):
            same |= (bits[1] & 0x7FFF > 0x7F80) & (bits[0] & 0x7FFF > 0x7F80)
        assert same.all(), name


@pytest.mark.parametrize("cpu", [None, "x86-64"])
def test_casts_as_machine_code(cpu: str | None) -> None:
    program, inputs = casts()
    try:
        model = rnncc.compile(program, cpu=cpu)
    except CompileError:
        pytest.skip("not such a machine")
    assert_equal_bits(model.run(inputs), run(program, inputs))


@pytest.mark.skipif(COMPILER is None, reason="no C compiler here")
def test_casts_as_c(tmp_path: Path) -> None:
    program, inputs = casts()
    assert_equal_bits(built(program, tmp_path).run(inputs), run(program, inputs))


def moves() -> Program:
    """What moves elements and chooses among them, of each narrow type, with its rows in a loop."""
    b, outputs = Builder.net("moves"), {}
    index, flag = b.input("index", ["M"], "i32"), b.input("flag", ["N"], "i1")
    for dtype in WIDE:
        x = b.input(f"x_{dtype}", ["T", "N", 3], dtype)
        turned = b.transpose(x, (1, 0, 2))
        wide = b.broadcast(b.reshape(flag, ("N", 1, 1)), ["N", "T", 3], range(3))
        chosen = b.select(wide, turned, b.full_like(turned, 3))
        outputs[f"moved_{dtype}"] = b.concat([chosen, b.pad(turned, 2, 1, Dim.of(5), 1)], 2)
        outputs[f"rows_{dtype}"] = b.gather(x, index, 0)
        first = b.fill(2, ["N", 3], dtype)
        _, ys = b.scan([], [first], [x], lambda inner, consts, carry, rows: ([rows[0]], carry))
        outputs[f"before_{dtype}"] = ys[0]
    return b.finish(outputs)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (4, 5, 7), (3, 17, 2)], ids=str)
@pytest.mark.parametrize("end", [False, True])
def test_moves_between_guards(sizes: tuple[int, int, int], end: bool) -> None:
    (t, n, m), rng = sizes, np.random.default_rng(0)
    inputs: Arrays = {
        f"x_{dtype}": rng.integers(0, 100, (t, n, 3)).astype(NUMPY[dtype]) for dtype in WIDE
    }
    inputs["index"] = rng.integers(0, t, m).astype(np.int32)
    inputs["flag"] = rng.integers(0, 2, n).astype(bool)
    bare = Bare(lower(moves()), resolve_target(None, None))
    with guards(end) as memory:
        got = bare.run(inputs, {"T": t, "N": n, "M": m}, memory)
    assert_equal_bits(got, run(moves(), inputs))


def test_there_is_no_arithmetic_of_narrow_elements() -> None:
    b = Builder.net("bad")
    x = b.input("x", ["N"], "u8")
    for attempt in (lambda: b.add(x, x), lambda: b.maximum(x, x), lambda: b.reduce("sum", x, [0])):
        with pytest.raises(CompileError, match="operand is u8"):
            attempt()
    with pytest.raises(CompileError, match="u8 is not cast to f32 in one step"):
        b.append(Cast, x, dtype=StringAttr("f32"))
    assert cast_steps("u8", "f16") == ["i32", "f32", "f16"]


@pytest.mark.parametrize(("cpu", "found"), [("x86-64-v2", False), ("x86-64-v3", True)])
def test_instructions_for_float16(cpu: str, found: bool) -> None:
    b = Builder.net("halves")
    x = b.input("x", ["N"])
    kernels = lower(b.finish({"y": b.cast(b.tanh(x), "f16")}), Options(cpu=cpu))
    target = resolve_target("x86_64-linux-gnu", cpu)
    assert ("x half>" in str(emit_module(Library.of(kernels), target, {}).module)) is found
