"""One operator applied to arrays, by the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np

from rnncc.frontends.caffe2 import import_net
from rnncc.ir.interpreter import run
from tests.frontends.caffe2.nets import net, op

RANDOM = np.random.default_rng(7)
Array = np.ndarray[Any, Any]


def real(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


def apply(kind: str, inputs: list[Array], outputs: int, args: dict[str, Any]) -> list[Array]:
    """Import a net of one operator, all shapes given, and run it."""
    names = [f"in{i}" for i in range(len(inputs))]
    results = [f"out{i}" for i in range(outputs)]
    made = net([op(kind, " ".join(names), " ".join(results), **args)], " ".join(names), results[0])
    made.external_output[:] = results
    made.external_input[:] = names or ["none"]
    arrays = dict(zip(names, inputs, strict=True)) if names else {"none": real(1)}
    shapes = {name: array.shape for name, array in arrays.items()}
    program = import_net(made, shapes=shapes)
    program.module.verify()
    types = {n: v.type.element_type for n, v in program.net.inputs.items()}  # type: ignore[attr-defined]
    for name, array in arrays.items():
        bits = {"f4": "f32", "i4": "i32", "b1": "i1", "i8": "i64"}[array.dtype.str[1:]]
        if str(types[name]) != bits:
            cast = op("Cast", name, f"{name}_", to={"i32": 2, "i1": 5, "i64": 10}[bits])
            made.op.insert(0, cast)
    if len(made.op) > 1:
        return apply_cast(made, arrays, results)
    got = run(program, arrays)
    return [got[name] for name in results]


def apply_cast(made: Any, arrays: dict[str, Array], results: list[str]) -> list[Array]:
    """The same with the inputs whose type nothing shows cast from floats first."""
    cast = [o.input[0] for o in made.op if o.type == "Cast" and o.output[0].endswith("_")]
    last = made.op[len(made.op) - 1]
    last.input[:] = [f"{name}_" if name in cast else name for name in last.input]
    program = import_net(made, shapes={name: a.shape for name, a in arrays.items()})
    got = run(program, {n: a.astype(np.float32) if n in cast else a for n, a in arrays.items()})
    return [got[name] for name in results]
