"""Facts about blobs that follow from other facts, such as the device that each is on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

from rnncc.errors import NetError
from rnncc.netdef.checks import check_net, locate
from rnncc.netdef.netdef_pb2 import NetDef, OperatorDef
from rnncc.netdef.versions import Steps, Value, results, ssa

T = TypeVar("T", bound=Hashable)
Known = Sequence[T | None]
Rule = Callable[[OperatorDef, Known[T], Known[T]], tuple[Known[T], Known[T]]]
"""(operator, what is known of its inputs, and of its outputs) -> what then is; None: unknown."""

STYLES = {"caffe2": "gpu", "pytorch": "cuda"}
"""How the device that is not the CPU is called."""


def propagate(net: NetDef, rule: Rule[T], known: Mapping[Value, T]) -> dict[Value, T]:
    """Apply a rule to operators until nothing more follows.

    Args:
        rule: must hold on to what it is given, and may say more the more is known.
        known: what is known of some (blob, version) from the start.
    Returns:
        All that is known in the end.
    Raises:
        NetError: a contradiction; `known` names a version that the net does not have.
    """
    check_net(net)
    steps, last = ssa(net)
    facts = _starting(net, steps, [*results(net, last)], known)
    touching: dict[Value, list[int]] = {}
    for index, (inputs, outputs) in enumerate(steps):
        for value in {*inputs, *outputs}:
            touching.setdefault(value, []).append(index)
    waiting = deque(range(len(steps)))
    queued = [True] * len(steps)
    while waiting:
        index = waiting.popleft()
        queued[index] = False
        for value in _apply(net, index, rule, steps, facts):
            for other in touching[value]:
                if not queued[other]:
                    queued[other] = True
                    waiting.append(other)
    return facts


def infer_devices(
    net: NetDef, known: Mapping[Value, str], device_name_style: str = "caffe2"
) -> dict[Value, str]:
    """The device of every blob, at every version.

    The copies between CPU and GPU say where both their sides are; any other operator runs on one
    device, with all that it reads and writes.

    Args:
        known: the devices of some (blob, version); any word is a device.
        device_name_style: whether the copies' other side is called gpu (caffe2) or cuda (pytorch).
    Raises:
        NetError: two devices meet; a blob's device does not follow; what `propagate` raises.
    """
    if device_name_style not in STYLES:
        what = f"device_name_style is {device_name_style!r}"
        raise NetError("", what, "it is one of " + ", ".join(STYLES))
    gpu = STYLES[device_name_style]
    sides = {"CopyCPUToGPU": ("cpu", gpu), "CopyGPUToCPU": (gpu, "cpu")}

    def rule(
        op: OperatorDef, inputs: Known[str], outputs: Known[str]
    ) -> tuple[Known[str], Known[str]]:
        source = target = next((d for d in (*inputs, *outputs) if d is not None), None)
        if op.type in sides:
            source, target = sides[op.type]
        return [source] * len(inputs), [target] * len(outputs)

    devices = propagate(net, rule, known)
    for index, (inputs, outputs) in enumerate(ssa(net)[0]):
        for name, version in (*inputs, *outputs):
            if (name, version) not in devices:
                what = f'nothing tells the device of "{name}" at version {version}'
                raise NetError(locate(net, index), what)
    return devices


def _starting(
    net: NetDef, steps: Steps, ends: list[Value], known: Mapping[Value, T]
) -> dict[Value, T]:
    """A checked copy of what is known from the start."""
    values = {(name, 0) for name in net.external_input} | set(ends)
    values.update(v for inputs, outputs in steps for v in (*inputs, *outputs))
    for value, fact in known.items():
        if value not in values:
            raise NetError(net.name, f'has no blob "{value[0]}" at version {value[1]}')
        if fact is None:
            raise NetError(net.name, f'what is known of "{value[0]}" is None')
    return dict(known)


def _apply(
    net: NetDef, index: int, rule: Rule[T], steps: Steps, facts_of: dict[Value, T]
) -> list[Value]:
    """What an operator tells that was not known before, which is added to `found`."""
    inputs, outputs = steps[index]
    inferred = rule(
        net.op[index], [facts_of.get(v) for v in inputs], [facts_of.get(v) for v in outputs]
    )
    new: list[Value] = []
    for values, facts in zip((inputs, outputs), inferred, strict=True):
        for value, fact in zip(values, facts, strict=True):
            if fact is None:
                continue
            if value not in facts_of:
                facts_of[value] = fact
                new.append(value)
            elif facts_of[value] != fact:
                what = f'"{value[0]}" would be {fact}, and is known to be {facts_of[value]}'
                raise NetError(locate(net, index), what)
    return new
