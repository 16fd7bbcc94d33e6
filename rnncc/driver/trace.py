"""Runs the steps of the pipeline: dumps, times, verifies and blames each as the options ask."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from rnncc.errors import CompileError, InternalError, SizeError, is_out_of_memory
from rnncc.sources import called
from rnncc.stages import ir_text
from rnncc.stages.compilation import Compilation, Step
from rnncc.writing import write_file, write_new

_watcher: ContextVar[Callable[[str], object]] = ContextVar("watcher", default=lambda name: None)


def show(name: str, seconds: float) -> None:
    """One line of --time-passes."""
    print(f"{name:<20}{seconds * 1e3:9.2f} ms", file=sys.stderr)


@contextmanager
def timed(enabled: bool, name: str) -> Generator[None]:
    """Show how long a block takes, if enabled."""
    start = time.perf_counter()
    yield
    if enabled:
        show(name, time.perf_counter() - start)


@contextmanager
def watched(watcher: Callable[[str], object]) -> Generator[None]:
    """Until the end of the block `watcher` gets the name of each step as it begins."""
    before = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(before)


def tell(name: str) -> None:
    """Print the name of a step as it begins."""
    print(f"rnncc: {name}", file=sys.stderr, flush=True)


def run(compilation: Compilation, steps: Sequence[Step], first: int = 1) -> None:
    """Run steps, numbered in dumps from `first` on.

    Raises:
        CompileError: the net has what rnncc does not support.
        InternalError: a step failed otherwise; it names the step and a file with the IR.
    """
    options, watcher = compilation.options, _watcher.get()
    verified = dict[ModuleOp, list[object]]()
    for number, step in enumerate(steps, first):
        watcher(step.name)
        with timed(options.time_passes, step.name):
            _run_step(compilation, step)
        if options.verify_each:
            _verify(compilation, verified)
        if options.dump_ir is not None:
            _dump(compilation, step, options.dump_ir / f"{number:02}-{step.name}")


def _verify(compilation: Compilation, verified: dict[ModuleOp, list[object]]) -> None:
    """Verify the modules that have changed since they were verified last.

    Most steps find nothing to do in most nets, and to compare takes far less than to verify.
    """
    for program in (*compilation.programs.values(), *compilation.kernels.values()):
        parts = _parts(program.module)
        if verified.get(program.module) != parts:
            program.module.verify()
            verified[program.module] = parts


def _parts(module: ModuleOp) -> list[object]:
    """All that a module is made of, in order; equal lists are equal modules."""
    parts = list[object]()
    for op in module.walk():
        parts += (op, *op.operands, *op.properties.values(), *(r.type for r in op.results))
        for block in (block for region in op.regions for block in region.blocks):
            parts += (block, *block.args, *(arg.type for arg in block.args))
    return parts


def _run_step(compilation: Compilation, step: Step) -> None:
    try:
        step.run(compilation)
    except SizeError as error:
        raise CompileError(compilation.origin, error.what, error.hint) from error
    except (CompileError, InternalError, KeyboardInterrupt, MemoryError):
        raise
    except Exception as error:
        raise MemoryError if is_out_of_memory(error) else _blame(compilation, step) from error


def _dump(compilation: Compilation, step: Step, path: Path) -> None:
    """What a step leaves: MLIR, then what the target writes."""
    text: str | bytes
    if compilation.code is not None:
        path, text = path.with_suffix(compilation.code.suffix), compilation.code.text
        if compilation.forms is not None:
            text = next(iter(compilation.forms.values()))()
    else:
        path, text = path.with_suffix(".mlir"), ir_text.write(compilation, step.name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, text)
    except OSError as error:
        raise CompileError(str(path), f"cannot write: {error.strerror}") from error


def _blame(compilation: Compilation, step: Step) -> InternalError:
    origin = compilation.origin or called(compilation.source, "the net")
    failed = f"step {step.name!r} failed on {origin}"
    try:
        folder = Path(tempfile.gettempdir())
        stem = f"rnncc-{compilation.options.name}-{step.name}"
        path = write_new(folder, stem, ".mlir", ir_text.write(compilation, ""))
    except Exception as error:  # the IR may be what is wrong, or the disk full
        return InternalError(f"{failed}; its IR could not be written: {error}")
    return InternalError(f"{failed}; its IR is in {path}")
