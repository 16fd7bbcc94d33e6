# pyright: basic, reportMissingImports=false
"""Users' functions of numbers for tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from rnncc.errors import CompileError
from rnncc.frontends.torch.own_operators.scalar_op import number_of
from rnncc.scalar import Scalar
from rnncc.scalar import elementwise as make


def elementwise(function: Callable[..., Any] | Scalar) -> Callable[..., torch.Tensor]:
    """A function of numbers as one of tensors, for cells and modules; used as a decorator.

    Args:
        function: as for `rnncc.elementwise`, or what that made.

    Returns:
        A function of float tensors, which broadcast; it knows its first derivatives. Compiled by
        `scan` and `compile` it is vector code; elsewhere each element is computed in float64.

    Raises:
        CompileError: as `rnncc.elementwise` does; later, where a tensor is no float.
    """
    scalar = function if isinstance(function, Scalar) else make(function)
    number, count = number_of(scalar), scalar.count

    def apply(*tensors: torch.Tensor) -> torch.Tensor:
        if len(tensors) != count:
            raise CompileError("", f"{scalar.name} takes {count} tensors, not {len(tensors)}")
        wide = torch.broadcast_tensors(*tensors)
        if not all(x.is_floating_point() for x in wide):
            raise CompileError("", f"{scalar.name} takes tensors of floats")
        return torch.ops.rnncc.elementwise(list(wide), number)

    return apply
