"""The options that go with a half-compiled model in a file: those that its next steps read.

Out, for `ir_text`: what the user chose, as plain data. In: that, joined with what is chosen now.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, cast

from rnncc.errors import CompileError
from rnncc.options import Options

CARRIED = (
    "train",
    "order",
    "outputs_with_grads",
    "recompute",
    "memory_budget",
    "plan_for",
    "state",
    "prepack",
    "threads",
    "max_steps",
    "precision",
    "flush_denormals",
)
"""What steps behind `read` look at, besides the machine: a text is for any machine."""
READ_ONLY = ("shapes", "bind", "seed", "max_iterations", "functions")
"""What front ends alone look at."""


def stated(options: Options) -> dict[str, Any]:
    """What was chosen, as plain data."""
    chosen = {name: value for name, value in _chosen(options).items() if name in CARRIED}
    return {name: _plain(value) for name, value in chosen.items()}


def resumed(options: Options, facts: Mapping[str, Any], source: str) -> Options:
    """What is chosen now, with what a file states.

    Raises:
        CompileError: both state the same option differently; or they do not go together.
        ValueError: the file states what is no option.
    """
    if unknown := [name for name in facts if name not in CARRIED]:
        raise ValueError(f"no options are {unknown}")
    now = _chosen(options)
    before = _chosen(Options.of(None, {name: _value(name, v) for name, v in facts.items()}))
    before.pop("name", None)
    for name in sorted(before.keys() & now.keys()):
        if stated(options)[name] != facts[name]:
            what = f"{name} {now[name]!r} given for a net that has {before[name]!r}"
            raise CompileError(source, what, "leave it out")
    return Options.of(None, {**now, "name": options.name, **before})


def _plain(value: Any) -> Any:
    """A mapping as pairs: its keys may be any text."""
    if isinstance(value, Mapping):
        return [[key, of] for key, of in cast(Mapping[str, Any], value).items()]
    return value


def _value(name: str, fact: Any) -> Any:
    """The opposite of `_plain`; flags come as numbers."""
    if isinstance(getattr(Options(), name), bool):
        return bool(fact)
    if name in ("state", "plan_for") and isinstance(fact, list):
        items = cast(list[Any], fact)
        return dict(items) if all(isinstance(item, list) for item in items) else items
    return fact


def _chosen(options: Options) -> dict[str, Any]:
    """All options that are not as without a choice."""
    names, plain = [entry.name for entry in fields(Options)], Options()
    return {n: v for n in names if (v := getattr(options, n)) != getattr(plain, n)}
