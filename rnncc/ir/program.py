"""A net in the `rnn` dialect with the arrays of its parameters."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from xdsl.dialects.builtin import Builtin, ModuleOp

from rnncc.ir.dims import Dim, used_symbols
from rnncc.ir.ops.control import Net
from rnncc.ir.ops.source import Param
from rnncc.ir.types import dims_of
from rnncc.sizes import BATCH, TIME

Counts = dict[str, tuple[tuple[str, int], ...]]
"""Output -> what tells how many of its rows count, and their axis, for one axis or two."""


@dataclass(repr=False)
class Program:
    """A module that holds one `rnn.net`, and the side table of parameter values.

    Attributes:
        arrays: parameter name -> array; a parameter that is missing here is an input of the model.
            An input's name -> its default, which makes the input optional.
        source: the file it came from, for messages.
        recompute: name hints of values in loops that the net itself says are to be computed again
            by the backward pass, not kept.
        zeros: inputs that may be absent where that is free, and are zeros then.
        fixed: parameters of floats that training does not change.
        bounds: formulas of sizes that must not be negative, besides those that its ops need.
        counts: an output whose number of rows the run decides -> the output that tells it, an
            int64 without axes, and the axis of the rows, for each of these axes; the others of its
            rows mean nothing.
        texts: those that the net knows by their numbers, where inputs or outputs hold such numbers.
    """

    module: ModuleOp
    arrays: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict[str, np.ndarray[Any, Any]])
    name: str = "net"
    source: str = ""
    recompute: frozenset[str] = frozenset()
    zeros: frozenset[str] = frozenset()
    bounds: tuple[Dim, ...] = ()
    counts: Counts = field(default_factory=Counts)
    fixed: frozenset[str] = frozenset()
    texts: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return str(self.module)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What notebooks and hypothesis print, instead of every field of every op."""
        printer.text(repr(self))

    def __reduce__(self) -> tuple[Any, ...]:
        others = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "module"}
        return _from_text, (str(self.module), others)

    def copy(self) -> Program:
        """Another program with ops of its own; the arrays are the same."""
        return replace(self, module=self.module.clone(), arrays=dict(self.arrays))

    @property
    def net(self) -> Net:
        op = self.module.body.block.first_op
        assert isinstance(op, Net)
        return op

    @property
    def params(self) -> dict[str, Param]:
        """Parameter name -> its op, in the order of the net."""
        return {op.param_name.data: op for op in self.net.walk() if isinstance(op, Param)}

    @property
    def open_symbols(self) -> list[str]:
        """The symbols whose values a call decides: those that the inputs' shapes have."""
        inputs = self.net.inputs.values()
        return used_symbols(self.symbols, (dim for value in inputs for dim in dims_of(value)))

    @property
    def symbols(self) -> list[str]:
        """T, N, then the net's further size symbols in order of appearance."""
        symbols = [TIME, BATCH]
        for value in (*self.net.inputs.values(), *(p.y for p in self.params.values())):
            for dim in dims_of(value):
                symbols += sorted(dim.symbols - set(symbols))
        return symbols


def parse_module(text: str) -> ModuleOp:
    """The module of a text in `rnn`, not verified.

    Raises:
        xdsl.utils.exceptions.ParseError: it is none.
    """
    from xdsl.context import Context
    from xdsl.parser import Parser

    from rnncc.ir.rnn import RNN

    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(RNN)
    return Parser(context, text).parse_module()


def _from_text(text: str, others: dict[str, Any]) -> Program:
    return Program(parse_module(text), **others)
