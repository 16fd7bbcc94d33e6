# pyright: basic, reportMissingImports=false
"""From the graph of one step to the program of a loop over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.fx import GraphModule
from xdsl.ir import SSAValue

from rnncc.errors import CompileError
from rnncc.frontends.torch.lower import lower_graph
from rnncc.frontends.torch.types import element_type
from rnncc.ir.build import Build, Values
from rnncc.ir.dims import Dim
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of, dtype_of, shape_text

NAME = "scan"


@dataclass(frozen=True)
class Step:
    """One step of a cell.

    Attributes:
        graph: (inputs) -> (rows of ys..., next state...) over aten operators.
        rows, states, held: where rows of xs, the state and all else are among its inputs; a row or
            state that the cell does not read is None.
        inputs: tensors with the shapes and dtypes of its inputs.
        row_types, state_types: shape and dtype of all rows and states.
        ys: how many of its outputs are rows of ys.
    """

    graph: GraphModule
    rows: Sequence[int | None]
    states: Sequence[int | None]
    held: Sequence[int]
    inputs: Sequence[torch.Tensor]
    row_types: Sequence[torch.Tensor]
    state_types: Sequence[torch.Tensor]
    ys: int


def scan_program(step: Step, reverse: bool) -> Program:
    """The net of all steps: inputs x0.., s0.., p0..; outputs y0.., final0...

    Xs have T rows; p are the tensors that the cell holds. All of them are inputs.

    Raises:
        CompileError: an operator is not supported; a state changes its shape or type.
    """
    b = Build.net(NAME)
    xs = [_input(b, f"x{i}", x, True) for i, x in enumerate(step.row_types)]
    inits = [_input(b, f"s{i}", s) for i, s in enumerate(step.state_types)]
    held = [_input(b, f"p{i}", step.inputs[at]) for i, at in enumerate(step.held)]

    def body(inner: Build, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        given: dict[int, SSAValue] = dict(zip(step.held, consts, strict=True))
        for places, values in ((step.rows, rows), (step.states, carry)):
            given |= {at: v for at, v in zip(places, values, strict=True) if at is not None}
        made = lower_graph(step.graph, inner, [given[i] for i in range(len(step.inputs))])
        _check_states(made[step.ys :], carry)
        return made[step.ys :], made[: step.ys]

    finals, ys = b.scan(held, inits, xs, body, reverse)
    outputs = {f"y{i}": y for i, y in enumerate(ys)}
    outputs |= {f"final{i}": final for i, final in enumerate(finals)}
    return b.finish(outputs)


def _input(b: Build, name: str, tensor: torch.Tensor, sequence: bool = False) -> SSAValue:
    dtype = element_type(tensor.dtype, f"a tensor of shape {list(tensor.shape)}")
    dims = [Dim.of("T")] * sequence + [Dim.of(size) for size in tensor.shape]
    return b.input(name, dims, dtype)


def _check_states(new: Values, old: Values) -> None:
    for number, (after, before) in enumerate(zip(new, old, strict=True)):
        if after.type != before.type:
            texts = (f"{dtype_of(v)} {shape_text(dims_of(v))}" for v in (before, after))
            before_text, after_text = texts
            what = f"state {number} is {before_text} before a step and {after_text} after it"
            raise CompileError("", what)
