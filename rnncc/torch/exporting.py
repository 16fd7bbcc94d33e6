# pyright: basic, reportMissingImports=false
"""A loop of a custom cell under `torch.export`: PyTorch's operator for loops.

That operator wants operands and results that share no memory, and states that stay laid out as
they are. All of them are copied, which is free: compiled code has no copies.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import CodeType
from typing import Any

import torch
from torch._C._dynamo.eval_frame import reset_code
from torch._dynamo.exc import TorchDynamoException
from torch._dynamo.variables.higher_order_ops import ScanHigherOrderVariable
from torch._higher_order_ops.scan import ScanOp
from torch._higher_order_ops.scan import scan as scan_operator
from torch.fx import GraphModule, Interpreter
from torch.fx import traceback as fx_traceback
from torch.utils import _pytree as pytree

from rnncc.errors import CompileError
from rnncc.frontends.torch.graphs import drop_checks, fake_mode, has_transforms
from rnncc.frontends.torch.node_context import hint_of, reason_of, user_line
from rnncc.frontends.torch.patches import ThreadScope, once
from rnncc.frontends.torch.prepared import without_checkpoints
from rnncc.frontends.torch.readings import location, refuse
from rnncc.frontends.torch.trace import aten_graph
from rnncc.frontends.torch.watching.extremes import tell_extremes_apart
from rnncc.frontends.torch.watching.reading import unasked
from rnncc.torch.objects.nests import (
    CHANGED,
    TWICE,
    copied,
    in_order_of,
    is_as_before,
    is_changeable,
    put_into,
    stands_twice,
)

_COMPILED = [part for part in scan_operator.__code__.co_consts if isinstance(part, CodeType)]
"""The functions within PyTorch's operator, one of which it has TorchDynamo compile."""
_CHANGES = "input mutation", "Mutating a variable from outside"
"""What PyTorch says of a step that changes what it did not make."""
_NOTHING = (0,) * 9
"""The shape of what stands for None."""
_IN_PLACE = "a cell changes the dict or list of its state"


_exporting = ThreadScope()


def exported_scan(cell: Callable[..., Any], xs: Any, state: Any, reverse: bool) -> Any:
    """The ys and the last state of a loop that `torch.export` is to see as one operator."""
    try:
        return _scanned(cell, xs, state, reverse, in_place=False)
    except CompileError as error:
        if error.what != _IN_PLACE:
            raise
    ys, finals = _scanned(cell, xs, state, reverse, in_place=True)
    put_into(state, finals)
    return ys, state


def _scanned(
    cell: Callable[..., Any], xs: Any, state: Any, reverse: bool, in_place: bool
) -> tuple[Any, Any]:
    """The same; a cell changes the dict or list of its state only where that is said.

    States are lists of tensors there: PyTorch does not let named tuples leave a step.
    """
    starts, spec = pytree.tree_flatten(state)
    step = _step(cell, spec, in_place, stands_twice(state, []))
    _patch()
    for code in _COMPILED:  # guards of what was exported before would fix sizes that are open now
        reset_code(code)
    try:
        with _exporting, unasked():
            carried = _copied(starts) or [torch.zeros(())]  # PyTorch's scan has one at least
            finals, ys = scan_operator(step, carried, _copied(xs), reverse=reverse)
    except TorchDynamoException as error:
        text = str(error).rpartition("Got graph break/error:")[2].strip()
        reason = next((known for known in (CHANGED, TWICE, _IN_PLACE) if known in text), None)
        reason = reason or reason_of(text)
        hint = hint_of(reason)
        if any(part in reason for part in _CHANGES):
            reason = "a step changes a buffer, its state or something else that it did not make"
        if reason not in (CHANGED, TWICE) and ("side effect" in reason or "changes" in reason):
            hint = "in exported modules a cell keeps nothing in objects of its own"
            hint += ", and computes h = h + x, not h += x" if "its state" in reason else ""
        raise CompileError(user_line(text, "scan"), reason, hint) from error
    return pytree.tree_map(_or_none, ys), pytree.tree_unflatten(finals[: len(starts)], spec)


def _step(
    cell: Callable[..., Any], spec: Any, in_place: bool, is_shared: bool
) -> Callable[..., Any]:
    """The cell, whose states come and go as lists."""

    def step(carried: Any, rows: Any) -> tuple[Any, Any]:
        states = pytree.tree_unflatten(carried[: spec.num_leaves], spec)
        copies = copied(states)
        y, new = cell(rows, copies)
        if not is_as_before(copies, states):
            if not is_changeable(new) or new is not copies:
                raise TypeError(CHANGED)
            if not in_place:
                raise TypeError(_IN_PLACE)
            if is_shared or stands_twice(new, []):
                raise TypeError(TWICE)
        leaves, after = pytree.tree_flatten(in_order_of(states, new))
        if after != spec:
            raise TypeError("the state is another nest of tensors after a step")
        return _copied(leaves or carried), pytree.tree_map(_given, y)

    return step


class _ScanFunction(torch.autograd.Function):
    """The operator as one that has gradients, which nobody asks for.

    PyTorch's own would trace a graph of them, with fewer operators than there are.
    """

    @staticmethod
    def forward(ctx: Any, run: Any, states: int, rows: int, *operands: Any) -> tuple[Any, ...]:
        xs, held = operands[states : states + rows], operands[states + rows :]
        with torch._C._AutoDispatchBelowAutograd():
            return tuple(run(list(operands[:states]), list(xs), held))

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise AssertionError("an exported graph has no gradients")


@once
def _patch() -> None:
    """Copy the tensors that a cell holds, too, which only the operator itself gets to see."""
    tell_extremes_apart()
    own = ScanOp.__call__

    def call(
        self: Any, function: Any, init: Any, xs: Any, additional_inputs: Any, **options: Any
    ) -> Any:
        held = additional_inputs
        if not _exporting:
            return own(self, function, init, xs, held, **options)
        if isinstance(function, GraphModule):
            if has_transforms(function):
                function = _without_transforms(function, init, xs, held)
            without_checkpoints(function)
            function = partial(_traced, function)
        run = partial(own, self, function, **options)
        held = _copied(held)
        operands = (*init, *xs, *held)
        if torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in operands):
            return list(_ScanFunction.apply(run, len(init), len(xs), *operands))
        return run(init, xs, held)

    setattr(ScanOp, "__call__", call)  # noqa: B010
    ScanHigherOrderVariable.supports_aliasing = property(lambda _: bool(_exporting))  # pyright: ignore


def _without_transforms(function: GraphModule, init: Any, xs: Any, held: Any) -> GraphModule:
    """A step with what transforms of torch.func compute in their place: PyTorch exports none.

    Another thread traces it. There, nothing of the export is under way, which else would see it.
    """
    if torch.is_autocast_enabled(init[0].device.type):
        refuse(location("torch.func"), "is not supported under autocast where it is exported")
    mode: Any = fake_mode(init)

    def traced() -> GraphModule:
        with mode:
            operands = map(_like, (*init, *(x[0] for x in xs), *held))
            plain = aten_graph(function, list(operands), mode)
        drop_checks(plain)
        return plain

    with ThreadPoolExecutor(1) as thread:
        try:
            return thread.submit(traced).result()
        except CompileError as error:
            refuse(error.location, error.what, error.hint)


def _like(x: Any) -> Any:
    """A tensor of the same type, of which nothing is known."""
    if not isinstance(x, torch.Tensor):
        return x
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)


def _traced(function: GraphModule, *args: Any) -> Any:
    """Run a graph so that what is traced knows the user's lines."""
    with fx_traceback.preserve_node_meta():
        return Interpreter(function).run(*args)


def _given(x: Any) -> Any:
    """What a step gives: PyTorch's scan takes tensors alone."""
    return torch.zeros(_NOTHING) if x is None else _copy(x)


def _or_none(x: Any) -> Any:
    return None if x.shape[1:] == _NOTHING else x


def _copied(tree: Any) -> Any:
    return pytree.tree_map(_copy, tree)


def _copy(x: Any) -> Any:
    return x.clone(memory_format=torch.contiguous_format) if isinstance(x, torch.Tensor) else x
