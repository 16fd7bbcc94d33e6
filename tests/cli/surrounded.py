"""The commands that tests of what surrounds them run, and how one is run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

Run = Callable[..., tuple[int, str, str]]

COMMANDS = {
    "compile": "compile NET --init INIT -v -o OUT",
    "compile --emit llvm": "compile NET --init INIT --emit llvm",
    "run": "run NET --init INIT -i ARRAYS",
    "draw": "draw NET --init INIT",
    "inspect": "inspect NET --init INIT",
    "plan": "plan NET --init INIT --json",
    "check": "check NET --init INIT --for 2",
    "demo": "demo",
    "targets": "targets",
    "ops": "ops",
    "bench": "bench",
    "netdef show": "netdef show NET",
    "netdef ssa": "netdef ssa NET",
    "netdef extract": "netdef extract NET größe",
    "netdef prune": "netdef prune NET",
    "netdef rename": "netdef rename NET größe länge",
    "netdef split": "netdef split NET --init INIT -o OUT",
    "netdef diff": "netdef diff NET INIT",
    "netdef draw": "netdef draw NET --layout own",
}
WRITERS = {
    "compile": "compile NET --init INIT --products so,h,py,o,a,pc,cmake -o OUT",
    "compile --emit obj": "compile NET --init INIT --emit obj -o OUT/x.o",
    "compile --emit llvm": "compile NET --init INIT --emit llvm -o OUT/x.ll",
    "compile --dump-ir": "compile NET --init INIT --emit rnn --dump-ir OUT",
    "run": "run NET --init INIT -i ARRAYS -o OUT/y.npz",
    "run one": "run NET --init INIT -i ARRAYS -o OUT/y.npy",
    "plan": "plan NET --init INIT --html OUT/plan.html",
    "netdef show": "netdef show NET -o OUT/net.pb",
    "netdef extract": "netdef extract NET größe -o OUT/net.pbtxt",
    "netdef prune": "netdef prune NET --init INIT -o OUT/net.pb --init-out OUT/init.pb",
    "netdef split": "netdef split NET --init INIT -o OUT",
    "draw": "draw NET --init INIT -o OUT/net.svg",
    "netdef draw": "netdef draw NET --layout own -o OUT/net.svg",
}
NORMAL = ("/dev/null", "out", "err")


def environment() -> dict[str, str]:
    """Of a process that imports what this one does."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
