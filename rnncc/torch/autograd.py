# pyright: basic, reportMissingImports=false
"""A loop as a function of PyTorch's autograd."""

from __future__ import annotations

from typing import Any

import torch

from rnncc.torch.loops import Loop


def apply(loop: Loop, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """The loop's outputs, which know their gradients where some input wants one."""
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        return list(_Loop.apply(loop, *tensors))  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
    return loop.infer(tensors)


class _Loop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, loop: Loop, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        outputs, tape = loop.forward(tensors)
        ctx.set_materialize_grads(False)
        ctx.loop, ctx.tapes = loop, [tape]
        ctx.mark_non_differentiable(*(o for o in outputs if not o.is_floating_point()))
        ctx.save_for_backward(*tensors)
        ctx.outputs = len(outputs)
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
                tape = ctx.loop.forward(tensors)[1]
            made = ctx.loop.backward(tape, grads, tensors, wanted)
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
        raise RuntimeError("rnncc: a compiled loop has first derivatives alone")
