"""Random NetDefs that the compiler can run: in-place blobs, reused names, dead ends, copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st

from rnncc.frontends.caffe2 import import_net
from rnncc.ir.interpreter import run
from rnncc.netdef import NetDef, OperatorDef, export, undefined_blobs
from tests.frontends.caffe2.nets import op

Array = np.ndarray[Any, Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]

INPUTS, PARAMS = ("x", "y", "unread"), ("w", "v")
NAMES = ("a", "b", "c", "d", "a_1", "b_2", *INPUTS, *PARAMS)
SHAPE = (2, 3)
UNARY = ("Tanh", "Sigmoid", "Negative", "Copy", "CopyCPUToGPU", "CopyGPUToCPU", "Alias")
NARY = ("Sum", "Max", "Min")
BINARY = ("Add", "Sub", "Mul")


@st.composite
def nets(draw: Draw, declared: bool = True) -> NetDef:
    """A net over matrices of one size, with inputs, parameters and some of its blobs as outputs.

    Args:
        declared: whether the net always declares its external inputs.
    """
    known, shared = [*INPUTS, *PARAMS], set[str]()
    ops: list[OperatorDef] = []
    for _ in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from((*UNARY, *NARY, *BINARY, "CopyCPUToGPU", "CopyGPUToCPU")))
        count = 1 if kind in UNARY else 2 if kind in BINARY else draw(st.integers(1, 3))
        recent = st.sampled_from(known[-3:])
        inputs = [draw(st.one_of(recent, st.sampled_from(known))) for _ in range(count)]
        free = [name for name in NAMES if name not in shared]
        output = draw(st.sampled_from(free))
        if kind == "Alias":
            if output in inputs:
                kind = "Copy"
            else:
                # a blob that shares its memory must not be written again
                shared |= {output, *inputs}
        ops.append(op(kind, " ".join(inputs), output))
        if output in known:
            known.remove(output)
        known.append(output)
    net = NetDef(name="random", op=ops)
    if declared or draw(st.booleans()):
        net.external_input.extend(draw(st.permutations([*INPUTS, *PARAMS])))
    else:
        known = [name for name in known if any(name in (*o.input, *o.output) for o in ops)]
    outputs = draw(st.lists(st.sampled_from(known), min_size=1, max_size=3, unique=True))
    net.external_output.extend(outputs)
    return net


def values(names: tuple[str, ...] = INPUTS) -> dict[str, Array]:
    """An array for each name, always the same."""
    rng = np.random.default_rng(3)
    return {n: rng.uniform(-1, 1, SHAPE).astype(np.float32) for n in names}


def init_net() -> NetDef:
    """The net that fills the parameters."""
    return export(NetDef(), values(PARAMS))[0]


def outputs_of(net: NetDef, init: NetDef | None, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """What a net computes, by the interpreter."""
    filled = {name for fill in (init.op if init else ()) for name in fill.output}
    read = [name for name in net.external_input or undefined_blobs(net) if name not in filled]
    program = import_net(net, init, {name: np.shape(inputs[name]) for name in read})
    return run(program, {name: inputs[name] for name in program.net.inputs})
