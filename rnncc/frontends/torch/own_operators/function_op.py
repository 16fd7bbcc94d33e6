# pyright: basic, reportMissingImports=false
"""`rnncc::with_gradient`: a torch.autograd.Function, its forward and backward in one graph.

    values = forward(inputs)
    grads = gradient_of(values)           stands for what will come from outside
    input_grads = backward(grads)
    results = with_gradient(values, inputs, grads, input_grads)

The results are the values, and `input_grads` are to be the gradients of the inputs. So whatever
traces operators, in whatever way, reads both; `function_body.py` takes them apart again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

import torch
from torch.autograd.function import once_differentiable

_library = torch.library.Library("rnncc", "FRAGMENT")
_library.define("gradient_of(Tensor x) -> Tensor")
_library.define(
    "with_gradient(Tensor[] values, Tensor[] inputs, Tensor[] grads, Tensor[] given) -> Tensor[]"
)
GRADIENT_OF = torch.ops.rnncc.gradient_of.default
WITH_GRADIENT = torch.ops.rnncc.with_gradient.default


@torch.library.register_fake("rnncc::gradient_of", lib=_library)
def _gradient(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.register_fake("rnncc::with_gradient", lib=_library)
def _values(values: Sequence[torch.Tensor], *_: Any) -> list[torch.Tensor]:
    return [torch.empty_like(value) for value in values]


class FunctionContext:
    """What a Function's methods know as `ctx`; they may put anything else there."""

    def __init__(self, args: Sequence[Any], inside: Sequence[Any]) -> None:
        self.needs_input_grad = tuple([_has_gradient(x) for x in args])
        self.args, self.inside = args, inside
        self.materialize_grads = True
        self.to_save: tuple[Any, ...] = ()
        self.non_differentiable: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors."""
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Forward-mode gradients are refused elsewhere."""

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors kept; inputs as they were given, which second derivatives flow to."""
        return tuple([self._as_given(x) for x in self.to_save])

    def _as_given(self, x: Any) -> Any:
        for inside, arg in zip(self.inside, self.args, strict=True):
            if x is inside:
                return arg
        return x

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Results that have no gradient."""
        self.non_differentiable = tensors

    def mark_dirty(self, *_: Any) -> None:
        """Inputs that are changed in place."""
        raise NotImplementedError("ctx.mark_dirty is not supported")

    def set_materialize_grads(self, value: bool) -> None:
        """Whether gradients that are not there are zeros."""
        self.materialize_grads = value


def applied(
    forward: Callable[..., Any],
    setup_context: Callable[..., Any] | None,
    backward: Callable[..., Any],
    args: Sequence[Any],
    once: bool,
) -> Any:
    """What a Function gives; TorchDynamo reads this too.

    Args:
        forward, backward: its methods.
        setup_context: its method, where forward does not take the context.
        args: what it is applied to.
        once: whether backward must not be differentiated.

    Raises:
        NotImplementedError, RuntimeError: it does what is not supported, or what PyTorch refuses.
    """
    inside = tuple([_detached(x) for x in args])
    context = FunctionContext(args, inside)
    if setup_context is None:
        returned = forward(context, *inside)
    else:
        returned = forward(*inside)
        setup_context(context, inside, returned)
    outputs = returned if isinstance(returned, tuple) else (returned,)
    _check(args, outputs)
    unmarked = [all(y is not x for x in context.non_differentiable) for y in outputs]
    live = [_has_gradient(y) and free for y, free in zip(outputs, unmarked, strict=True)]
    if not context.materialize_grads and live.count(True) > 1:
        raise NotImplementedError("ctx.set_materialize_grads(False) is not supported")
    grads = [
        _gradient_given(y, open, context.materialize_grads)
        for y, open in zip(outputs, live, strict=True)
    ]
    input_grads = backward(context, *map(_copy, grads))
    input_grads = input_grads if isinstance(input_grads, tuple) else (input_grads,)
    if once:
        input_grads = tuple([_detached(x) for x in input_grads])
    results = _results(outputs, live, args, grads, input_grads)
    return results if isinstance(returned, tuple) else results[0]


def with_graphs(
    run: Callable[..., Any],
    forward: Any,
    backward: Any,
    *args: Any,
    non_differentiable_idx: Sequence[int] = (),
    dirty_idx: Sequence[int] = (),
    args_tensor_mask: Sequence[bool] | None = None,
    **_: Any,
) -> Any:
    """The same of the graphs that TorchDynamo makes of a Function, by itself.

    Args:
        run: calls a graph.
        forward: (args...) -> what it gives, and what backward takes besides gradients.
    """
    if dirty_idx:
        raise NotImplementedError("ctx.mark_dirty is not supported")
    if args_tensor_mask is not None:  # its graphs take a context
        raise NotImplementedError("a torch.autograd.Function in the form of an older PyTorch")
    inside = tuple([_detached(x) for x in args])
    returned, saved = run(forward, *inside)
    context = FunctionContext(args, inside)
    context.save_for_backward(*saved)
    outputs = tuple(returned) if isinstance(returned, (tuple, list)) else (returned,)
    _check(args, outputs)
    live = [_has_gradient(y) and i not in non_differentiable_idx for i, y in enumerate(outputs)]
    grads = [_gradient_given(y, open, True) for y, open in zip(outputs, live, strict=True)]
    input_grads = run(backward, *map(_copy, grads), *context.saved_tensors)
    input_grads = tuple(input_grads) if isinstance(input_grads, (tuple, list)) else (input_grads,)
    results = _results(outputs, live, args, grads, input_grads)
    return results if isinstance(returned, (tuple, list)) else results[0]


def methods_of(function: Any) -> tuple[str, str | None, str]:
    """The names of a Function's forward, of setup_context where it has one, and of backward."""
    own = function.setup_context is not torch.autograd.Function.setup_context
    by_vjp = function.vjp is not torch.autograd.Function.vjp
    return "forward", "setup_context" if own else None, "vjp" if by_vjp else "backward"


_ONCE = once_differentiable(lambda ctx: None).__code__


def is_once(function: Any) -> bool:
    """Whether a Function's backward is marked by PyTorch's `once_differentiable`."""
    backward = getattr(function, methods_of(function)[2])
    return undecorated(backward) is not backward


def undecorated(backward: Any) -> Any:
    """A backward without PyTorch's `once_differentiable`."""
    return backward.__wrapped__ if getattr(backward, "__code__", None) is _ONCE else backward


def in_order(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Arguments by their places, as PyTorch has them.

    Raises:
        TypeError: a name is not known, or one is left out before it.
    """
    if not kwargs:
        return list(args)
    names = list(signature(function.forward).parameters)
    names = names if methods_of(function)[1] else names[1:]
    last = max(names.index(name) if name in names else len(names) for name in kwargs)
    missing = [name for name in names[len(args) : last + 1] if name not in kwargs]
    if last == len(names) or missing or any(name in kwargs for name in names[: len(args)]):
        raise TypeError(f"arguments {', '.join(kwargs)} do not fit forward's")
    return [*args, *(kwargs[name] for name in names[len(args) : last + 1])]


def _check(args: Sequence[Any], outputs: Sequence[Any]) -> None:
    """Refuse what is not supported of what a Function takes and gives."""
    if any(isinstance(y, (list, dict)) for y in outputs):
        raise NotImplementedError("it gives lists or dicts")
    if any(isinstance(x, torch.Tensor) and x.is_complex() for x in (*args, *outputs)):
        raise NotImplementedError("it takes or gives complex numbers")


def _has_gradient(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.is_floating_point()


def _detached(x: Any) -> Any:
    """What forward gets: whatever it leaves elsewhere than in its results has no gradient.

    And what a backward gives that is differentiable once.
    """
    return x.detach() if _has_gradient(x) else x


def _copy(grad: Any) -> Any:
    """What backward may change in place."""
    return grad.clone() if isinstance(grad, torch.Tensor) else grad


def _gradient_given(y: Any, live: bool, materialize: bool) -> Any:
    """What backward gets for one result."""
    if live:
        return torch.ops.rnncc.gradient_of(y)
    return torch.zeros_like(y) if isinstance(y, torch.Tensor) and materialize else None


def _results(
    outputs: Sequence[Any],
    live: Sequence[bool],
    args: Sequence[Any],
    grads: Sequence[Any],
    input_grads: Sequence[Any],
) -> tuple[Any, ...]:
    """The results, which have the gradients that backward has given."""
    count = len(args)
    if len(input_grads) < count or any(extra is not None for extra in input_grads[count:]):
        raise RuntimeError(f"backward gives {len(input_grads)} gradients of {count} inputs")
    inputs, parts = [], []
    for x, part in zip(args, input_grads, strict=False):
        if part is not None and not isinstance(x, torch.Tensor):
            raise RuntimeError("backward gives a gradient of what is no tensor")
        if part is not None and _has_gradient(x):
            inputs.append(x)
            parts.append(_fitting(part, x))
    values = [y for y, open in zip(outputs, live, strict=True) if open]
    own = [grad for grad, open in zip(grads, live, strict=True) if open]
    if not inputs:
        own, parts = [], []
    differentiable = iter(
        torch.ops.rnncc.with_gradient(values, inputs, own, parts) if values else []
    )
    return tuple(
        [
            next(differentiable) if open else _constant(y)
            for y, open in zip(outputs, live, strict=True)
        ]
    )


def _fitting(part: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """A gradient as large as its input, as PyTorch makes it."""
    if part.shape != x.shape:
        part = part.sum_to_size(x.shape)
    return part.to(x.dtype)


def _constant(y: Any) -> Any:
    """A result without a gradient."""
    return torch.ops.rnncc.with_gradient([y], [], [], [])[0] if _has_gradient(y) else y
