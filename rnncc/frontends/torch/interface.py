# pyright: basic, reportMissingImports=false
"""Inputs and outputs of nets: a complex tensor has a last axis of its two parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from xdsl.ir import SSAValue

from rnncc.errors import Location
from rnncc.frontends.torch.loops import Tensor
from rnncc.frontends.torch.types import element_type
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.nn.complex_numbers import Complex, packed, unpacked


def declared(
    b: Builder,
    add: Callable[..., SSAValue],
    name: str,
    tensor: torch.Tensor,
    dims: Sequence[Dim],
    where: Location | str = "",
) -> Tensor:
    """An input or parameter for a tensor; `add` is the builder's method for it.

    Raises:
        CompileError: its dtype is not supported.
    """
    kind = element_type(tensor.dtype.to_real(), where)
    if not tensor.is_complex():
        return add(name, list(dims), kind)
    return unpacked(b, add(name, [*dims, 2], kind))


def given_out(b: Builder, outputs: Mapping[str, Tensor]) -> dict[str, SSAValue]:
    """A net's outputs."""
    return {n: packed(b, x) if isinstance(x, Complex) else x for n, x in outputs.items()}


def complex_ones(outputs: Mapping[str, Tensor]) -> frozenset[str]:
    """The names of outputs that are pairs."""
    return frozenset(name for name, x in outputs.items() if isinstance(x, Complex))
