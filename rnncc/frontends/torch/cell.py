# pyright: basic, reportMissingImports=false
"""From the graph of one step to the program of a loop over time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch.fx import GraphModule

from rnncc.errors import CompileError
from rnncc.frontends.torch.interface import Dtypes, declared, given_out
from rnncc.frontends.torch.loops import Tensor, Tensors, scan
from rnncc.frontends.torch.lower import lower_graph
from rnncc.frontends.torch.randomness import Random
from rnncc.frontends.torch.sizes import Sizes, symbols_of
from rnncc.frontends.torch.types import NARROW, type_name
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.gates import NESTED_LIMIT
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of, dtype_of, shape_text
from rnncc.nn.complex_numbers import Complex
from rnncc.records import record
from rnncc.sizes import TIME

NAME = "scan"


@record
class Places:
    """Where rows of xs, the state and all other tensors are among a graph's inputs.

    A row or state that the cell does not read is None.
    """

    rows: Sequence[int | None]
    states: Sequence[int | None]
    held: Sequence[int]

    @cached_property
    def taken(self) -> list[int]:
        """The numbers of the xs that the loop takes: those whose rows are read, or else the first,
        which has as many. All sizes of the others would count in what a call may have."""
        return [i for i, at in enumerate(self.rows) if at is not None] or [0]

    @cached_property
    def unread(self) -> tuple[list[int], list[int]]:
        """The numbers of the xs that the loop takes unread, and of the states that are not read."""
        rows = [i for i in self.taken if self.rows[i] is None]
        return rows, [i for i, at in enumerate(self.states) if at is None]


@record
class CellStep:
    """One step of a cell.

    Attributes:
        graph: (inputs) -> (rows of ys..., next state...) over aten operators.
        inputs: what it takes: fake tensors, and PyTorch's symbols of sizes.
        places: what its inputs are.
        row_types, state_types: shape and dtype of all rows that are taken, and of all states.
        names: what the states are called, in messages.
        ys: how many of its outputs are rows of ys.
    """

    graph: GraphModule
    inputs: Sequence[Any]
    places: Places
    row_types: Sequence[torch.Tensor]
    state_types: Sequence[torch.Tensor]
    names: Sequence[str]
    ys: int


def scan_program(step: CellStep, reverse: bool) -> tuple[Program, Dtypes]:
    """The net of all steps: inputs x0.., s0.., p0.., seed; outputs y0.., final0...

    Xs have T rows, and those that are not taken are left out; p are the tensors that the cell
    holds; the seed, i32 of rank 0, is there where the cell draws random numbers. All of them are
    inputs. Open sizes are N, N2, ... in the order in which they occur; rows that are not read may
    be of any size.

    Returns:
        The net, and what its inputs and outputs are in PyTorch.

    Raises:
        CompileError: an operator is not supported; a state changes its shape or type.
    """
    b, sizes = Builder.net(NAME), Sizes(_names(step.inputs))

    def declare(name: str, tensor: torch.Tensor, dims: list[Dim]) -> Tensor:
        return declared(b, b.input, name, tensor, dims, f"a tensor of shape {list(tensor.shape)}")

    def shape(tensor: torch.Tensor) -> list[Dim]:
        return [sizes(size) for size in tensor.shape]

    xs, taken = list[Tensor](), step.places.taken
    rows_at = [step.places.rows[i] for i in taken]
    for i, x, at in zip(taken, step.row_types, rows_at, strict=True):
        unread = [Dim.of(f"x{i}_{axis}") for axis in range(x.dim())]
        xs.append(declare(f"x{i}", x, [Dim.of(TIME), *(unread if at is None else shape(x))]))
    inits = [declare(f"s{i}", s, shape(s)) for i, s in enumerate(step.state_types)]
    tensors = [step.inputs[at] for at in step.places.held]
    held = [declare(f"p{i}", p, shape(p)) for i, p in enumerate(tensors)]
    known = {i: sizes(x) for i, x in enumerate(step.inputs) if not isinstance(x, torch.Tensor)}

    def body(
        inner: Builder, random: Random, consts: Tensors, carry: Tensors, rows: Tensors
    ) -> tuple[Tensors, Tensors]:
        values: dict[int, Any] = known | dict(zip(step.places.held, consts, strict=True))
        for places, values_of in ((rows_at, rows), (step.places.states, carry)):
            values |= {at: v for at, v in zip(places, values_of, strict=True) if at is not None}
        inputs = [values[i] for i in range(len(step.inputs))]
        results = lower_graph(step.graph, inner, inputs, sizes, random, NESTED_LIMIT)
        _check_dtypes(step)
        _check_states(step.names, results[step.ys :], carry)
        return results[step.ys :], results[: step.ys]

    finals, ys = scan(b, Random(b), step.graph, body, held, inits, xs, reverse)
    outputs = {f"y{i}": y for i, y in enumerate(ys)}
    outputs |= {f"final{i}": final for i, final in enumerate(finals)}
    nodes: Any = step.graph.graph.output_node().args[0]
    operands = (*step.row_types, *step.state_types, *tensors)
    return b.finish(given_out(b, outputs)), Dtypes.of(operands, outputs, nodes)


def _names(inputs: Sequence[Any]) -> dict[str, str]:
    """What PyTorch's symbols are called, so that equal cells are equal programs."""
    sizes = (size for x in inputs if isinstance(x, torch.Tensor) for size in x.shape)
    texts = (text for size in sizes for text in sorted(symbols_of(size)))
    return {text: f"N{i + 1 if i else ''}" for i, text in enumerate(dict.fromkeys(texts))}


def _check_dtypes(step: CellStep) -> None:
    """Two that are computed in one type are not one: after the step another would follow."""
    nodes: Any = step.graph.graph.output_node().args[0]
    for name, old, node in zip(step.names, step.state_types, nodes[step.ys :], strict=True):
        new = node.meta["val"].dtype
        if new != old.dtype and not {new, old.dtype}.isdisjoint(NARROW):
            what = f"{name} is {type_name(old.dtype)} before a step and {type_name(new)} after it"
            raise CompileError("", what)


def _check_states(names: Sequence[str], new: Tensors, old: Tensors) -> None:
    for name, *pair in zip(names, new, old, strict=True):
        after, before = map(_text, pair)
        if after != before:
            what = f"{name} is {before} before a step and {after} after it"
            raise CompileError("", what)


def _text(x: Tensor) -> str:
    """A value's type."""
    first, kind = (x.re, "complex ") if isinstance(x, Complex) else (x, "")
    return f"{kind}{dtype_of(first)} {shape_text(dims_of(first))}"
