"""Surgery on the golden nets with If, While and Do, and on those with their gradients."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rnncc.frontends.caffe2 import import_net
from rnncc.ir.interpreter import run
from rnncc.netdef import NetDef, extract, load, parameters, prune, remove_dead_ops, ssa_rewrite
from tests.golden import GOLDEN, arrays_of

REFUSED = ("do_wrong_", "if_two_conditions", "if_int_condition")
CASES = [
    path
    for path in sorted(GOLDEN.glob("control/*/net.pb"))
    if not path.parent.name.startswith(REFUSED)
]


CHANGES: dict[str, Callable[[NetDef, NetDef], NetDef]] = {
    "prune": lambda net, init: prune(net, parameters(init))[0],
    "remove_dead_ops": lambda net, init: remove_dead_ops(net, nested=True),
    "ssa_rewrite": lambda net, init: ssa_rewrite(net, init, nested=True),
    "extract": lambda net, init: extract(net, net.external_output),
}


def read(path: Path) -> tuple[NetDef, NetDef]:
    return load(path), NetDef.FromString(path.with_name("init.pb").read_bytes())


@cache
def unchanged(path: Path) -> list[Any]:
    """What the net computes as it is."""
    return computed(*read(path), arrays_of(path.parent, "in:"))


def computed(net: NetDef, init: NetDef, given: dict[str, Any]) -> list[Any]:
    shapes = {name: given[name].shape for name in given if name in net.external_input}
    program = import_net(net, init, shapes)
    return list(run(program, {name: given[name] for name in program.net.inputs}).values())


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.parent.name)
def test_changed_nets_compute_the_same(path: Path, change: Callable[..., NetDef]) -> None:
    net, init = read(path)
    before = net.SerializeToString()
    made = change(net, init)
    assert net.SerializeToString() == before
    given = arrays_of(path.parent, "in:")
    for got, want in zip(computed(made, init, given), unchanged(path), strict=True):
        np.testing.assert_array_equal(got, want)
