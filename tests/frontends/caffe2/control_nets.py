"""Small nets with Do, If and While, and the golden ones with their inputs and facts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rnncc.netdef import NetDef, OperatorDef
from tests.frontends.caffe2.nets import net, op
from tests.golden import Arrays, arrays_of

BOOL, INT32, INT64 = 5, 2, 10
"""Caffe2's numbers of element types."""


def body(*ops: OperatorDef) -> NetDef:
    """A net inside an operator; it declares nothing."""
    return net(ops, "", "", "inside")


def do(
    inside: NetDef,
    bound: Mapping[str, str],
    inputs: str,
    outputs: str,
    scope: str = "s",
    **args: Any,
) -> OperatorDef:
    """A Do; `bound` is inner name -> name outside."""
    names = [*inputs.split(), *outputs.split()]
    bindings = {
        "inner_blobs": list(bound),
        "outer_blobs_idx": [names.index(outer) for outer in bound.values()],
    }
    return op("Do", f"{inputs} {scope}", f"{outputs} {scope}", net=inside, **{**bindings, **args})


def scope(name: str = "s") -> OperatorDef:
    """A CreateScope."""
    return op("CreateScope", "", name)


def branch(inputs: str, outputs: str, then: NetDef, other: NetDef | None = None) -> OperatorDef:
    """An If; the first input is the condition."""
    nets = {"then_net": then} if other is None else {"then_net": then, "else_net": other}
    return op("If", inputs, outputs, **nets)


def loop(inputs: str, outputs: str, inside: NetDef, condition: NetDef | None = None) -> OperatorDef:
    """A While; the first input is the condition."""
    nets = (
        {"loop_net": inside} if condition is None else {"loop_net": inside, "cond_net": condition}
    )
    return op("While", inputs, outputs, **nets)


def constant(name: str, value: int, dtype: int = INT64) -> OperatorDef:
    """One integer or bool."""
    return op("ConstantFill", "", name, shape=[1], value=value, dtype=dtype)


def counted(*starts: OperatorDef, dtype: int = INT64) -> NetDef:
    """y = y0 wᵏ, where i counts to k: both, and `one`, are inputs unless `starts` makes them."""
    made = {op.output[0] for op in starts}
    inputs = " ".join(name for name in ("i", "one", "k", "go") if name not in made)
    inside = body(op("Mul", "y w", "y"))
    condition = body(op("Add", "i one", "i"), op("LE", "i k", "go"))
    ops = [op("Copy", "y0", "y"), *starts, loop("go y w i one k", "y i go", inside, condition)]
    return net(ops, f"y0 w {inputs}", "y i")


def facts(case: Path) -> dict[str, Any]:
    """What a golden case says of itself."""
    return json.loads((case / "case.json").read_text())


def stopped(case: Path) -> set[str]:
    """The inputs whose gradients StopGradient stops: they are Caffe2's, and no derivatives."""
    stops = b"StopGradient" in (case / "net.pb").read_bytes()
    return set(facts(case).get("not_derivative") or []) if stops else set()


def underivable(case: Path) -> set[str]:
    """The inputs whose gradients by Caffe2 are wrong."""
    return set(facts(case).get("not_derivative") or []) - stopped(case)


def stage(case: Path) -> str:
    """Where Caffe2 fails: `forward`, `gradient`, `backward`, or nowhere."""
    return (facts(case).get("error") or {}).get("stage", "")


def inputs_of(case: Path, training: bool = False) -> Arrays:
    """The inputs of a golden case, and the weights of its losses."""
    weights = arrays_of(case, "weight:")
    losses: Sequence[str] = facts(case)["loss_outputs"] if training else ()
    named = {f"loss_weight_{i}": weights[name] for i, name in enumerate(losses)}
    return arrays_of(case, "in:") | named


def shapes_of(arrays: Arrays) -> dict[str, tuple[int, ...]]:
    """The shapes of inputs."""
    return {name: np.shape(array) for name, array in arrays.items()}
