"""Nets of 5,000 operators, wired so that what is not linear shows."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from rnncc.netdef import (
    NetDef,
    consumers,
    export,
    external_blobs,
    extract,
    fuse_copies,
    infer_devices,
    producers,
    prune,
    remove_dead_ops,
    remove_reshape_before_fc,
    rename_input,
    rename_output,
    reshape_subgraphs,
    ssa,
    ssa_rewrite,
    subgraph_io,
    undefined_blobs,
)
from tests.frontends.caffe2.nets import net, op

COUNT = 5_000
SECONDS = 1.0
"""Of processor time; what is quadratic takes several."""


@cache
def chain() -> NetDef:
    ops = [op("Relu", f"a{i}", f"a{i + 1}") for i in range(COUNT)]
    return net(ops, "a0", f"a{COUNT}")


@cache
def in_place() -> NetDef:
    return net([op("Relu", "a", "a") for _ in range(COUNT)], "a", "a")


@cache
def copies() -> NetDef:
    kinds = ("CopyCPUToGPU", "CopyGPUToCPU", "Copy")
    ops = [op(kinds[i % 3], f"a{i}", f"a{i + 1}") for i in range(COUNT - 1)]
    return net([*ops, op("Relu", f"a{COUNT - 1}", "y")], "a0", "y")


@cache
def copies_in_place() -> NetDef:
    kinds = ("CopyCPUToGPU", "CopyGPUToCPU")
    ops = [op(kinds[i % 2], "a", "a") for i in range(COUNT - 2)]
    return net([*ops, op("Relu", "a", "y")], "a", "y")


@cache
def fan() -> NetDef:
    readers = [op("Relu", "b", f"c{i}") for i in range(COUNT - 2)]
    names = " ".join(f"c{i}" for i in range(COUNT - 2))
    return net([op("Relu", "a", "b"), *readers, op("Sum", names, "y")], "a", "y")


@cache
def reshapes() -> NetDef:
    ops = []
    for i in range(COUNT // 5):
        ops += [
            op("FC", f"h{i} w w", f"a{i}"),
            op("Shape", f"a{i}", f"s{i}"),
            op("Slice", f"s{i}", f"d{i}", starts=[0], ends=[1]),
            op("Concat", f"d{i} minus", f"n{i} u{i}", axis=0),
            op("Reshape", f"a{i} n{i}", f"h{i + 1} o{i}"),
        ]
    last = f"h{COUNT // 5}"
    return net([*ops, op("FC", f"{last} w w", "y")], "h0 w minus", "y")


@cache
def far_shapes() -> NetDef:
    """Each shape depends on half of the net, and none of it on the data."""
    half = COUNT // 2
    ops = [op("Relu", f"s{i}", f"s{i + 1}") for i in range(half)]
    ops += [op("Reshape", f"x{i} s{i + 1}", f"r{i} o{i}") for i in range(half)]
    inputs = " ".join(f"x{i}" for i in range(half))
    return net(ops, f"s0 {inputs}", " ".join(f"r{i}" for i in range(half)))


NETS = (chain, in_place, copies, copies_in_place, fan, reshapes, far_shapes)
CALLS: dict[str, Callable[[NetDef], Any]] = {
    "ssa": ssa,
    "undefined_blobs": undefined_blobs,
    "producers": producers,
    "consumers": consumers,
    "subgraph_io": lambda n: subgraph_io(n, range(0, COUNT, 2)),
    "external_blobs": lambda n: external_blobs(n, undefined_blobs(n)),
    "rename_input": lambda n: rename_input(n, NetDef(), 0, 0, "new"),
    "rename_output": lambda n: rename_output(n, len(n.op) - 1, 0, "new", nested=True),
    "remove_dead_ops": remove_dead_ops,
    "extract": lambda n: extract(n, [n.op[-1].output[0]]),
    "reshape_subgraphs": reshape_subgraphs,
    "remove_reshape_before_fc": lambda n: remove_reshape_before_fc(n, ["minus"]),
    "fuse_copies": fuse_copies,
    "prune": lambda n: prune(n, {"minus": np.array([-1]), "w": np.ones((2, 2))}),
    "infer_devices": lambda n: infer_devices(n, dict.fromkeys([(f"a{COUNT}", 1)], "cpu")),
    "ssa_rewrite": ssa_rewrite,
    "export": lambda n: export(n, {}),
}
SOME = {
    "rename_input": {"chain", "in_place", "copies", "copies_in_place", "fan", "reshapes"},
    "infer_devices": {"chain"},
}
"""The nets that a function can do something with, where it is not all."""


@pytest.mark.parametrize("name", CALLS)
def test_thousands_of_operators_take_no_time(name: str) -> None:
    for make in NETS:
        if make.__name__ in SOME.get(name, {make.__name__}):
            given = make()
            # A collection goes through what all tests before this one have left.
            gc.disable()
            start = time.process_time()
            CALLS[name](given)
            took = time.process_time() - start
            gc.enable()
            assert took < SECONDS, f"{make.__name__}: {took:.1f} s"
