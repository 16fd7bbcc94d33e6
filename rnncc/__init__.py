"""An ahead-of-time compiler for recurrent nets.

    model = rnncc.compile("net.pb", init="init.pb")          # in memory
    model = rnncc.compile("net.pb", init="init.pb", train=True)  # forward, backward
    files = rnncc.build("net.pb", init="init.pb", out="build")  # libnet.so, net.h, net.py
    rnncc.plan("net.pb", init="init.pb")  # where its memory goes

Importing this package is light: the compiler itself is imported when it is first used.
"""

# pyright: reportMissingImports=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from rnncc.version import __version__

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Unpack

    from onnx import ModelProto
    from rnncc_runtime import Model, TrainableModel
    from torch.export import ExportedProgram

    from rnncc import cells as cells
    from rnncc import torch as torch
    from rnncc.errors import CompileError as CompileError
    from rnncc.ir.program import Program
    from rnncc.keywords import BuildKeywords, NamedKeywords, Progress
    from rnncc.netdef import NetDef
    from rnncc.packaging.compiled import Artifacts
    from rnncc.planning.report import PlanReport
    from rnncc.scalar import elementwise as elementwise

    Source = str | Path | bytes | NetDef | ModelProto | Program | ExportedProgram


__all__ = ["CompileError", "__version__", "build", "cells", "compile", "elementwise", "plan"]


def __getattr__(name: str) -> Any:
    """What imports much, when it is first used."""
    if name == "CompileError":
        return import_module("rnncc.errors").CompileError
    if name in ("cells", "torch"):
        return import_module(f"rnncc.{name}")
    if name == "elementwise":
        return import_module("rnncc.scalar").elementwise
    raise AttributeError(f"module 'rnncc' has no attribute {name!r}")


@overload
def compile(
    net: Source,
    init: Source | None = None,
    *,
    train: Literal[True],
    max_input: int | str | None = None,
    device: str | None = None,
    progress: Progress = False,
    **options: Unpack[NamedKeywords],
) -> TrainableModel: ...


@overload
def compile(
    net: Source,
    init: Source | None = None,
    *,
    train: Literal[False] = False,
    max_input: int | str | None = None,
    device: str | None = None,
    progress: Progress = False,
    **options: Unpack[NamedKeywords],
) -> Model: ...


def compile(
    net: Source,
    init: Source | None = None,
    *,
    train: bool = False,
    max_input: int | str | None = None,
    device: str | None = None,
    progress: Progress = False,
    **options: Unpack[NamedKeywords],
) -> Model | TrainableModel:
    """Compile a net in memory, for this machine; needs no linker.

    Args:
        net: what to compile, one of

            - a Caffe2 net: a path (.pb, .pbtxt), the file's bytes, or a NetDef message;
            - an ONNX model: a path, the file's bytes, or a ModelProto;
            - a program of PyTorch: an `ExportedProgram`, or the path of a .pt2 file
              (`rnncc.torch.compile` and `scan` take modules and cells themselves);
            - what a function of `rnncc.cells` built;
            - a path that `rnncc compile --emit rnn` wrote (.rnn.mlir).
        init: of a Caffe2 net, the net that fills its parameters; what it does not fill is an input
            of the model.
        train: a `TrainableModel` with `forward`, `backward` and parameters to update, where
            options["recompute"] (auto, none, all or names) tells what `backward` computes again,
            and options["outputs_with_grads"] the outputs that a loss depends on. With order=2 the
            net gives its gradients too, and `backward` theirs.
        max_input: the most bytes that a file may hold, such as "4G"; 2G, or RNNCC_MAX_INPUT,
            without it (docs/security.md).
        device: "cpu", or "cuda" for an NVIDIA GPU, "cuda:1" for that of a number; the model is a
            `rnncc_runtime.cuda.CudaModel` then, or a `CudaTrainableModel`.
        progress: True prints each step of the compiler to stderr as it begins; or a function that
            gets its name.
        options: as `rnncc.options.Options` describes them:

            - shapes={"x": ("T", "N", 40)}, bind={"sr": 16000}, state={"h": "h_next"}: what inputs
              are; max_iterations of loops that do not tell; max_steps of a call; seed of random
              fills;
            - precision="bf16" or "int8" of weights; threads=True for calls by several threads;
              flush_denormals=True;
            - cpu, target, tune and tuning: the machine;
            - order, recompute, outputs_with_grads, memory_budget, plan_for, prepack: of training;
            - functions: operators of an ONNX model -> what `rnncc.elementwise` made;
            - dump_ir, time_passes, verify_each: to look inside;
            - name, by default the file's.

    Raises:
        CompileError: the net is damaged, wrong, or has what rnncc does not support.
        rnncc_runtime.LoadError: there is no such GPU, or it has no room for the model.
    """
    from rnncc.driver import in_memory
    from rnncc.options import Options, check_plan_for

    stated: dict[str, Any] = {**options}
    with _limited(max_input), _watched(progress):
        net, init = _read(net, stated), _read(init)
        kind, number = _device(device)
        chosen = Options.of(net, {**stated, "train": train, "device": kind})
        check_plan_for(chosen)
        return in_memory.compile_in_memory(net, init, chosen, number)


def build(
    net: Source,
    init: Source | None = None,
    out: str | Path = ".",
    name: str | None = None,
    products: Iterable[str] | None = None,
    max_input: int | str | None = None,
    *,
    wheel_version: str | None = None,
    progress: Progress = False,
    **options: Unpack[BuildKeywords],
) -> Artifacts:
    """Compile a net into files: `libNAME.so`, `NAME.h`, `NAME.py`.

    Args:
        net, init, progress, options: as for `compile`, train=True among them; device="cuda" makes a
            library for NVIDIA GPUs, with machine code for cpu="sm_80,sm_90a" where a ptxas is
            found.
        out: the folder to write into; made if need be.
        name: NAME; without it the file's stem.
        products: which files, among so, h, py, o, a, pc, cmake, wheel; so, h and py without it.
            With target="reference" among c, h: the source of a library that any C compiler takes.
        max_input: as for `compile`.
        wheel_version: of the product wheel; 0.1 without it.

    Raises:
        CompileError: as for `compile`; or no linker is found; or a file cannot be written.
    """
    from rnncc.codegen import targets
    from rnncc.driver import compiling
    from rnncc.errors import CompileError
    from rnncc.options import Options, check_plan_for, is_path
    from rnncc.packaging.products import check_kinds, check_wheel, prepare, write_products
    from rnncc.packaging.wheel import DEFAULT_VERSION
    from rnncc.sources import noted

    stated: dict[str, Any] = {**options}
    if not is_path(out):
        raise CompileError("out", f"{out!r} is not a path")
    with _limited(max_input), _watched(progress):
        net, init = _read(net, stated), _read(init)
        chosen = Options.of(net, {**stated, "name": name})
        check_plan_for(chosen)
        row = targets.row_of(chosen.target)
        kinds = check_kinds(products, chosen.name, row.products, row.by_default)
        check_wheel(wheel_version, kinds)
        with noted() as read:
            compiled = compiling.compile_object(net, init, chosen, lambda: prepare(kinds))
    return write_products(compiled, Path(out), kinds, wheel_version or DEFAULT_VERSION, read)


def plan(
    net: Source,
    init: Source | None = None,
    *,
    train: bool = False,
    max_input: int | str | None = None,
    **options: Unpack[NamedKeywords],
) -> PlanReport:
    """Where every buffer of a compiled net lies, and when: a notebook shows the plan's picture.

    Args:
        net, init, train, max_input, options: as for `compile`; the figures are for the sizes of
            options["plan_for"], such as "T=100,N=4".

    Raises:
        CompileError: as for `compile`; or `plan_for` names no sizes of the net.
    """
    from rnncc.driver import planning
    from rnncc.options import Options

    stated: dict[str, Any] = {**options}
    with _limited(max_input):
        net, init = _read(net, stated), _read(init)
        chosen = Options.of(net, {**stated, "train": train})
        return planning.report_of(net, init, chosen, chosen.plan_for)


def _device(device: str | None) -> tuple[str | None, int | None]:
    """What computes, and its number among its like."""
    from rnncc.errors import CompileError
    from rnncc.sizes import number_of

    if not isinstance(device, str | None):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise CompileError("device", f"{device!r} is not a text, such as cpu or cuda")
    kind, colon, number = (device or "").partition(":")
    if colon and kind == "cuda" and (place := number_of(number)) is not None:
        return kind, place
    return device, None


def _limited(most: int | str | None) -> AbstractContextManager[None]:
    """Bounds what is read until the end of the block."""
    from rnncc.sizes import parse_bytes
    from rnncc.sources import limited

    return limited(None if most is None else parse_bytes(most, "max_input"))


def _watched(progress: Progress) -> AbstractContextManager[None]:
    """Tells the steps of compilations until the end of the block."""
    if not progress:
        return nullcontext()
    from rnncc.errors import CompileError

    if progress is not True and not callable(progress):
        raise CompileError("progress", f"{progress!r} is neither true nor a function")
    from rnncc.driver.trace import tell, watched

    return watched(tell if progress is True else progress)


def _read(net: Any, options: dict[str, Any] | None = None) -> Any:
    """A program of `torch.export` as a net, a pipe as what it holds; anything else as it is.

    The program takes its shapes out of the options.
    """
    if options is not None and type(net).__module__ == "torch.export.exported_program":
        from rnncc.frontends.torch.programs.files import import_file

        return import_file(net, "net", options.pop("shapes", {}))
    from rnncc.sources import settled

    return settled(net)
