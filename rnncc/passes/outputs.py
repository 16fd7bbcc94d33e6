"""A program's outputs, and fresh names for what passes add to it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import count

from rnncc.ir.builder import Builder
from rnncc.ir.ops.control import Yield
from rnncc.ir.program import Program
from rnncc.ir.types import FLOATS, dtype_of
from rnncc.passes.cleanup.dce import Dce


def keep_outputs(program: Program, names: Sequence[str]) -> Program:
    """The program itself, with these outputs alone."""
    outputs = program.net.outputs
    program.net.give({name: outputs[name] for name in names})
    Dce().rewrite(program.net)
    return program


def stop_other_outputs(program: Program, names: Collection[str]) -> Program:
    """A net of the same outputs, of which only these have gradients: here the first.

    Before:

        v1 = tanh(x)
        v2 = log(x)
        return v1, v2

    After:

        v1 = tanh(x)
        v2 = log(x)
        v3 = stop_gradient(v2)
        return v1, v3
    """
    result = program.copy()
    net = result.net
    end = net.body.block.last_op
    assert isinstance(end, Yield)
    b = Builder.before(end)
    net.give(
        {
            name: value
            if name in names or dtype_of(value) not in FLOATS
            else b.stop_gradient(value)
            for name, value in net.outputs.items()
        }
    )
    return result


def fresh_prefix(program: Program, stem: str) -> str:
    """A prefix that no input or output has: STEM, a number and a colon."""
    names = (*program.net.inputs, *program.net.outputs)
    tried = (f"{stem}{number}:" for number in count(1))
    return next(p for p in tried if not any(name.startswith(p) for name in names))


def fresh_symbol(program: Program, stem: str) -> str:
    """A symbol of sizes that the net does not have: STEM and a number."""
    return next(s for s in (f"{stem}{number}" for number in count(1)) if s not in program.symbols)
