"""This machine, as LLVM tells of it, and what it lacks to run code for another one."""

from __future__ import annotations

from typing import Any, cast

import llvmlite.binding

from rnncc.codegen.cpu.core import AMX, Core
from rnncc.codegen.cpu.features import had, needed
from rnncc.codegen.cpu.permitted import permitted
from rnncc.errors import CompileError
from rnncc.platforms import architecture_of, system_of
from rnncc.records import record

llvm = cast(Any, llvmlite.binding)  # its type stubs are of an older version


@record
class Host:
    """This machine; `features` has `+NAME` or `-NAME` for each one that LLVM knows."""

    triple: str
    cpu: str
    features: str


def host() -> Host:
    """What code for this process may use."""
    features = llvm.get_host_cpu_features().flatten()
    return Host(llvm.get_default_triple(), llvm.get_host_cpu_name(), features)


def check_runs_here(target: Core) -> None:
    """Refuse code for another machine.

    Raises:
        CompileError: this machine lacks what the target has.
    """
    own = host()
    lacking = "another architecture"
    if system_of(target.triple) != system_of(own.triple):
        lacking = "another system"
    elif architecture_of(target.triple) == architecture_of(own.triple):
        required = {*needed(target), *(AMX[dtype] for dtype in target.tiles)}
        lacking = ", ".join(sorted(required - set(had(own))))
        if not lacking and target.tiles and not permitted():
            lacking = "the system's leave to use AMX"
    if lacking:
        what = f"code for {target.cpu} ({target.triple}) does not run on this machine, a {own.cpu}"
        raise CompileError("", f"{what}: {lacking}", "rnncc.build writes it to files")
