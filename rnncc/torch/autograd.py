# pyright: basic, reportMissingImports=false
"""A net as a function of PyTorch's autograd."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from rnncc_runtime.errors import ArrayError
from torch.autograd import forward_ad

from rnncc.errors import CompileError
from rnncc.frontends.torch.types import NARROW, as_computed, type_name
from rnncc.torch.devices import is_number
from rnncc.torch.nets import TorchNet, drawn_seed


def apply(net: TorchNet, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """The net's outputs, which know their gradients where some input wants one.

    Args:
        tensors: the inputs, in order, but for the seed of random numbers, which is drawn here.

    Raises:
        CompileError: the inputs are on several devices, autocast is on, or some input has a
            forward-mode gradient.
    """
    device = net.device(tensors)
    _check_narrow(net, tensors)
    tensors = [_parts(x.to(device) if is_number(x) else x) for x in tensors]
    if len(tensors) < len(net.inputs):
        tensors.append(drawn_seed(device))
    tensors = [
        x.detach() if x.requires_grad and i not in net.differentiated else x
        for i, x in enumerate(tensors)
    ]
    if forward_ad._current_level >= 0 and any(map(_is_dual, tensors)):
        raise CompileError("", "forward-mode gradients are not supported", "backward()")
    wanted = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    made: Iterable[torch.Tensor] = _Net.apply(net, *tensors) if wanted else net.infer(tensors)
    pairs = zip(made, net.outputs, strict=True)
    return [_whole(x, output.kind) for x, output in pairs]


def _check_narrow(net: TorchNet, tensors: list[torch.Tensor]) -> None:
    """Refuse 16 bits in the place of others, and the opposite: all are float32 to the code."""
    for number, x in enumerate(tensors):
        expected = net.narrow.get(number)
        if x.dtype != expected and (expected is not None or x.dtype in NARROW):
            want = "float32" if expected is None else type_name(expected)
            raise ArrayError(f"{net.inputs[number]} is {type_name(x.dtype)}, expected {want}")


def _parts(x: torch.Tensor) -> torch.Tensor:
    """A tensor as the net takes it: a complex one as its parts, 16 bits as float32."""
    return torch.view_as_real(x.resolve_conj()) if x.is_complex() else as_computed(x)


def _whole(x: torch.Tensor, kind: torch.dtype) -> torch.Tensor:
    """The opposite."""
    return torch.view_as_complex(x) if kind.is_complex else x.to(kind)


def _is_dual(x: torch.Tensor) -> bool:
    return forward_ad.unpack_dual(x).tangent is not None


def check_mode(device: torch.device) -> None:
    """Refuse autocast of what is computed on a device."""
    if torch.is_autocast_enabled(device.type):
        hint = f"torch.autocast('{device.type}', enabled=False)"
        raise CompileError("", "autocast is on, and compiled nets compute in float32", hint)


class _Net(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, net: TorchNet, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        outputs, tape = net.forward(tensors)
        ctx.set_materialize_grads(False)
        ctx.net, ctx.tapes = net, [tape]
        wanted = {number for number, needs in enumerate(ctx.needs_input_grad[1:]) if needs}
        pairs = zip(outputs, net.sources, strict=True)
        ctx.mark_non_differentiable(*(o for o, sources in pairs if not sources & wanted))
        ctx.save_for_backward(*tensors)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        tensors: tuple[torch.Tensor, ...] = ctx.saved_tensors  # an error if they were changed
        wanted = ctx.needs_input_grad[1:]
        if all(grad is None for grad in grads):
            return (None,) * (1 + len(tensors))
        with torch.no_grad():
            try:
                tape = ctx.tapes.pop()  # one thread alone gets it
            except IndexError:  # the graph was retained: forward leaves the same tape again
                tape = ctx.net.forward(tensors)[1]
            made = ctx.net.backward(tape, grads, tensors, wanted)
        if torch.is_grad_enabled():  # to differentiate the gradients again is an error, no zero
            made = _Once.apply(*(g if g is None else g.requires_grad_() for g in made))
        return (None, *made)


class _Once(torch.autograd.Function):
    """Gradients whose own gradients are not there."""

    @staticmethod
    def forward(ctx: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        return grads

    @staticmethod
    def backward(ctx: Any, *_: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        raise RuntimeError("rnncc: a compiled net has first derivatives alone")
