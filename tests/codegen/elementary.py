"""Elementary functions as machine code: loops that call them, for several CPUs."""

import ctypes
import functools
import struct
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from rnncc.codegen.llvm.double_math import math_of
from rnncc.codegen.llvm.vector import FORMATS, Real, Vector
from rnncc.ir.types import NUMPY

Floats = NDArray[np.float32]


Doubles = NDArray[np.float64]


TARGETS = {
    "x86-64-v2": ("x86_64-unknown-linux-gnu", Vector(4, fma=False)),
    "x86-64-v3": ("x86_64-unknown-linux-gnu", Vector(8)),
    "x86-64-v4": ("x86_64-unknown-linux-gnu", Vector(16, scales=True)),
    "generic": ("aarch64-unknown-linux-gnu", Vector(4)),
}


def loop(name: str, vector: Vector, triple: str, inputs: int = 1) -> ir.Module:
    """A module with `loop(x, out, count)`: out[i] = f(x[i]), or f(x[i], x[count + i])."""
    module = ir.Module()
    module.triple = triple
    emitter = math_of(module, vector)
    pointer, index, element = ir.PointerType(), ir.IntType(64), FORMATS[vector.dtype][0]
    kind = ir.FunctionType(ir.VoidType(), [pointer, pointer, index])
    function = ir.Function(module, kind, "loop")
    x, out, count = function.args
    entry, body, done = (function.append_basic_block() for _ in range(3))
    b = ir.IRBuilder(entry)
    b.branch(body)
    b.position_at_end(body)
    i = b.phi(index)
    i.add_incoming(index(0), entry)
    places = [i, b.add(i, count)][:inputs]
    loaded = [
        b.load(b.gep(x, [at], source_etype=element), typ=emitter.type, align=4) for at in places
    ]
    result = getattr(emitter, name)(b, *loaded)
    b.store(result, b.gep(out, [i], source_etype=element), align=4)
    following = b.add(i, index(vector.lanes))
    i.add_incoming(following, b.block)
    b.cbranch(b.icmp_unsigned("<", following, count), body, done)
    b.position_at_end(done)
    b.ret_void()
    return module


def machine(triple: str, cpu: str, features: str = "", jit: bool = False) -> llvm.TargetMachine:
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu,
        features=features,
        opt=3,
        reloc="pic",
        codemodel="jitdefault" if jit else "small",  # code and constants may lie far apart
        jit=jit,
    )


def optimised(module: ir.Module, target: llvm.TargetMachine) -> llvm.ModuleRef:
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()
    passes = llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(speed_level=3))
    passes.getModulePassManager().run(parsed, passes)
    return parsed


@functools.cache
def compiled(
    name: str, lanes: int, fma: bool, inputs: int = 1, dtype: Real = "f32", scales: bool = False
) -> Callable[[Any], Any]:
    """The function over an array whose length is a multiple of `lanes` (times `inputs`)."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    triple = llvm.get_process_triple()
    features = llvm.get_host_cpu_features().flatten()
    target = machine(triple, llvm.get_host_cpu_name(), features, jit=True)
    module = optimised(loop(name, Vector(lanes, fma, dtype, scales), triple, inputs), target)
    engine = llvm.create_mcjit_compiler(module, target)
    engine.finalize_object()
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    call = kind(engine.get_function_address("loop"))

    def run(x: Any, keep: llvm.ExecutionEngine = engine) -> Any:
        x = np.ascontiguousarray(x, NUMPY[dtype])
        out = np.empty(x.size // inputs, x.dtype)
        assert out.size % lanes == 0
        call(x.ctypes.data, out.ctypes.data, out.size)
        return out

    return run


EDGES = {
    "exp": [(np.inf, np.inf), (-np.inf, 0), (0, 1), (-0.0, 1), (89, np.inf), (-104, 0)],
    "expm1": [(np.inf, np.inf), (-np.inf, -1), (0, 0), (-0.0, -0.0), (-100, -1)],
    "log": [
        (np.inf, np.inf),
        (0, -np.inf),
        (-0.0, -np.inf),
        (-1, np.nan),
        (-np.inf, np.nan),
        (1, 0),
    ],
    "log1p": [(np.inf, np.inf), (-1, -np.inf), (-2, np.nan), (0, 0), (-0.0, -0.0)],
    "tanh": [(np.inf, 1), (-np.inf, -1), (0, 0), (-0.0, -0.0), (20, 1), (1e-45, 1e-45)],
    "sigmoid": [(np.inf, 1), (-np.inf, 0), (0, 0.5), (-0.0, 0.5), (100, 1), (-1e30, 0)],
    "erf": [(np.inf, 1), (-np.inf, -1), (0, 0), (-0.0, -0.0), (4, 1), (1e30, 1)],
    "sin": [(np.inf, np.nan), (0, 0), (-0.0, -0.0)],
    "cos": [(np.inf, np.nan), (0, 1), (-0.0, 1)],
}


def called_by_object(name: str, vector: Vector, cpu: str, inputs: int = 1) -> list[str]:
    """What the object code of a function leaves to the linker, for a CPU of `TARGETS`."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple, _ = TARGETS[cpu]
    target = machine(triple, cpu)
    module = optimised(loop(name, vector, triple, inputs), target)
    return undefined_symbols(target.emit_object(module))


def undefined_symbols(elf: bytes) -> list[str]:
    """Names that a 64-bit little-endian ELF object leaves to the linker."""
    table, count = struct.unpack_from("<Q", elf, 0x28)[0], struct.unpack_from("<H", elf, 0x3C)[0]
    sections = [struct.unpack_from("<IIQQQQII", elf, table + 64 * i) for i in range(count)]
    names: list[str] = []
    for _, kind, _, _, offset, size, link, _ in sections:
        strings = sections[link][4]
        for at in range(offset, offset + size, 24) if kind == 2 else ():
            start, _, _, section = struct.unpack_from("<IBBH", elf, at)
            if start and section == 0:
                names.append(elf[strings + start : elf.index(b"\0", strings + start)].decode())
    return names


def normal_results(name: str, x: NDArray[Any], got: NDArray[Any], exact: NDArray[Any]) -> Any:
    """Assert NaN, inf and small results where they belong; the other results, and the exact ones.

    Args:
        x: what a function was given.
        exact: its results in wider floats, which both are returned in.
    """
    tiny = np.finfo(got.dtype).smallest_normal
    with np.errstate(all="ignore"):
        wanted = exact.astype(got.dtype)
    nan = np.isnan(wanted)
    if name in ("sin", "cos"):
        nan |= (np.abs(x) >= 2.0**63) & (got.dtype == np.float64)
    np.testing.assert_array_equal(np.isnan(got), nan)
    infinite = np.isinf(wanted) & ~nan
    np.testing.assert_array_equal(got[infinite], wanted[infinite])
    finite = ~nan & ~infinite
    got, exact = got[finite].astype(exact.dtype), exact[finite]
    small = np.abs(exact) < tiny
    assert np.all(np.abs(got[small] - exact[small]) <= tiny)
    return got[~small], exact[~small]


def assert_exact_remainders(x: NDArray[Any], lanes: int, dtype: Real) -> None:
    """Of each of some numbers by each, and with their signs."""
    a, b = np.repeat(x, x.size), np.tile(x, x.size)
    got = compiled("rem", lanes, True, 2, dtype)(np.concatenate([a, b]))
    with np.errstate(invalid="ignore"):
        wanted = np.fmod(a, b)
    np.testing.assert_array_equal(got, wanted)
    number = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(wanted[number]))
