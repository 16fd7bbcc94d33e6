"""The table of contents: the passes of each product, in order, each with why it stands there."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnncc.errors import CompileError, InternalError
from rnncc.options import Options

if TYPE_CHECKING:
    from rnncc_runtime import Model

    from rnncc.codegen.llvm import Optimised
    from rnncc.codegen.target import Target
    from rnncc.ir.kernel_program import KernelProgram
    from rnncc.ir.program import Program
    from rnncc.packaging.compiled import Compiled

    Step = tuple[str, Callable[[Program], object]]


def passes() -> list[Step]:
    """The passes of inference on the `rnn` dialect."""
    from rnncc.passes.fold_constants import fold_constants
    from rnncc.passes.hoist import Hoist
    from rnncc.passes.merge_matmuls import MergeMatmuls
    from rnncc.passes.regroup_sums import RegroupSums
    from rnncc.passes.simplify import Simplify
    from rnncc.passes.split_scans import SplitScans

    simplify, regroup = _on_net(Simplify()), _on_net(RegroupSums())
    return [
        ("simplify", simplify),  # front ends may be naive
        ("split-scans", _on_net(SplitScans())),  # so that upper layers' projections can be hoisted
        ("simplify-split", simplify),  # each loop keeps what is its own
        ("fold", fold_constants),  # what parameters alone decide is known now
        ("merge-matmuls", _on_net(MergeMatmuls())),  # one pass over h for all gates
        ("regroup-sums", regroup),  # what a step's sums hold of x_t stands together
        ("hoist", _on_net(Hoist())),  # the input projection is half of the arithmetic
        ("regroup-biases", regroup),  # those that came out of the loop meet those that were outside
        ("simplify-hoisted", simplify),  # what the others left behind
        ("fold-joined", fold_constants),  # joined weights, added biases
        ("simplify-last", simplify),  # what folding left behind
    ]


def import_source(net: Any, init: Any, options: Options) -> Program:
    """Read a net as a program, checked."""
    from rnncc.frontends.caffe2 import import_net

    return import_net(net, init, dict(options.shapes), options.name, options.seed)


def optimise(program: Program, options: Options) -> Program:
    """Run the passes, up to `options.stop_after`."""
    names = [name for name, _ in passes()]
    if options.stop_after is not None and options.stop_after not in names:
        raise CompileError("", f"no pass is named {options.stop_after}", ", ".join(names))
    run = _Run(options)
    run.dump("import", program)
    for name, step in passes():
        with run.timed(name, program):
            step(program)
        if options.verify_each:
            program.module.verify()
        if name == options.stop_after:
            break
    run.report()
    return program


def lower(program: Program, options: Options) -> KernelProgram:
    """Passes, kernels, memory."""
    from rnncc.codegen.llvm import resolve_target
    from rnncc.lowering.lower import lower as lower_net
    from rnncc.planning.layout import plan

    target = resolve_target(options.target, options.cpu)
    optimise(program, options)
    run = _Run(options, first=len(passes()) + 1)
    with run.timed("fuse", program):
        kernels = lower_net(program, target)  # everything between products becomes their epilogue
    with run.timed("plan", kernels):
        plan(kernels)  # last: it places what is left
    run.report()
    return kernels


def compile_object(net: Any, init: Any, options: Options) -> Compiled:
    """A library's object code."""
    from rnncc.codegen.llvm import resolve_target
    from rnncc.packaging.compiled import Compiled

    kernels = lower(import_source(net, init, options), options)
    target = resolve_target(options.target, options.cpu)
    metadata = describe(kernels, target)
    run = _Run(options)
    with run.timed("llvm", kernels):
        code = library(kernels, target, metadata).object_code
    run.report()
    return Compiled(kernels.name, metadata, code, target.triple)


def compile_in_memory(net: Any, init: Any, options: Options) -> Model:
    """A model that runs in this process."""
    return load_kernels(lower(import_source(net, init, options), options), options)


def load_kernels(kernels: KernelProgram, options: Options) -> Model:
    """Compile a planned kernel program into this process."""
    from ctypes import CFUNCTYPE, c_int32, c_int64, c_void_p

    from rnncc_runtime import Model

    from rnncc.codegen import llvm
    from rnncc.codegen.cpu.function import emit_module

    target = llvm.resolve_target(options.target, options.cpu)
    llvm.check_runs_here(target)
    metadata = describe(kernels, target)
    run = _Run(options)
    with run.timed("llvm", kernels):
        text = str(emit_module(kernels, target, metadata))
        engine = llvm.load(llvm.optimise(text, target, jit=True))
    run.report()
    symbols = [c_int64] * len(kernels.symbols)
    call = CFUNCTYPE(c_int32, *[c_void_p] * 4, *symbols)(
        engine.get_function_address(f"{kernels.name}_call")
    )
    size = CFUNCTYPE(c_int64, *symbols)(
        engine.get_function_address(f"{kernels.name}_workspace_bytes")
    )
    weights = aligned_weights(kernels)
    address = weights.ctypes.data

    def run_model(*arguments: int) -> int:
        return call(address, *arguments)

    return Model(metadata, run_model, size, keep=(engine, weights))


def emit(net: Any, init: Any, options: Options, kind: str) -> str | bytes:
    """One form of a net: rnn, kern, llvm, asm (texts) or obj (bytes)."""
    from rnncc.codegen.llvm import resolve_target

    program = import_source(net, init, options)
    if kind == "rnn":
        return str(optimise(program, options).module) + "\n"
    kernels = lower(program, options)
    if kind == "kern":
        return str(kernels.module) + "\n"
    target = resolve_target(options.target, options.cpu)
    made = library(kernels, target, describe(kernels, target))
    return {
        "llvm": lambda: made.text,
        "asm": lambda: made.assembly,
        "obj": lambda: made.object_code,
    }[kind]()


def describe(kernels: KernelProgram, target: Target) -> dict[str, Any]:
    """The model's metadata (docs/abi.md)."""
    from rnncc import __version__
    from rnncc.codegen.cpu.function import dimension_text
    from rnncc.packaging.names import c_names

    def ports(listed: list[Any]) -> list[dict[str, Any]]:
        names = c_names([port.name for port in listed])
        return [
            {
                "name": port.name,
                "c_name": name,
                "dtype": port.dtype,
                "shape": [dimension_text(d) for d in port.dims],
                **({"optional": True} if port.optional else {}),
            }
            for port, name in zip(listed, names, strict=True)
        ]

    return {
        "format": 1,
        "rnncc": __version__,
        "name": kernels.name,
        "symbols": kernels.symbols,
        "inputs": ports(kernels.inputs),
        "outputs": ports(kernels.outputs),
        "parameters": [{**port, "packed": True} for port in ports(kernels.parameters)],
        "workspace": str(kernels.workspace),
        "weights": kernels.weights,
        "target": target.triple,
        "cpu": target.cpu,
        "precision": "fp32",
    }


def aligned_weights(kernels: KernelProgram) -> Any:
    """The packed parameters as one block of bytes, at a multiple of 64."""
    import numpy as np

    from rnncc.ir.ops.base import get_dim

    room = np.zeros(kernels.weights + 64, np.uint8)
    start = -room.ctypes.data % 64
    block = room[start : start + kernels.weights]
    for buffer in kernels.buffers:
        if buffer.role.data == "param" and buffer.offset is not None:
            raw = kernels.arrays[buffer.label.data].view(np.uint8)
            at = int(get_dim(buffer.offset))
            block[at : at + len(raw)] = raw
    return block


def library(kernels: KernelProgram, target: Target, metadata: dict[str, Any]) -> Optimised:
    """A library's code: entry points, metadata, weights."""
    from rnncc.codegen import llvm
    from rnncc.codegen.cpu.function import add_library_entry, emit_module

    module = emit_module(kernels, target, metadata)
    add_library_entry(module, kernels)
    return llvm.optimise(str(module), target, weights=(kernels.name, aligned_weights(kernels)))


def _on_net(a_pass: Any) -> Callable[[Program], None]:
    return lambda program: a_pass.rewrite(program.net)


@dataclass
class _Run:
    """Dumps, times and blame of passes, as the options ask."""

    options: Options
    first: int = 1
    times: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])

    @contextmanager
    def timed(self, name: str, program: Any) -> Generator[None]:
        begun = time.perf_counter()
        try:
            yield
        except (CompileError, InternalError, KeyboardInterrupt, MemoryError):
            raise
        except Exception as error:
            raise self._blame(name, program) from error
        self.times.append((name, time.perf_counter() - begun))
        self.dump(name, program)

    def dump(self, name: str, program: Any) -> None:
        """Write the module to the folder of --dump-ir, if one was given."""
        if self.options.dump_ir is not None:
            number = self.first + len(self.times) - (name != "import")
            path = self.options.dump_ir / f"{number:02}-{name}.mlir"
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(str(program.module) + "\n")
            except OSError as error:
                raise CompileError(str(path), f"cannot write: {error.strerror}") from error

    def report(self) -> None:
        """Print the times of --time-passes."""
        if self.options.time_passes:
            for name, seconds in self.times:
                print(f"{name:<16}{seconds * 1e3:9.2f} ms", file=sys.stderr)

    def _blame(self, name: str, program: Any) -> InternalError:
        import tempfile

        path = Path(tempfile.gettempdir()) / f"rnncc-{program.name}-{name}.mlir"
        path.write_text(str(program.module) + "\n")
        return InternalError(f"pass {name!r} failed on {program.source}; its IR is in {path}")
