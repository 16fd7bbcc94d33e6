"""Names for people, of values that have none, by what is computed of them; no bit depends on it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from xdsl.dialects.builtin import NameLoc
from xdsl.ir import Operation, SSAValue, Use

from rnncc.ir.ops.chunks import Chunks
from rnncc.ir.ops.control import Net, Scan, Yield, names_of, terminator

FAR = 16
"""How many values are looked at."""


def name_of(value: SSAValue) -> str:
    """The value's own name; else the op's, behind the name of the nearest value it leads to.

    So the sum within a softmax `y` is `y.reduce`, and a state's first value `h.reshape`.
    """
    if value.name_hint:
        return value.name_hint
    kind = kind_of(value.owner) if isinstance(value.owner, Operation) else "copy"
    reader = _nearest(value)
    return f"{reader}.{kind}" if reader else kind


def state_name(carried: SSAValue, final: SSAValue) -> str:
    """Of the memory of a loop's carry: `h.state`."""
    name = carried.name_hint or final.name_hint
    return f"{name}.state" if name else "state"


def kind_of(op: Operation) -> str:
    """An op's name without the dialect's."""
    return op.name.split(".")[1]


def source_of(value: SSAValue) -> str:
    """Where the net says so: the file and node that a value comes from, or nothing."""
    location = value.owner.location if isinstance(value.owner, Operation) else None
    return location.desc.data if isinstance(location, NameLoc) else ""


def _nearest(value: SSAValue) -> str | None:
    """The name of the first value with one, in the order of their distance."""
    waiting, seen = deque([value]), {value}
    while waiting and len(seen) < FAR:
        for use in waiting.popleft().uses:
            for name, led_to in _led_to(use):
                if name:
                    return name
                if led_to is not None and led_to not in seen:
                    seen.add(led_to)
                    waiting.append(led_to)
    return None


def _led_to(use: Use) -> Iterable[tuple[str | None, SSAValue | None]]:
    """What a use makes of a value: names, and values."""
    op = use.operation
    if isinstance(op, Yield):
        around = op.parent_op()
        if isinstance(around, Net):
            return [(names_of(around.output_names)[use.index], None)]
        results = around.results if around is not None else ()
        return [(results[use.index].name_hint, results[use.index])] if results else []
    if isinstance(op, (Scan, Chunks)):
        return [_argument(op, use.index)]
    return [(result.name_hint, result) for result in op.results]


def _argument(op: Scan | Chunks, index: int) -> tuple[str | None, SSAValue]:
    """A loop's argument; one that is carried is called as what takes its place."""
    block = op.body.block
    arg, place = block.args[index], index - len(op.consts)
    carried = terminator(block)[place] if 0 <= place < len(op.inits) else arg
    return arg.name_hint or carried.name_hint, arg
