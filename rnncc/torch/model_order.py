"""The tensors of a compiled model by those of its net: calls go by their numbers, not by names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rnncc_runtime.arrays import read_specs

from rnncc.ir.ops.control import Net


def check_order(net: Net, metadata: Mapping[str, Any]) -> None:
    """See that a model has its inputs and outputs in the net's order."""
    for group, values in (("inputs", net.inputs), ("outputs", net.outputs)):
        assert [*read_specs(metadata[group])] == [*values]


def differentiated(net: Net, metadata: Mapping[str, Any]) -> tuple[list[int], list[int]]:
    """The numbers of the outputs and of the inputs that have gradients, in the model's order.

    Args:
        metadata: of a model that is trained.
    """
    outputs, inputs = list(net.outputs), list(net.inputs)
    seeds, grads = read_specs(metadata["output_grads"]), read_specs(metadata["grads"])
    return [outputs.index(name) for name in seeds], [inputs.index(name) for name in grads]
