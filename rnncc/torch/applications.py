# pyright: basic, reportMissingImports=false
"""Reads a torch.autograd.Function once, though a loop that is unrolled applies it at each step.

TorchDynamo traces forward and backward at each application: 20 to 50 ms, most of the time that it
takes to read a spiking net. Here a trace serves each later application in the same graph whose
trace would be the same: the code is closed (`closed_code.py`), nothing that it names has been
changed, and arguments differ in nothing but which tensors they are.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builder import wrap_fx_proxy
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.higher_order_ops import AutogradFunctionApplyVariable
from torch._dynamo.variables.lists import TupleVariable
from torch._dynamo.variables.tensor import TensorVariable
from torch._functorch.autograd_function import autograd_function_apply
from torch.fx import Node, Proxy

from rnncc.frontends.torch.own_operators.function_op import undecorated
from rnncc.torch.closed_code import Names, Open
from rnncc.torch.leaves import is_for

_APPLY: Any = autograd_function_apply
_KNOWN = "rnncc_applications"
"""The attribute of a graph that is being made for what was read of it."""
_OWN_PROPERTIES = "requires_grad", "has_grad_fn", "class_type", "_is_name_set"
"""What TorchDynamo knows of a tensor besides its example."""


@dataclass
class _Trace:
    """An application, which others may be like.

    Attributes:
        names: what its code names.
        bodies: the graphs of forward and backward, and the nodes that stand for them.
        order: the numbers of the arguments that these take, in order.
        settings: of the operator.
        guards: what TorchDynamo asserted while it read.
        results: for each the number among those of the operator, or a constant.
        single: whether there is one result, not a tuple.
    """

    names: Names
    bodies: dict[Node, Any]
    order: Sequence[int]
    settings: dict[str, Any]
    guards: Sequence[Any]
    results: Sequence[int | VariableTracker]
    single: bool


def trace_once(backend: Callable[..., Any]) -> None:
    """Let Functions in graphs for one back end be read once for each kind of application."""
    kind: Any = AutogradFunctionApplyVariable
    own = kind.call_function

    def call_function(variable: Any, tx: Any, args: Any, kwargs: Any) -> Any:
        applies = is_for(backend, tx.output) and not kwargs
        key = _key(variable, tx, args) if applies else None
        if key is None:
            return own(variable, tx, args, kwargs)
        known = tx.output.__dict__.setdefault(_KNOWN, {})
        trace = known.get(key)
        if trace is not None and _holds(trace, tx):
            return _again(trace, tx, args)
        guards, versions = set(tx.output.guards), _versions(args)
        result = own(variable, tx, args, kwargs)
        trace = _traced(variable, tx, args, result, guards)
        if trace is not None and versions == _versions(args) and _holds(trace, tx):
            known[key] = trace
        return result

    kind.call_function = call_function


def _methods(variable: Any) -> tuple[Any, ...]:
    """The user's functions."""
    forward, backward = variable.fwd_fn, variable.bwd_fn
    both: list[Any] = [forward]
    if getattr(forward, "__name__", "") == "new_forward":  # which PyTorch makes of two methods
        both = [cell.cell_contents for cell in forward.__closure__ or ()]
    return *both, undecorated(backward)


def _key(variable: Any, tx: Any, args: Sequence[Any]) -> Any:
    """What a trace depends on besides what its code names; None where that is not known."""
    state = getattr(tx, "symbolic_torch_function_state", None)
    args = [arg.realize() for arg in args]
    tracer = tx.output.current_tracer
    if state is None or state.mode_stack or tx.strict_checks_fn is not None:
        return None
    parts = [_of_argument(arg, tracer) for arg in args]
    tensors: list[Any] = [x for arg in args if (x := _example(arg)) is not None]
    memories = {x.untyped_storage()._cdata for x in tensors}
    if None in parts or len(memories) < len(tensors) or not tensors:
        return None
    return tracer, variable.parent_source, _methods(variable), _modes(tensors), tuple(parts)


def _modes(tensors: Sequence[torch.Tensor]) -> Any:
    devices = sorted({x.device.type for x in tensors} | {"cpu"})
    casts = [(torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in devices]
    inside = torch._C._are_functorch_transforms_active()
    return torch.is_grad_enabled(), torch.get_default_dtype(), inside, *devices, *casts


def _of_argument(arg: Any, tracer: Any) -> Any:
    """What of one makes a difference; None where that is not known."""
    if type(arg) is ConstantVariable:
        value = arg.value
        known = value is None or isinstance(value, bool | int | float | str | torch.dtype)
        return (type(value), repr(value)) if known else None
    x = _example(arg)
    if x is None or type(arg) is not TensorVariable or arg.proxy.tracer is not tracer:
        return None
    if x.layout is not torch.strided or not all(type(n) is int for n in (*x.shape, *x.stride())):
        return None
    own = [repr(getattr(arg, name, None)) for name in _OWN_PROPERTIES]
    places = x.shape, x.stride()
    flags = x.requires_grad, x.is_conj(), x.is_neg(), x.is_inference()
    return type(x), x.dtype, x.device, places, flags, *own


def _example(arg: Any) -> Any:
    x = arg.proxy.node.meta.get("example_value") if isinstance(arg, TensorVariable) else None
    return x if isinstance(x, torch.Tensor) else None


def _versions(args: Sequence[Any]) -> list[Any]:
    return [None if (x := _example(arg.realize())) is None else x._version for arg in args]


def _holds(trace: _Trace, tx: Any) -> bool:
    """Whether what code names is as it was, and what was made of it is still there."""
    changes = tx.output.side_effects.store_attr_mutations.values()
    if any(not trace.names.used.isdisjoint(names) for names in changes):
        return False
    modules, guards = tx.output.nn_modules, tx.output.guards.inner
    is_same = all(
        modules.get(node.target) is body and not node._erased for node, body in trace.bodies.items()
    )
    return is_same and all(guard in guards for guard in trace.guards)


def _traced(
    variable: Any, tx: Any, args: Sequence[Any], result: Any, before: set[Any]
) -> _Trace | None:
    """What was read for an application, where that serves others."""
    single = not isinstance(result, TupleVariable)
    try:
        methods = _methods(variable)
        names = Names(
            [(function, i > 0 or len(methods) == 2) for i, function in enumerate(methods)]
        )
        places = [_place(item) for item in ([result] if single else result.items)]
    except Open:
        return None
    calls: list[Any] = [place[0] for place in places if isinstance(place, tuple)]
    calls = list(dict.fromkeys(calls))
    if len(calls) != 1 or "args_tensor_mask" in calls[0].kwargs:  # as an older PyTorch has it
        return None
    forward, backward, *taken = calls[0].args
    nodes = [arg.proxy.node if _example(arg) is not None else None for arg in args]
    if not set(nodes).issuperset(taken):
        return None
    return _Trace(
        names,
        {node: tx.output.nn_modules[node.target] for node in (forward, backward)},
        [nodes.index(node) for node in taken],
        dict(calls[0].kwargs),
        [guard for guard in tx.output.guards if guard not in before],
        [place[1] if isinstance(place, tuple) else place for place in places],
        single,
    )


def _place(item: Any) -> tuple[Node, int] | VariableTracker:
    """The call of the operator that a result is of, and its number; or a constant."""
    if isinstance(item, ConstantVariable):
        return item
    if type(item) is TensorVariable:
        node: Any = item.proxy.node
        if node.target is operator.getitem and node.args[0].target is _APPLY:
            return node.args
    raise Open


def _again(trace: _Trace, tx: Any, args: Sequence[Any]) -> VariableTracker:
    """An application by the graphs of an earlier one."""
    taken = [args[i].realize() for i in trace.order]
    with enable_python_dispatcher(), tx.output.fake_mode:
        examples = map(_example, taken)
        example = _APPLY(*trace.bodies.values(), *examples, **trace.settings)
    # nodes of their own would take the names of graphs to come, by which TorchDynamo finds them
    bodies = [Proxy(node, tx.output.current_tracer) for node in trace.bodies]
    operands = *bodies, *(arg.proxy for arg in taken)
    settings = dict(trace.settings)
    call = tx.output.create_proxy("call_function", _APPLY, operands, settings)
    values: Any = wrap_fx_proxy(tx, call, example_value=example)
    values = values.items
    for value in values:
        value.has_grad_fn = value.requires_grad
    results = [values[x] if isinstance(x, int) else x for x in trace.results]
    return results[0] if trace.single else TupleVariable(results)
