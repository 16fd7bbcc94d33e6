"""A program's outputs, and fresh names for what passes add to it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from rnncc.ir.program import Program
from rnncc.passes.dce import Dce


def keep_outputs(program: Program, names: Sequence[str]) -> Program:
    """The program itself, with these outputs alone."""
    outputs = program.net.outputs
    program.net.give({name: outputs[name] for name in names})
    Dce().rewrite(program.net)
    return program


def fresh_prefix(program: Program, stem: str) -> str:
    """A prefix that no input or output has: STEM, a number and a colon."""
    names = (*program.net.inputs, *program.net.outputs)
    tried = (f"{stem}{number}:" for number in count(1))
    return next(p for p in tried if not any(name.startswith(p) for name in names))


def fresh_symbol(program: Program, stem: str) -> str:
    """A symbol of sizes that the net does not have: STEM and a number."""
    return next(s for s in (f"{stem}{number}" for number in count(1)) if s not in program.symbols)
