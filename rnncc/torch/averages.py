# pyright: basic, reportMissingImports=false
"""Running means of batch norm over all calls (`momentum=None`) where code becomes a graph.

PyTorch divides by a number that it reads from a tensor, which a graph cannot hold.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

import torch
from torch._dynamo.symbolic_convert import InliningInstructionTranslator
from torch._dynamo.variables.base import VariableTracker
from torch.nn.modules.batchnorm import _BatchNorm

from rnncc.frontends.torch.patches import once
from rnncc.frontends.torch.readings import readings


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


@once
def take_averages() -> None:
    """Let TorchDynamo read such layers of cells so, too."""
    kind: Any = InliningInstructionTranslator
    own = kind.inline_call.__func__

    @wraps(own)
    def inline_call(cls: Any, tx: Any, function: Any, args: Any, *rest: Any, **kwargs: Any) -> Any:
        if readings.stack and getattr(function, "fn", None) is _BatchNorm.forward:
            layer = args[0].realize().value
            if layer.momentum is None:
                function = VariableTracker.build(tx, _averaged)
        return own(cls, tx, function, args, *rest, **kwargs)

    kind.inline_call = classmethod(inline_call)


def _averaged(part: Any, x: Any) -> Any:
    assert part.momentum is None  # TorchDynamo reads the cell again when that changes

    def own(x: Any) -> Any:
        known = part.running_mean, part.running_var, part.weight, part.bias
        is_own = part.training or part.running_mean is None
        return torch.nn.functional.batch_norm(x, *known, is_own, 0.0, part.eps)

    return _normalised(part, own, x)


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
