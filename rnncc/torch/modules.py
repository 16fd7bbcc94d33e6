"""`compile` and `build`: modules of PyTorch, by way of `torch.export`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

import rnncc
from rnncc.errors import CompileError
from rnncc.frontends.torch.answers import Answers
from rnncc.frontends.torch.programs.exported import Exported, import_exported
from rnncc.options import check_flag
from rnncc.packaging.compiled import Artifacts
from rnncc.torch.compiled_module import CompiledModule, Example
from rnncc.torch.exports import check_example, exported
from rnncc.torch.nets import check_precision
from rnncc.torch.objects.held_numbers import HeldNumbers
from rnncc.torch.objects.parameters import join_parameters
from rnncc.torch.objects.trees import make_known
from rnncc.torch.scripted import refuse_scripts, unscripted


def compile(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    train: bool | None = None,
    frozen: bool = False,
    precision: str = "fp32",
) -> CompiledModule:
    """Compile a module: whole sequences or one step, for inference and training.

    Args:
        module: compiled as it is, in `train()` or `eval()` mode; once more where it is called in
            another mode, or consists of other modules.
        args, kwargs: an example of what it is called with; sizes stay as they are in it, but for
            dynamic ones. The module and it may be on a GPU; so may what it is called with later.
        dynamic_shapes: as for `torch.export.export`: {"x": {0: Dim("T"), 1: Dim("N")}}.
        train: compile at once for calls with gradients, or for those without; by default each kind
            is compiled when it is first called for.
        frozen: whether the parameters' values are packed into the code, for inference alone;
            else they are read where the module has them, at every call.
        precision: fp32, or bf16 on a GPU, whose products are of rounded values then, those of
            gradients too; of a frozen module also int8, and on a CPU (docs/precision.md).

    Returns:
        A module with the parameters of the given one, to be called as that is.

    Raises:
        CompileError: the module cannot be exported, or does what is not supported.
    """
    if not isinstance(module, torch.nn.Module):  # pyright: ignore[reportUnnecessaryIsInstance]
        what = f"{type(module).__name__} {module!r:.40} is no module of PyTorch"
        raise CompileError("", what, "rnncc.torch.scan and torch.compile take functions")
    refuse_scripts(module, type(module).__name__)  # before hooks, which they do not take
    check_flag(frozen, "frozen")
    if train and frozen:
        raise CompileError("", "a frozen module has no gradients", "train=False")
    check_precision(precision, frozen)
    check_example(args, kwargs)
    known = make_known((args, dict(kwargs or {})))
    own, named = pytree.tree_map_only(torch.Tensor, _kept, known)
    compiled = CompiledModule(module, Example(own, named, dynamic_shapes, frozen, precision))
    if train is not None:
        compiled.prepare(train)
    return compiled


def _kept(x: torch.Tensor) -> torch.Tensor:
    """A tensor of an example without what it was made of."""
    return x.detach().requires_grad_(x.requires_grad)


def build(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    out: str | Path = ".",
    name: str = "net",
    products: Iterable[str] = ("so", "h", "py"),
    **options: Any,
) -> Artifacts:
    """Compile a module into files that need neither PyTorch nor rnncc.

    Args:
        module, args, kwargs, dynamic_shapes: as for `compile`; a module of TorchScript, such as
            `torch.jit.load` gives, will do.
        out, name, products, options: as for `rnncc.build`.

    Raises:
        CompileError: as for `compile` and `rnncc.build`.
    """
    check_example(args, kwargs)
    train = bool(options.get("train"))
    plain = unscripted(module)

    def read() -> Exported:
        answers = Answers(plain, train)
        graph, names = exported(plain, args, kwargs, dynamic_shapes, train, answers)
        join_parameters(graph)
        return import_exported(graph, name, names, packed=True)

    program = HeldNumbers(plain).read(read, lambda net: net.changed).program
    return rnncc.build(program, out=out, name=name, products=products, **options)
