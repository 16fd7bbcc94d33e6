"""Reads a net in any format that there is a front end for."""

from __future__ import annotations

from typing import Any

from rnncc.errors import CompileError
from rnncc.frontends.onnx.reading import is_onnx
from rnncc.frontends.torch.programs.archives import is_exported
from rnncc.frontends.torch.programs.files import import_file
from rnncc.ir.bounds import bounds_of
from rnncc.ir.program import Program
from rnncc.ir.recompute import RULES
from rnncc.options import Options
from rnncc.passes.cleanup.fold_constants import fold_constants
from rnncc.sources import called
from rnncc.stages import ir_text
from rnncc.stages.compilation import Compilation

MOST_SIZES = 256
"""Every function takes all: code and time grow with their square, to 4 s here."""


def read(compilation: Compilation) -> None:
    """The net, or the half-compiled model that a file of ours holds."""
    c = compilation
    if ir_text.is_ir(c.source):
        ir_text.read(c)
        return
    program = import_source(c.source, c.init, c.options)
    if (count := len(program.symbols)) > MOST_SIZES:
        what = f"has {count} open sizes; at most {MOST_SIZES} are compiled"
        raise CompileError(called(c.source, "<net>"), what, "--shape gives sizes as numbers")
    c.programs = {"net": program}
    c.symbols, c.inputs = program.symbols, list(program.net.inputs)
    c.bounds, c.counts = bounds_of(program.net, program.bounds), program.counts
    c.texts = program.texts


def import_source(net: Any, init: Any, options: Options) -> Program:
    """Read a net as a program, checked: a Program, an exported one of PyTorch, an ONNX model, else
    a Caffe2 net."""
    if options.functions and not is_onnx(net):
        raise CompileError("functions", "are operators of ONNX models, and the net is none")
    if isinstance(net, Program):
        return _take(net, init, options)
    if is_exported(net):
        return _read_exported(net, init, options)
    return (_read_onnx if is_onnx(net) else _read_caffe2)(net, init, options)


def _read_exported(exported: Any, init: Any, options: Options) -> Program:
    if init is not None or options.bind:
        what = "an init net" if init is not None else "constants"
        where = called(exported, "")
        raise CompileError(where, f"{what} given for a program of torch.export, which has its own")
    return import_file(exported, options.name, dict(options.shapes))


def _read_onnx(model: Any, init: Any, options: Options) -> Program:
    from rnncc.frontends.onnx.importer import import_model

    if init is not None:
        raise CompileError("--init", "an ONNX model holds its parameters itself")
    return import_model(
        model,
        shapes=dict(options.shapes),
        name=options.name,
        max_iterations=options.max_iterations,
        training=options.train,
        functions=options.functions,
        bind=options.bind,
    )


def _read_caffe2(net: Any, init: Any, options: Options) -> Program:
    from rnncc.frontends.caffe2 import import_net

    if isinstance(options.max_iterations, str):
        what = f"{options.max_iterations!r} is no number, and formulas go with ONNX models"
        raise CompileError("--max-iterations", what)
    names = options.recompute_names if options.train and options.recompute not in RULES else None
    return import_net(
        net,
        init,
        dict(options.shapes),
        name=options.name,
        seed=options.seed,
        recompute=names,
        max_iterations=options.max_iterations,
        training=options.train,
        bind=options.bind,
    )


def _take(program: Program, init: Any, options: Options) -> Program:
    """A copy of a program that was built in Python; its shapes and parameters are in it."""
    if init is not None or options.shapes or options.bind:
        what = "an init net" if init is not None else "shapes" if options.shapes else "constants"
        raise CompileError(program.source, f"{what} given for a net that has its own")
    copied = program.copy()
    copied.name = options.name
    return copied


def fold(compilation: Compilation) -> None:
    """Compute what depends on parameters alone."""
    for program in compilation.programs.values():
        fold_constants(program)
