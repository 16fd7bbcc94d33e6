"""Makes a failing case smaller as long as it fails in the same way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import onnx
from google.protobuf.message import DecodeError

from rnncc.netdef import NetDef
from tests.fuzz.cases import Case, Result

SECONDS = 30.0
"""For one case."""
SAME_KIND = ("wrong", "gradient")
"""Failures whose place names the ops of the model, which become fewer."""


def shrink(case: Case, run: Callable[[Case], Result]) -> tuple[Case, Result]:
    """The smallest case found that fails as this one does, and what came of it."""
    result = run(case)
    if not result.failures:
        return case, result
    wanted, end = _signature(result), time.monotonic() + SECONDS
    smaller = True
    while smaller:
        smaller = False
        for candidate in candidates(case):
            if time.monotonic() > end:
                return case, result
            tried = run(candidate)
            if _signature(tried) == wanted:
                case, result, smaller = candidate, tried, True
                break
    return case, result


def _signature(result: Result) -> str:
    if not result.failures:
        return ""
    failure = result.failures[0]
    return failure.kind if failure.kind in SAME_KIND else failure.signature


def cause(case: Case, result: Result) -> str:
    """What tells failures of small cases apart: the operators in them, where results are wrong."""
    if not result.failures:
        return ""
    failure = result.failures[0]
    made = _message(case)
    if failure.kind not in SAME_KIND or made is None:
        return failure.signature
    is_net = isinstance(made, NetDef)
    kinds = [op.type for op in made.op] if is_net else [n.op_type for n in made.graph.node]
    return f"{failure.kind}: {failure.where.split()[0]} of {', '.join(kinds)}"


def _message(case: Case) -> Any:
    """The NetDef or model of a case; None where its bytes are neither."""
    made: Any = onnx.ModelProto() if case.name.startswith("onnx") else NetDef()
    try:
        made.ParseFromString(case.source)
    except DecodeError:
        return None
    return made


def candidates(case: Case) -> Iterator[Case]:
    """Cases with less in them, those with the least first."""
    if case.train:
        yield replace(case, train=False)
    made = _message(case)
    if made is None:
        yield from _shorter(case)
        return
    for message in _without(made):
        yield replace(case, source=message.SerializeToString())


def _shorter(case: Case) -> Iterator[Case]:
    """A file that is no message: halves, quarters and so on cut out of it."""
    part = len(case.source) // 2
    while part:
        for begin in range(0, len(case.source), part):
            source = case.source[:begin] + case.source[begin + part :]
            yield replace(case, source=source)
        part //= 2


def _without(message: Any) -> Iterator[Any]:
    """Copies without a run of elements of some repeated field, anywhere inside."""
    for path in _lists(message, ()):
        count = len(_at(message, path))
        part = count
        while part:
            for begin in range(0, count, part):
                made = type(message)()
                made.CopyFrom(message)
                del _at(made, path)[begin : begin + part]
                yield made
            part //= 2


def _lists(message: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Where repeated fields lie, outer ones first; those of tensors are left alone."""
    inner: list[tuple[Any, tuple[Any, ...]]] = []
    for descriptor, value in message.ListFields():
        here = (*path, descriptor.name)
        if descriptor.is_repeated:
            if descriptor.name not in ("dims", "float_data", "int64_data", "int32_data"):
                yield here
            if descriptor.message_type is not None:
                inner += [(each, (*here, i)) for i, each in enumerate(value)]
        elif descriptor.message_type is not None:
            inner.append((value, here))
    for value, here in inner:
        yield from _lists(value, here)


def _at(message: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        message = message[step] if isinstance(step, int) else getattr(message, step)
    return message
