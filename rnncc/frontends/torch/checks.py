# pyright: basic, reportMissingImports=false
"""Code that raises an error where a tensor's values are not as they should be.

    if (x < 0).any():
        raise ValueError("negative")

and `assert (x >= 0).all()` decide nothing but that. They become `torch._assert_async` in a graph,
as TorchDynamo makes of `assert` by itself, and then part of what comes out: where the values are
not as they should be, all floats of the result are NaN.
"""

from __future__ import annotations

import dis
from collections.abc import Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from rnncc.errors import CompileError
from rnncc.frontends.torch.node_context import RNNCC, location
from rnncc.frontends.torch.readings import is_users

_ASSERT = torch.ops.aten._assert_async
_ENDS = ("STORE_", "JUMP", "RETURN", "YIELD", "FOR_ITER", "DELETE", "IMPORT", "SETUP", "WITH")


def expected(frame: Any) -> bool | None:
    """What must be true or false where the code raises an error else; None where it does not.

    Args:
        frame: of code that asks whether something is true.
    """
    if not is_users(frame.f_code.co_filename) or _is_caught(frame):
        return None
    steps, places = _instructions(frame.f_code)
    at = places[frame.f_lasti]
    while at < len(steps) and steps[at].opname in ("TO_BOOL", "CACHE"):
        at += 1
    negated = at < len(steps) and steps[at].opname == "UNARY_NOT"
    jump = steps[at + negated] if at + negated < len(steps) else None
    if jump is None:
        return None
    answer = expected_at(steps, at + negated, places.get(jump.argval))
    return answer if answer is None else answer != negated


def expected_at(steps: Sequence[Any], at: int, target: int | None) -> bool | None:
    """The same of a jump, by instructions; `target` is where it goes."""
    name = steps[at].opname
    on_true = name.startswith("POP_JUMP") and name.endswith("IF_TRUE")
    on_false = name.startswith("POP_JUMP") and name.endswith("IF_FALSE")
    if target is None or not (on_true or on_false):
        return None
    after, at_target = _raises(steps, at + 1), _raises(steps, target)
    if after == at_target:
        return None
    return on_true if after else on_false


def _raises(steps: Sequence[Any], at: int) -> bool:
    """Whether nothing but an error comes of the code from here on."""
    for step in steps[at:]:
        if step.opname == "RAISE_VARARGS":
            return True
        if step.opname != "STORE_FAST" and any(part in step.opname for part in _ENDS):
            return False
    return False


def _is_caught(frame: Any) -> bool:
    """Whether the module's code might do something else where there is an error."""
    while frame is not None and not frame.f_code.co_filename.startswith(RNNCC + "torch/"):
        entries = _guarded(frame.f_code) if is_users(frame.f_code.co_filename) else ()
        if any(start <= frame.f_lasti < end for start, end in entries):
            return True
        frame = frame.f_back
    return False


@lru_cache(256)
def _guarded(code: CodeType) -> list[tuple[int, int]]:
    """The instructions within `try` and `with`."""
    entries: Any = dis.Bytecode(code)
    return [(entry.start, entry.end) for entry in entries.exception_entries]


@lru_cache(256)
def _instructions(code: CodeType) -> tuple[list[dis.Instruction], dict[int, int]]:
    steps = list(dis.get_instructions(code))
    return steps, {step.offset: at for at, step in enumerate(steps)}


def checked(x: Any, answer: bool) -> None:
    """Put into a graph that a tensor is true, or not."""
    flag = x if answer else torch.logical_not(x)
    torch.ops.aten._assert_async.msg(flag, "values")


def checks_of(module: GraphModule) -> list[Node]:
    """The checks in a graph."""
    nodes = module.graph.nodes
    return [node for node in nodes if getattr(node.target, "overloadpacket", 0) is _ASSERT]


def without_checks(module: GraphModule, results: Sequence[int] | None = None) -> None:
    """Let a graph's checks be part of its results: of all, or of those with these numbers.

    Raises:
        CompileError: no result can be NaN.
    """
    graph = module.graph
    checks = checks_of(module)
    if not checks:
        return
    output = graph.output_node()
    outputs: list[Any] = list(output.args[0])  # pyright: ignore
    numbers = range(len(outputs)) if results is None else results
    floats = [n for n in numbers if _is_float(outputs[n])]
    if not floats:
        what = "checks values, and no result could be NaN where they are wrong"
        raise CompileError(location(checks[0]), what, "check outside")
    with graph.inserting_before(output):
        good = _all(graph, checks)
        for number in floats:
            held = outputs[number]
            value, where = held.meta["val"], torch.ops.aten.where.ScalarOther
            shown = _call(graph, value, where, good, held, float("nan"))
            name, outputs[number] = held.name, shown
            held._rename(f"{name}_unchecked")
            shown._rename(name)  # by which signatures know it
    output.args = (tuple(outputs),)
    for node in checks:
        graph.erase_node(node)
    module.recompile()


def _is_float(result: Any) -> bool:
    value = result.meta.get("val") if isinstance(result, Node) else None
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _all(graph: Graph, checks: Sequence[Node]) -> Node:
    """Whether all are true."""
    aten, good = torch.ops.aten, None
    for check in checks:
        flag: Any = check.args[0]
        value = flag.meta["val"]
        if value.dtype != torch.bool:
            flag = _call(graph, value := value.bool(), aten.ne.Scalar, flag, 0)
        if value.dim():
            flag = _call(graph, value := value.reshape(()), aten.view.default, flag, [])
        if good is not None:
            flag = _call(graph, value, aten.logical_and.default, good, flag)
        good = flag
    assert good is not None
    return good


def _call(graph: Graph, value: torch.Tensor, operator: Any, *args: Any) -> Node:
    node = graph.call_function(operator, args)
    node.meta = {"val": value, "stack_trace": args[0].meta.get("stack_trace")}
    return node
