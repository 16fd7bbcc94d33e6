# pyright: basic, reportMissingImports=false
"""A net as a function of PyTorch's autograd."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from typing import Any

import torch
from rnncc_runtime.errors import ArrayError
from torch._C._functorch import is_functorch_wrapped_tensor, is_legacy_batchedtensor
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from rnncc.errors import CompileError
from rnncc.frontends.torch.types import DTYPES, NARROW, as_computed, type_name
from rnncc.torch.devices import common_device, is_number, single_device
from rnncc.torch.nets import TorchNet, drawn_seed

_Tensors = Sequence[torch.Tensor]
_Optionals = Sequence[torch.Tensor | None]


def apply(net: TorchNet, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """The net's outputs, which know their gradients where some input wants one.

    Args:
        tensors: the inputs, in order, but for the seed of random numbers, which is drawn here.

    Raises:
        CompileError: the inputs are on several devices, or what is done is recorded.
    """
    check_untraced()
    device = single_device(tensors)
    if device is None:
        device = common_device(net.inputs, tensors)
        tensors = [x.to(device) if is_number(x) else x for x in tensors]
    hooked = frozenset([i for i in net.reached_by_some if _is_hooked(tensors[i])])
    if net.is_converted or not DTYPES.keys() >= {x.dtype for x in tensors}:
        _check_converted(net, tensors)
        tensors = [_parts(x) for x in tensors]
    else:
        tensors = list(tensors)
    if len(tensors) < len(net.inputs):
        tensors.append(drawn_seed(device))
    for i in net.undifferentiated:
        if tensors[i].requires_grad:
            tensors[i] = tensors[i].detach()
    results = _called(net, tensors, device, hooked)
    if not net.is_converted:
        return list(results)
    return [_whole(x, output.kind) for x, output in zip(results, net.outputs, strict=True)]


def _is_hooked(x: torch.Tensor) -> bool:
    """Whether autograd calls somebody with the gradient of a tensor."""
    return bool(x._backward_hooks or x._post_accumulate_grad_hooks)


def _called(
    net: TorchNet,
    tensors: _Tensors,
    device: torch.device,
    hooked: frozenset[int] = frozenset(),
) -> Iterable[torch.Tensor]:
    """The net's outputs, as it makes them.

    Args:
        hooked: the numbers of inputs with hooks that some outputs do not depend on.
    """
    train = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    if _is_transformed(tensors):
        return _applied(_Call(net, device, train), tensors)
    if not train:
        return net.infer(tensors, device)
    if hooked:
        return _apart(net, tensors, device, hooked)
    return _applied(_Call(net, device, train), tensors)


def _apart(
    net: TorchNet, tensors: _Tensors, device: torch.device, hooked: frozenset[int]
) -> list[torch.Tensor]:
    """The net's outputs, of one call for all that depend on the same inputs with hooks.

    Where a loss has no gradient for an input of a call, autograd calls its hooks with None all the
    same; where nothing in a loop in Python leads to the input, it does not call them.
    """
    groups = dict[frozenset[int], tuple[torch.Tensor, ...]]()
    outputs = list[torch.Tensor]()
    for number, sources in enumerate(net.sources):
        reached = hooked & sources
        if reached not in groups:
            unused = hooked - reached
            own = [x.detach() if i in unused else x for i, x in enumerate(tensors)]
            groups[reached] = _applied(_Call(net, device, True), own)
        outputs.append(groups[reached][number])
    return outputs


def _is_transformed(tensors: _Tensors) -> bool:
    """Whether a transform of torch.func is under way, or a tensor has a tangent."""
    if torch._C._are_functorch_transforms_active():
        return True
    return forward_ad._current_level >= 0 and any(map(_is_dual, tensors))


def _applied(call: _Call, tensors: _Tensors) -> tuple[torch.Tensor, ...]:
    """A call's results, which know where they come from."""
    if torch._C._are_functorch_transforms_active():
        return _Transformed.apply(call, *tensors)
    # `Function.apply` also looks for tensors of transforms that have ended
    apply_net: Any = _Net.apply if any(map(is_functorch_wrapped_tensor, tensors)) else _apply_net
    return apply_net(call, *tensors)


def _check_converted(net: TorchNet, tensors: list[torch.Tensor]) -> None:
    """Refuse fewer bits in the place of others, and the opposite: to the code all are the same."""
    for number, x in enumerate(tensors):
        expected = net.converted.get(number)
        if x.dtype != expected and (expected is not None or x.dtype in NARROW):
            own = torch.float32 if x.is_floating_point() else torch.int32
            dtype = type_name(expected or own)
            raise ArrayError(f"{net.inputs[number]} is {type_name(x.dtype)}, expected {dtype}")


def _parts(x: torch.Tensor) -> torch.Tensor:
    """A tensor as the net takes it: a complex one as its parts, fewer bits as 32."""
    return torch.view_as_real(x.resolve_conj()) if x.is_complex() else as_computed(x)


def _whole(x: torch.Tensor, kind: torch.dtype) -> torch.Tensor:
    """The opposite."""
    if x.dtype == kind:  # as most are: to ask `to` takes longer
        return x
    return torch.view_as_complex(x) if kind.is_complex else x.to(kind)


def _is_dual(x: torch.Tensor) -> bool:
    return forward_ad.unpack_dual(x).tangent is not None


def check_untraced() -> None:
    """Refuse to be recorded: a record holds PyTorch's operators, and none of compiled code.

    Raises:
        CompileError: `make_fx` is recording, as `torch.func.linearize` does.
    """
    if torch._C._len_torch_dispatch_stack() and get_proxy_mode() is not None:
        what = "compiled code cannot be recorded by make_fx, torch.func.linearize or torch.export"
        raise CompileError("", what, "torch.func.jvp has tangents; else record the module itself")


def check_mode(device: torch.device) -> None:
    """Refuse autocast of what is computed on a device."""
    if torch.is_autocast_enabled(device.type):
        hint = f"torch.autocast('{device.type}', enabled=False)"
        raise CompileError("", "autocast is on, and compiled nets compute in float32", hint)


class _Call:
    """One application of a net, and what it leaves for its gradients.

    Attributes:
        device: where the tensors are.
        train: whether gradients may be asked for.
    """

    def __init__(self, net: TorchNet, device: torch.device, train: bool) -> None:
        self.net, self.device, self.train = net, device, train
        self._tapes = list[Any]()

    def compute(self, tensors: _Tensors) -> Iterable[torch.Tensor]:
        """The outputs."""
        if not self.train:
            return self.net.infer(tensors, self.device)
        net = self.net.to_train(self.device)
        outputs, tape = net.forward(tensors, self.device)
        self._tapes.append((net, tape, _marks(tape)))
        return outputs

    def without_gradient(self, requested: Collection[int]) -> Iterable[int]:
        """The numbers of the outputs that depend on none of some inputs."""
        return [i for i, own in enumerate(self.net.sources) if own.isdisjoint(requested)]

    def reached(self, grads: _Optionals) -> frozenset[int]:
        """The numbers of the inputs that outputs with a gradient depend on."""
        pairs = zip(self.net.sources, grads, strict=True)
        return frozenset().union(*(sources for sources, grad in pairs if grad is not None))

    def gradients(
        self, tensors: _Tensors, grads: _Optionals, requested: Sequence[bool]
    ) -> list[torch.Tensor | None]:
        """Those of the inputs that are wanted."""
        net = self.net.to_train(self.device, _given(grads))
        tape = self._tape(net, tensors)
        return net.backward(tape, grads, tensors, requested, self.device)

    def _tape(self, net: TorchNet, tensors: _Tensors) -> Any:
        """What forward left, or leaves when it is run again.

        It is where the graph was retained, another net ran, an output was changed in place, or an
        input has other memory (`w.data = ...`): the tape has but the addresses of both, and what a
        loop in Python gives may be changed.
        """
        try:
            made_by, tape, marks = self._tapes.pop()  # one thread alone gets it
        except IndexError:
            return net.forward(tensors, self.device)[1]
        if made_by is not net or _marks(tape) != marks:
            return net.forward(tensors, self.device)[1]
        return tape


def _marks(tape: Any) -> tuple[list[int], list[int]]:
    """What shows whether the tensors of a tape are what they were."""
    return [x._version for x in tape.outputs], [x.data_ptr() for x in tape.inputs]


class _Gradients(_Call):
    """The gradients of a call, made of its tape; their own are those of a net that gives them.

    That net is not made before these are asked for.
    """

    def __init__(self, call: _Call, grads: _Optionals, requested: Sequence[bool]) -> None:
        self._of, self._grads, self._wanted = call, grads, requested
        self.device, self._tapes = call.device, []

    @cached_property
    def net(self) -> TorchNet:
        """It takes the inputs of the call, then the gradients that were given."""
        return self._made(once=False)

    def _made(self, once: bool) -> TorchNet:
        seeded = _given(self._grads)
        sources = [i for i, is_wanted in enumerate(self._wanted) if is_wanted]
        return self._of.net.gradients(seeded, sources, once)

    def compute(self, tensors: _Tensors) -> Iterable[torch.Tensor]:
        count = len(self._wanted)
        seeds = iter(tensors[count:])
        grads = [None if grad is None else next(seeds) for grad in self._grads]
        gradients = self._of.gradients(tensors[:count], grads, self._wanted)
        results = [grad for grad in gradients if grad is not None]
        if self._leaves_out() and not self._of.net.runs_late(self.device) and _has_nan(results):
            return self._made(once=True).infer(tensors, self.device)
        return results

    def _leaves_out(self) -> bool:
        """Whether there are outputs without a gradient, or states that the last steps hand on to
        nobody, with slopes of their own. Code that was made for all takes zeros for their
        gradients, and zero times an infinite slope is NaN, which would be in what others share with
        them; in PyTorch nothing comes from there. On a GPU `to_train` sees to that."""
        return self._of.net.is_at_risk(_given(self._grads))

    def without_gradient(self, requested: Collection[int]) -> Iterable[int]:
        """None that are known yet: they have gradients of zeros."""
        return []


def _given(grads: _Optionals) -> tuple[int, ...]:
    """The numbers of the outputs that have a gradient."""
    return tuple([i for i, grad in enumerate(grads) if grad is not None])


def _has_nan(gradients: list[torch.Tensor]) -> bool:
    """Whether a NaN is in gradients."""
    norms: Any = torch._foreach_norm(gradients)  # pyright: ignore[reportPrivateImportUsage]
    return bool(torch.stack(norms).sum().isnan())


class _Net(torch.autograd.Function):
    """A call, as a function of tensors."""

    @staticmethod
    def forward(ctx: Any, call: _Call, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        outputs = tuple(call.compute(tensors))
        _prepare(ctx, call, tensors, outputs)
        return outputs

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        tensors: tuple[torch.Tensor, ...] = ctx.saved_tensors  # an error if they were changed
        reached = ctx.call.reached(grads)
        requested = [needs and i in reached for i, needs in enumerate(ctx.needs_input_grad[1:])]
        if not any(requested):
            return (None,) * (1 + len(tensors))
        seeds = [grad for grad in grads if grad is not None]
        call = _Gradients(ctx.call, grads, requested)
        every = [*tensors, *seeds]
        if any(map(is_legacy_batchedtensor, seeds)):
            gradients = iter(_of_batch(call.net, every, call.device))  # runs forward once more
        elif torch.is_grad_enabled() or _is_transformed(every):
            gradients = iter(_applied(call, every))
        else:
            gradients = iter(call.compute(every))
        return (None, *(next(gradients) if is_requested else None for is_requested in requested))

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        net: TorchNet = ctx.call.net
        moved = [i for i, x in enumerate(tangents) if x is not None and i in net.differentiated]
        if not moved and not torch._C._are_functorch_transforms_active():  # there None is a fault
            return (None,) * len(net.outputs)
        seeds = [x for i in moved if (x := tangents[i]) is not None]
        called = _of_batch if any(map(is_legacy_batchedtensor, seeds)) else _called
        every = [*ctx.saved_tensors, *seeds]
        results = iter(called(net.tangents(moved), every, ctx.call.device))
        floats = [next(results) if o.dtype.is_floating_point else None for o in net.outputs]
        return tuple(None if i in ctx.constant else tangent for i, tangent in enumerate(floats))


_base: Any = super(torch.autograd.Function, _Net)
_apply_net = _base.apply


class _Transformed(_Net):
    """The same in the form that torch.func takes; to apply it takes longer."""

    @staticmethod
    def forward(call: _Call, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(call.compute(tensors))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        call, *tensors = inputs
        _prepare(ctx, call, tensors, output)

    @staticmethod
    def vmap(info: Any, in_dims: Any, call: _Call, *tensors: torch.Tensor) -> tuple[Any, int]:
        dims = in_dims[1:]
        own = [i for i, dim in enumerate(dims) if dim is not None]
        pairs = zip(tensors, dims, strict=True)
        batched = [x if dim is None else x.movedim(dim, 0) for x, dim in pairs]
        return tuple(_called(call.net.instances(own), batched, call.device)), 0


def _of_batch(net: TorchNet, tensors: _Tensors, device: torch.device) -> list[torch.Tensor]:
    """The outputs for several tensors at once, which stand along an axis that a transform older
    than torch.func hides (`is_grads_batched`, `torch.autograd.functional`): those of as many
    instances."""
    level = torch._C._vmapmode_increment_nesting() - 1
    torch._C._vmapmode_decrement_nesting()
    hidden = [i for i, x in enumerate(tensors) if is_legacy_batchedtensor(x)]
    shown = list(tensors)
    for i in hidden:
        shown[i] = torch.ops.aten._remove_batch_dim(tensors[i], level, 1, 0)
    results = _called(net.instances(hidden), shown, device)
    return [torch.ops.aten._add_batch_dim(x, 0, level) for x in results]


def _prepare(ctx: Any, call: _Call, tensors: _Tensors, outputs: _Tensors) -> None:
    """Keep what gradients and tangents of a call are made of."""
    ctx.call = call
    ctx.set_materialize_grads(False)
    forward = forward_ad._current_level >= 0  # what has a tangent is not said
    requested = {i for i, needs in enumerate(ctx.needs_input_grad[1:]) if needs or forward}
    ctx.constant = frozenset(call.without_gradient(requested))
    if ctx.constant:
        ctx.mark_non_differentiable(*(outputs[i] for i in ctx.constant))
    ctx.save_for_backward(*tensors)
    if forward:
        ctx.save_for_forward(*tensors)
