"""Suites, their cells and the peers: `benchmarks/` of the repository, which no wheel has."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from rnncc.bench.cases import NET, Case
from rnncc.bench.contenders import Contender
from rnncc.errors import CompileError

ROOT = Path(__file__).parents[2]
"""Of the repository, where this package lies in one."""
HINT = "suites and peers are in rnncc's repository, under benchmarks/, and not in its wheel"

Suite = tuple[str, Callable[[], list[Case]]]
"""What a suite is of, and its cases."""


def is_here() -> bool:
    """Whether this package lies in the repository."""
    return (ROOT / "benchmarks" / "suites.py").is_file()


def suites() -> Mapping[str, Suite]:
    """By name; none outside the repository."""
    return module("benchmarks.suites").SUITES if is_here() else {}


def cases_of(suite: str, only: str = "") -> list[Case]:
    """The cases of a suite whose names have all words of `only` in them.

    Raises:
        CompileError: there is none.
    """
    cases = suites()[suite][1]()
    words = only.split()
    matching = [case for case in cases if all(word in case.name.split() for word in words)]
    if not matching:
        hint = "such as " + "; ".join(case.name for case in cases[:3])
        raise CompileError("--only", f"no case of {suite} has {only!r} in its name", hint)
    return matching


def peers() -> Sequence[Contender]:
    """All that are known, installed or not; none outside the repository."""
    return module("benchmarks.peers").PEERS if is_here() else ()


def chosen_peers(
    names: str | None, precisions: Sequence[str] = ("fp32",), device: str = "cpu"
) -> list[Contender]:
    """The peers on a device that a user names, with commas between them.

    Without names those that are installed, not slow, and of fp32 or the same precisions.

    Raises:
        CompileError: a name is none of them, or not installed.
    """
    several = [peer for peer in peers() if peer.device == device]
    if names is None:
        kinds = {"fp32", *precisions}
        quick = [peer for peer in several if peer.precision in kinds and not peer.slow]
        return [peer for peer in quick if peer.installed]
    if names.strip() == "all":
        return [peer for peer in several if peer.installed]
    by_name = {peer.name.lower(): peer for peer in several}
    words = [word for word in map(str.strip, names.split(",")) if word not in ("", "none")]
    for word in words:
        if word.lower() not in by_name:
            hint = ", ".join(peer.name for peer in several) + ", all, none"
            raise CompileError("--peers", f"no peer is named {word!r}", hint)
    contenders = [by_name[word.lower()] for word in words]
    for peer in contenders:
        if not peer.installed:
            hint = f"it needs {peer.needs}; pip install 'rnncc[peers]' has most peers"
            raise CompileError("--peers", f"{peer.name} is not installed", hint)
    return contenders


def source(case: Case) -> tuple[Any, Any]:
    """What `rnncc.compile` takes: a net, and an init net or None."""
    return (
        (case.net, case.init)
        if case.cell == NET
        else (module("benchmarks.cells").build(case), None)
    )


def module(name: str) -> Any:
    """A module of rnncc, or one of `benchmarks`, which is then the repository's.

    Raises:
        CompileError: it is of `benchmarks`, outside the repository.
        ImportError: it needs what is not installed.
    """
    if name.startswith("benchmarks."):
        if not is_here():
            raise CompileError("bench", "there are no suites here", HINT)
        if sys.path[0] != str(ROOT):  # other packages, xDSL's among them, are called so as well
            sys.path.insert(0, str(ROOT))
    return import_module(name)
