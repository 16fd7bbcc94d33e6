"""What all graphs of a model share while it is read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from xdsl.ir import Operation, SSAValue

from rnncc.errors import CompileError
from rnncc.frontends.onnx.formulas.learning import Fork, Known, Learnt, learnt_from
from rnncc.frontends.onnx.functions import FunctionKey, inlined
from rnncc.frontends.onnx.reading import Tensors
from rnncc.frontends.onnx.texts import Vocabulary
from rnncc.frontends.onnx.values import STEP_MARK, Array, Dequantised, Value, is_step, varies
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.size_proofs import is_natural
from rnncc.scalar import Scalar
from rnncc.sizes import BATCH, TIME

if TYPE_CHECKING:
    from onnx import NodeProto

    from rnncc.frontends.onnx.node import Node, OnnxOperator

MAX_FOLDED_BYTES = 1 << 29
"""That may be computed at import of a model, whatever it holds itself."""
SEED = "seed"
"""The input that random numbers follow from."""
GROWTH = 16
"""Bytes that are computed for each that the file holds: 4 bits become a float, some times over."""


@dataclass
class ModelContext:
    """What all graphs of a model share.

    Attributes:
        file: for messages.
        opsets: domain -> version.
        functions: the model's own.
        operators: how each operator is read, by its name.
        build_partial: reads a node, by its name and operator, some of whose inputs have rows of
            which the run decides how many count.
        arrays: the parameters so far.
        taken: names of parameters and inputs.
        inputs: what the model's inputs were built as -> name.
        captured: what stands in a block for a value of the graph around -> that value.
        constants: what stands in a block for a constant of a graph around -> its numbers.
        trained: parameters that training changes and what is made of such -> its numbers before.
        initialisers: their numbers as Python objects -> these, and the parameters that they are.
        called: functions as Python objects, and how they are called -> these, and nodes in them.
        fixed: names of parameters that training does not change.
        literals: name, type and shape of numbers of no initialiser -> parameters that hold them.
        levels: quantised values -> their numbers as floats.
        dequantised: floats -> the inputs of the node that they are from, and its axis.
        weights: constants -> the same without denormal numbers.
        wide: narrow values -> the same as they are computed with, of floats before they are rounded
            for a result that a node stores.
        max_iterations: the most iterations of a loop, and rows of a range, whose number nothing
            shows.
        training: whether the program will be differentiated.
        scalars: DOMAIN.NAME -> the function of numbers that an operator is.
        trip_counts: symbol of a loop's iteration number -> how many iterations there are.
        waiting: where a loop's number of iterations is still asked for, the formulas of such
            numbers that have to be within limits for what was folded.
        bounds: formulas that must not be negative for what was decided at import to hold.
        shapes: the open sizes that Shape gave.
        known: what operators force sizes to be, as far as that is known.
        decided: numbers that the run decides -> the sizes that they are, a symbol where that is not
            known yet.
        counts: numbers of rows that the run decides -> the most that they may be.
        lengths: numbers of rows between bounds that are formulas of iterations' numbers -> theirs.
        minima: numbers that the run computes as the smaller of two formulas -> these.
        chunks: numbers of rows of chunks that iterations cut off an axis one behind another, which
            they cover -> the symbol of the iteration's number, and the size of the axis.
        undecided: sizes that the run decides, and that no other one is known to be equal to, with
            the error that this is.
        refused: outputs that are not supported -> the error that this is if something reads them.
        texts: those that stand for numbers where the model runs.
        draws: the numbers of uses of random numbers to come: each draws others.
        net: builds the net itself, apart from loops and branches.
        symbols: of the sizes of inputs, and of those that the run decides, in order.
        unrolled: how many loops around a node can be unrolled.
        branches: how many branches a node stands in that may not be taken.
        stored: the bytes of the file.
        folded: the bytes of all that has been computed at import.
    """

    file: str
    tensors: Tensors
    opsets: Mapping[str, int]
    functions: Mapping[FunctionKey, Any]
    operators: Mapping[str, OnnxOperator]
    build_partial: Callable[[Node, str, OnnxOperator], list[Any]]
    max_iterations: Dim | None = None
    training: bool = False
    scalars: Mapping[str, Scalar] = field(default_factory=dict[str, Scalar])
    arrays: dict[str, Array] = field(default_factory=dict[str, Array])
    taken: set[str] = field(default_factory=set[str])
    inputs: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    captured: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    constants: dict[SSAValue, Array] = field(default_factory=dict[SSAValue, Array])
    trained: dict[SSAValue, Array] = field(default_factory=dict[SSAValue, Array])
    initialisers: dict[int, tuple[Any, str]] = field(default_factory=dict[int, tuple[Any, str]])
    called: dict[Any, tuple[Any, list[Any]]] = field(
        default_factory=dict[Any, tuple[Any, list[Any]]]
    )
    fixed: set[str] = field(default_factory=set[str])
    literals: dict[Any, list[str]] = field(default_factory=dict[Any, list[str]])
    trip_counts: dict[str, Dim] = field(default_factory=dict[str, Dim])
    waiting: list[tuple[int, Dim]] | None = None
    bounds: dict[Dim, None] = field(default_factory=dict[Dim, None])
    shapes: set[Dim] = field(default_factory=set[Dim])
    decided: dict[SSAValue, Dim] = field(default_factory=dict[SSAValue, Dim])
    counts: dict[SSAValue, Dim] = field(default_factory=dict[SSAValue, Dim])
    lengths: dict[SSAValue, Dim] = field(default_factory=dict[SSAValue, Dim])
    minima: dict[SSAValue, tuple[Dim, Dim]] = field(default_factory=dict[SSAValue, tuple[Dim, Dim]])
    chunks: dict[SSAValue, tuple[str, Dim]] = field(default_factory=dict[SSAValue, tuple[str, Dim]])
    undecided: dict[str, CompileError] = field(default_factory=dict[str, CompileError])
    refused: dict[str, CompileError] = field(default_factory=dict[str, CompileError])
    loops: int = 0
    known: Known = field(default_factory=Known)
    symbols: list[str] = field(default_factory=list[str])
    levels: dict[SSAValue | None, SSAValue] = field(default_factory=dict[Any, Any])
    dequantised: dict[Value | SSAValue | None, Dequantised] = field(default_factory=dict[Any, Any])
    weights: dict[Value, Value] = field(default_factory=dict[Any, Any])
    wide: dict[Value | SSAValue | None, Value | SSAValue] = field(default_factory=dict[Any, Any])
    texts: Vocabulary = field(default_factory=Vocabulary)
    draws: Iterator[int] = field(default_factory=lambda: count(1))
    net: Builder | None = None
    nodes: int = 0
    calls: int = 0
    unrolled: int = 0
    branches: int = 0
    stored: int = 0
    folded: int = 0
    _seed: SSAValue | None = None

    def raise_refused(self, name: str) -> None:
        """Raise `CompileError` for an output that is not supported, and that something reads."""
        if name in self.refused:
            raise self.refused[name]

    def is_trained(self, value: Value | None) -> bool:
        """Whether it is a parameter that training changes, or made of such and constants alone."""
        return value is not None and value.made in self.trained

    def parameter(self, tensor: Any, array: Array) -> str:
        """The name of the parameter that an initialiser is, each time that its graph is built."""
        if id(tensor) not in self.initialisers:
            # held, so that no other has its number
            self.initialisers[id(tensor)] = tensor, self._stored(tensor.name, array)
        return self.initialisers[id(tensor)][1]

    def nodes_of(self, op: NodeProto, function: Any) -> list[NodeProto]:
        """A function's nodes for a call; in training the same ones for like calls, as initialisers
        of graphs in them are the same parameters."""
        if not self.training:
            return inlined(op, function)
        attributes = tuple(a.SerializeToString() for a in op.attribute)
        key = id(function), tuple(map(bool, op.input)), attributes
        if key not in self.called:
            self.called[key] = function, inlined(op, function)
        return self.called[key][1]

    def numbers_of(self, value: Value) -> Array | None:
        """The numbers, where they are known; of what training changes, those of the file."""
        return value.known if value.made is None else self.trained.get(value.made)

    def run_numbers(self, value: Value) -> Array:
        """The known numbers as the run has them: of texts theirs."""
        assert value.known is not None, "it is computed"
        return self.texts.numbers(value.known) if value.dtype == "text" else value.known

    def numbers_behind(self, value: Value) -> Array | None:
        """The same, and of what stands for a constant of a graph around."""
        numbers = None if value.made is None else self.constants.get(value.made)
        return self.numbers_of(value) if numbers is None else numbers

    def fixed_value(self, value: Value) -> Value:
        """The same, as numbers that training does not change, where they are known."""
        numbers = self.numbers_behind(value)
        if numbers is None or numbers.dtype == object:
            return value
        return replace(Value.of(numbers, value.name), fixed=True)

    def remember_trained(self, results: Any, folded: Any) -> None:
        """Keep what an operator's results are before training, for readers that must know them."""
        values, arrays = (
            cast(Sequence[Any], each) if isinstance(each, (list, tuple)) else [each]
            for each in (results, folded)
        )
        for result, array in zip(values, arrays, strict=False):  # outputs may be left out
            place: Any = result.made if isinstance(result, Value) else result
            if isinstance(place, SSAValue) and isinstance(array, np.ndarray):
                self.trained[place] = cast(Array, array)

    def literal(self, name: str, array: Array, fixed: bool = False) -> str:
        """The name of the parameter that holds known numbers which no initialiser does; in training
        one for all blocks and iterations that read the same."""
        held = self.literals.setdefault((name, array.dtype, array.shape, fixed), [])
        for other in held if self.training else ():
            if self.arrays[other].tobytes() == array.tobytes():
                return other
        held.append(stored := self._stored(name, array))
        if fixed:
            self.fixed.add(stored)
        return stored

    def _stored(self, name: str, array: Array) -> str:
        """The name of a parameter that holds some numbers."""
        name = self.unique(name)
        self.arrays[name] = np.ascontiguousarray(array).reshape(array.shape)
        return name

    def may_fold(self) -> bool:
        """Whether more may be computed at import: what a small file makes of one constant, time
        after time, is left to the run.
        """
        held = self.stored + self.tensors.outside
        return self.folded <= MAX_FOLDED_BYTES + GROWTH * held

    def count_folded(self, results: Any) -> None:
        """Count what was computed at import, but for views."""
        for result in cast(
            Iterable[Any], results if isinstance(results, (list, tuple)) else [results]
        ):
            array: Any = result.known if isinstance(result, Value) else result
            if isinstance(array, np.ndarray) and array.base is None:
                self.folded += cast(Array, array).nbytes

    def unique(self, name: str) -> str:
        """A name for a parameter."""
        stem, number = name or "constant", 1
        chosen = stem
        while chosen in self.taken:
            number += 1
            chosen = f"{stem}.{number}"
        self.taken.add(chosen)
        return chosen

    def new_step(self) -> str:
        """A symbol for the number of a loop's iteration."""
        self.loops += 1
        return f"{STEP_MARK}{self.loops}"

    def seed(self, b: Builder) -> SSAValue | None:
        """The seed of random numbers, an input i32 without axes; None in a loop or a branch."""
        if self.net is None or b.block is not self.net.block:
            return None
        if self._seed is None:
            self._seed = self.net.input(self.net.free_name(SEED), [], "i32")
            self.inputs[self._seed] = SEED
        return self._seed

    def within(self, limit: int, formulas: Iterable[Dim]) -> bool:
        """Whether calls can check that open sizes are within ±limit; if so, they do."""
        formulas_at_ends = list[Dim]()
        for formula in formulas:
            if self._waits(limit, formula):
                continue
            extremes = [] if formula.is_static else self._extremes(formula)
            if extremes is None:
                return False
            formulas_at_ends += extremes
        for formula in formulas_at_ends:
            self.bounds[limit - formula] = self.bounds[limit + formula] = None
        return True

    def _waits(self, limit: int, formula: Dim) -> bool:
        """Whether a loop's number of iterations will tell if a formula is within a limit."""
        unknown = {*filter(is_step, formula.symbols)} - self.trip_counts.keys()
        if self.waiting is None or not unknown or not _is_linear(formula, unknown):
            return False
        self.waiting.append((limit, formula))
        return True

    def never_negative(self, formula: Dim) -> bool:
        """Whether a formula is 0 or more in each iteration of the loops around it, or calls can
        check that it is; if so, they do."""
        unsure = self.unsure(formula)
        if unsure is None:
            return False
        if any(self.branches or varies(one) or is_natural(-one - 1) for one in unsure):
            return False
        self.bounds.update(dict.fromkeys(unsure))
        return True

    def unsure(self, formula: Dim) -> list[Dim] | None:
        """What must be 0 or more for a formula to be so in each iteration of the loops around it,
        as far as that is not known; None where that is no formula."""
        extremes = self._extremes(formula, only_least=True)
        if extremes is None:
            return None
        # an iteration that runs has a last one
        lasts = [self.trip_counts[name] - 1 for name in filter(is_step, formula.symbols)]
        return [extreme for extreme in extremes if not is_natural(extreme, lasts)]

    def _extremes(self, formula: Dim, only_least: bool = False) -> list[Dim] | None:
        """What a formula is in the first and the last iterations of loops around it.

        Between these it lies in all others; None where it is not linear in an iteration's number.

        Args:
            only_least: leave out where it is larger, if it is known to rise or to fall.
        """
        extremes: list[Dim] = [formula]
        steps = [*filter(is_step, formula.symbols)]
        if not _is_linear(formula, steps) or any(name not in self.trip_counts for name in steps):
            return None
        for name in steps:
            ends = [Dim.of(0), self.trip_counts[name] - 1]
            rise = formula.substitute({name: 1}) - formula.substitute({name: 0})
            if only_least and is_natural(rise):
                ends.pop()
            elif only_least and is_natural(-rise):
                ends.pop(0)
            extremes = [f.substitute({name: end}) for f in extremes for end in ends]
        return extremes

    def raise_undecided(self, error: CompileError | None = None) -> None:
        """Raise what is wrong with the first size that nothing tells, if there is one; or that its
        rows are to be counted, where a bound is given.

        Args:
            error: what came of it.
        """
        if not self.undecided:
            return
        if self.max_iterations is not None and not self.training:
            raise Learnt(counted=next(iter(self.undecided)))
        raise next(iter(self.undecided.values())) from error

    def learnt_from(self, error: CompileError) -> Learnt | None:
        """What must be true of sizes where the error is that they differ; that branches go on where
        it is that these do."""
        return self.known.goes_on(error) or self._learnt(error.differ, self.branches > 0)

    def try_uneven(self, learnt: Learnt) -> bool:
        """Whether what was learnt is that branches go on: they do from here on, so that one reading
        finds all that do, and what it reads is then given up."""
        if learnt.uneven:
            self.known = self.known.more(learnt)
        return bool(learnt.uneven)

    def fork(self, error: CompileError, size: Dim, other: Dim) -> Fork | None:
        """What choosing either branch tells, where they depend on whether two sizes are equal."""
        if self.branches or varies(size):
            return None
        equal = self._learnt([(size, other)], False)
        return None if equal is None else Fork(error, equal, Learnt(size - other - 1))

    def _learnt(self, pairs: Iterable[tuple[Dim, Dim]], plain: bool) -> Learnt | None:
        order = sorted(self.symbols, key=lambda symbol: symbol not in (TIME, BATCH))
        return learnt_from(pairs, order, plain, self.known)

    def inputs_behind(self, *values: Value) -> list[str]:
        """The inputs of the model that values are computed from."""
        names, seen = dict[str, None](), set[SSAValue]()
        waiting = [value.made for value in reversed(values)]
        while waiting:
            current = waiting.pop()
            if current is None or current in seen:
                continue
            seen.add(current)
            if current in self.inputs:
                names[self.inputs[current]] = None
            if current in self.captured:
                waiting.append(self.captured[current])
            if isinstance(current.owner, Operation):
                waiting += current.owner.operands
        return list(names)


def _is_linear(formula: Dim, steps: Collection[str]) -> bool:
    """Whether a formula is linear in each of some iterations' numbers."""
    if any(varies(atom.inner) for atom in formula.atoms):
        return False
    return all(monomial.count(step) <= 1 for step in steps for monomial, _ in formula.terms)
