# pyright: basic, reportMissingImports=false
"""`rnncc::elementwise`: a user's function of numbers as an operator of a graph.

An operator's arguments are tensors and numbers, so functions go by the number under which they
were first used.
"""

from __future__ import annotations

import threading
from typing import Any

import torch

from rnncc.frontends.torch.node_context import NodeContext, Table, Value
from rnncc.scalar import Scalar

_library = torch.library.Library("rnncc", "FRAGMENT")
_library.define("elementwise(Tensor[] xs, int function) -> Tensor")
ELEMENTWISE = torch.ops.rnncc.elementwise.default
_lock = threading.Lock()
_functions: list[Scalar] = []


def number_of(function: Scalar) -> int:
    """What stands for a function; the function is kept."""
    with _lock:
        if function not in _functions:
            _functions.append(function)
        return _functions.index(function)


@torch.library.register_fake("rnncc::elementwise", lib=_library)
def _shape(xs: list[torch.Tensor], function: int) -> torch.Tensor:
    return torch.empty_like(xs[0])


@torch.library.impl("rnncc::elementwise", ("CPU", "CUDA"), lib=_library)
def _computed(xs: list[torch.Tensor], function: int) -> torch.Tensor:
    """Outside of compiled code: in float64 on the CPU, as the interpreter does."""
    y = _functions[function](*(x.detach().cpu().numpy() for x in xs))
    return torch.from_numpy(y).to(xs[0].device, xs[0].dtype)


def _setup(ctx: Any, inputs: tuple[list[torch.Tensor], int], output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs[0])
    ctx.function = inputs[1]


def _backward(ctx: Any, grad: torch.Tensor) -> tuple[list[torch.Tensor], None]:
    xs, function = list(ctx.saved_tensors), _functions[ctx.function]
    slopes = [number_of(function.partial(i)) for i in range(len(xs))]
    return [grad * torch.ops.rnncc.elementwise(xs, slope) for slope in slopes], None


torch.library.register_autograd("rnncc::elementwise", _backward, setup_context=_setup, lib=_library)


def _applied(s: NodeContext, xs: list[Value], function: int) -> Value:
    return s.b.apply(_functions[function], *(s.value(x) for x in xs))


OPERATORS: Table = {"rnncc::elementwise": _applied}
