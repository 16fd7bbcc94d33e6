"""What this machine lacks to run code for another one."""

from __future__ import annotations

from rnncc.codegen.cpu.machine.core import AMX, Core
from rnncc.codegen.cpu.machine.features import had, needed
from rnncc.codegen.cpu.machine.permitted import permitted
from rnncc.codegen.llvm.host import host
from rnncc.errors import CompileError
from rnncc.platforms import architecture_of, system_of


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
