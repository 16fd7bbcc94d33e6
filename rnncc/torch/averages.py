# pyright: basic, reportMissingImports=false
"""Running means of batch norm over all calls (`momentum=None`) while a module is exported.

PyTorch divides by a number that it reads from a tensor, which a graph cannot hold.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm


@contextmanager
def dividing_by_tensors(module: torch.nn.Module) -> Generator[None]:
    """While it lasts, such layers of `module` divide by the tensor that counts their calls."""
    layers = [part for part in module.modules() if isinstance(part, _BatchNorm)]
    layers = [x for x in layers if x.momentum is None and "forward" not in vars(x)]
    for layer in layers:
        setattr(layer, "forward", partial(_normalised, layer, layer.forward))  # noqa: B010
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


def _normalised(part: Any, own: Callable[..., Any], x: Any) -> Any:
    if not part.training or part.num_batches_tracked is None:
        return own(x)
    mean, variance = torch.zeros_like(part.running_mean), torch.zeros_like(part.running_var)
    part._check_input_dim(x)
    y = torch.nn.functional.batch_norm(
        x, mean, variance, part.weight, part.bias, True, 1.0, part.eps
    )
    with torch.no_grad():
        part.num_batches_tracked.add_(1)
        for running, new in ((part.running_mean, mean), (part.running_var, variance)):
            running.add_((new - running) / part.num_batches_tracked)
    return y
