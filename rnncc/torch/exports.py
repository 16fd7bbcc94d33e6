# pyright: basic, reportMissingImports=false
"""Modules as graphs of `torch.export`, in which recurrent layers stay whole."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from traceback import extract_tb
from typing import Any

import torch
import torch._functorch.apis
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from rnncc.errors import CompileError
from rnncc.frontends.torch.answers import Answers
from rnncc.frontends.torch.branches.regions import settle_branches
from rnncc.frontends.torch.graphs import forget_tensors_of
from rnncc.frontends.torch.node_context import EXPORTED_TRANSFORMS, line_of
from rnncc.frontends.torch.numbers.taken_numbers import refuse_taken
from rnncc.frontends.torch.own_operators.recurrent_op import kept_whole
from rnncc.frontends.torch.patches import ALONE
from rnncc.frontends.torch.trace import refused_by
from rnncc.frontends.torch.watching.reading import Questions, watching
from rnncc.torch.autograd import check_mode
from rnncc.torch.averages import dividing_by_tensors
from rnncc.torch.branching.reading import reading_branches
from rnncc.torch.decisions import noting_decisions
from rnncc.torch.export_costs import exporting
from rnncc.torch.objects.assigned import has_graphs_within, refusing_state
from rnncc.torch.objects.buffers import keeping_buffers
from rnncc.torch.objects.held_numbers import HeldNumbers
from rnncc.torch.objects.known_values import knowing_values
from rnncc.torch.objects.parameters import join_parameters, keeping_parameters
from rnncc.torch.objects.trees import make_known
from rnncc.torch.scripted import refuse_scripts, unscripted
from rnncc.torch.versions import not_validating, quiet


def export(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
) -> ExportedProgram:
    """`torch.export.export`, but recurrent layers stay whole: for `rnncc.compile` and `build`.

    Raises:
        CompileError: the module cannot be exported.
    """
    check_example(args, kwargs)
    plain = unscripted(module)
    program = HeldNumbers(plain).read(
        lambda: _export(plain, args, kwargs, dynamic_shapes, True, Answers(plain, None)),
        lambda program: program.graph_signature.buffers_to_mutate.values(),
    )
    join_parameters(program)
    program.graph_module.recompile()  # its code, which was not written
    return program


def check_example(args: Any, kwargs: Any) -> None:
    """Refuse what is no example of a call.

    Raises:
        CompileError: `args` is no tuple, or `kwargs` no mapping.
    """
    if not isinstance(args, tuple):
        what = f"args is an example of the arguments, a tuple, not {type(args).__name__}"
        raise CompileError("", what, "(x,) for a module that takes one tensor")
    if kwargs is not None and not isinstance(kwargs, Mapping):
        what = f"kwargs is an example of arguments by name, a dict, not {type(kwargs).__name__}"
        raise CompileError("", what, 'options go by name, as in build(module, args, out="dir")')


def _export(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None,
    shapes: Any,
    differentiable: bool,
    answers: Answers,
) -> ExportedProgram:
    make_known((args, dict(kwargs or {})))
    with ALONE:
        return reading_branches(
            module,
            lambda: _read(module, args, dict(kwargs or {}), shapes, differentiable, answers),
        )


def _read(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    shapes: Any,
    differentiable: bool,
    answers: Answers,
) -> ExportedProgram:
    name = type(module).__name__
    refuse_scripts(module, name)
    leaves = pytree.tree_leaves((args, keywords, *module.parameters()))
    for device in {x.device for x in leaves if isinstance(x, torch.Tensor)}:
        check_mode(device)
    questions = Questions()
    try:
        with (
            refusing_state(module, args, keywords) as nested,
            keeping_buffers(module),
            keeping_parameters,
            dividing_by_tensors(module),
            _without_transforms(name),
            watching(lambda: differentiable and torch.is_grad_enabled(), answers=answers),
            quiet(),
            refused_by(name, "torch.export"),
            exporting(),
            not_validating(),
            questions,
            knowing_values(),
            kept_whole(),
            noting_decisions() as deciding,
            torch.enable_grad(),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")  # nn.LSTM and its like, on their lists of weights
            program = torch.export.export(module, args, keywords, dynamic_shapes=shapes)
            nested.append(has_graphs_within(program))
            settle_branches(program.graph_module)
            refuse_taken(program.graph_module)
            deciding.append(program)
    finally:  # PyTorch's caches keep the fakes of a reading that failed, too
        if questions.fakes is not None:
            forget_tensors_of(questions.fakes)
    return program


_TRANSFORMS = [
    Path(torch._functorch.apis.__file__).parent / name for name in ("apis.py", "vmap.py")
]
"""Files of PyTorch that call a function that is to be transformed."""


@contextmanager
def _without_transforms(name: str) -> Generator[None]:
    """Refuse torch.func: PyTorch exports none, and raises errors of its own parts."""
    try:
        yield
    except CompileError as error:
        cause: BaseException | None = error
        while cause is not None:
            files = {Path(frame.filename) for frame in extract_tb(cause.__traceback__)}
            if not files.isdisjoint(_TRANSFORMS):
                raise CompileError(line_of(cause, name), *EXPORTED_TRANSFORMS) from error
            cause = cause.__context__
        raise


def exported(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None,
    shapes: Any,
    differentiable: bool,
    answers: Answers,
) -> tuple[ExportedProgram, dict[str, str]]:
    """The program, and what the user calls the symbols in it."""
    exported = _export(module, args, kwargs, shapes, differentiable, answers)
    arguments = inspect.signature(module.forward).bind(*args, **(kwargs or {})).arguments
    return exported, _symbol_names(exported, arguments, shapes)


def _symbol_names(
    exported: ExportedProgram, arguments: Mapping[str, Any], shapes: Any
) -> dict[str, str]:
    """What the user calls the symbols, from the place of each `Dim`."""
    names = dict[str, str]()
    if not shapes:
        return names
    places = exported.graph.find_nodes(op="placeholder")
    specs = exported.graph_signature.input_specs
    users = {spec.arg.name for spec in specs if spec.kind == InputKind.USER_INPUT}
    nodes = iter([node for node in places if node.name in users])
    for number, (name, value) in enumerate(arguments.items()):
        spec = shapes.get(name) if isinstance(shapes, dict) else shapes[number]
        _name(value, spec, nodes, names)
    return names


def _name(value: Any, spec: Any, nodes: Any, names: dict[str, str]) -> None:
    if isinstance(value, (list, tuple)):
        for part, own in zip(value, spec or [None] * len(value), strict=True):
            _name(part, own, nodes, names)
        return
    if isinstance(value, dict):
        for key, part in value.items():
            _name(part, (spec or {}).get(key), nodes, names)
        return
    shape = getattr(next(nodes).meta["val"], "shape", ())
    listed = spec if isinstance(spec, (list, tuple)) else ()
    for axis, dim in spec.items() if isinstance(spec, dict) else enumerate(listed):
        name = str(getattr(dim, "__name__", ""))
        if name.isidentifier() and axis < len(shape):
            names.setdefault(str(shape[axis]), name)
