# pyright: basic, reportMissingImports=false
"""Inputs and outputs of nets.

A complex tensor has a last axis of its two parts there; one of float16 or bfloat16 is of float32,
one of uint8, int8 or int16 of int32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node
from xdsl.ir import SSAValue

from rnncc.errors import Location
from rnncc.frontends.torch.loops import Tensor
from rnncc.frontends.torch.types import element_type
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.nn.complex_numbers import Complex, packed, unpacked
from rnncc.records import record


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
    kind = element_type(tensor.dtype, where)
    if not tensor.is_complex():
        return add(name, list(dims), kind)
    return unpacked(b, add(name, [*dims, 2], kind))


def given_out(b: Builder, outputs: Mapping[str, Tensor]) -> dict[str, SSAValue]:
    """A net's outputs."""
    return {n: packed(b, x) if isinstance(x, Complex) else x for n, x in outputs.items()}


@record
class Dtypes:
    """What a net's inputs and outputs are in PyTorch.

    Attributes:
        inputs: in their order; the seed of random numbers is not among them.
        outputs: by name; those that are left out are what the net makes.
    """

    inputs: Sequence[torch.dtype]
    outputs: Mapping[str, torch.dtype]

    @staticmethod
    def of(inputs: Iterable[torch.Tensor], names: Iterable[str], results: Iterable[Any]) -> Dtypes:
        """Those of a graph that takes some tensors, given the nodes that make its outputs."""
        pairs = zip(names, results, strict=True)
        outputs = {name: node.meta["val"].dtype for name, node in pairs if isinstance(node, Node)}
        return Dtypes([x.dtype for x in inputs], outputs)
