"""Cuts a net into what is done once and what is done with every few steps.

In: a simplified program. Out: a program that makes the state, and one that takes inputs of some
steps and the state, and gives outputs and the next state.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from xdsl.ir import Operation, SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.ops.control import Scan, Yield
from rnncc.ir.ops.shape import Broadcast, Reshape, Transpose
from rnncc.ir.ops.source import Iota, Param
from rnncc.ir.order import post_order
from rnncc.ir.ports import Role, fresh
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of, dtype_of
from rnncc.passes.streams.causality import Availability, NotCausal, availability_of, time_axis
from rnncc.passes.streams.default_initial_state import default_initial_state
from rnncc.records import record
from rnncc.sizes import TIME

__all__ = ["NotCausal", "StateValue", "Streamed", "split_stream"]

MOST_STEPS = 2**31 - 1
"""Step numbers are i32, as front ends write them."""
_VIEWS = (Reshape, Transpose, Broadcast)
"""Ops that a step repeats rather than keep their results."""

Values = dict[SSAValue, SSAValue]


@record
class StateValue:
    """One value of the state: an output of `init`, an input of `step`.

    Attributes:
        next: the output of `step` that replaces it; None for what stays the same.
        initial_input: the input of the net that it starts as, element for element, if it is one.
    """

    name: str
    next: str | None = None
    initial_input: str | None = None


@record
class Streamed:
    """A net in two programs.

    Attributes:
        defaults: each input of `init` -> what it is where a user gives nothing: 0 for a state,
            the largest number for what only bounds from above, such as lengths; else None.
    """

    init: Program
    step: Program
    state: list[StateValue]
    defaults: dict[str, int | None]


def name_state(step: Program, state: Iterable[StateValue]) -> None:
    """Tell which ports of a step are of the state, and which of the state that follows."""
    read = {kept.name: Role("state", kept.name) for kept in state}
    written = {kept.next: Role("next", kept.name) for kept in state if kept.next is not None}
    step.net.name_added([], read)
    step.net.give(step.net.outputs, written)


def split_stream(program: Program) -> Streamed:
    """Cut a program in two.

    Inputs with an axis of time go to `step`, all others to `init`; what these alone decide is
    computed there. The steps since the start are counted where the net asks for their numbers.

    Before:

        for t in 0..T, h from h:
            v1 = mul(h[t-1], x[t])
            h[t] = v1
        return h[T-1]

    After:

        init(h):
            return state:h=h
        step(x, state:h):
            for t in 0..T, c from state:h:
                v1 = mul(c[t-1], x[t])
                c[t] = v1
            return y=c[T-1], next:h=c[T-1]

    Raises:
        NotCausal: why the net cannot be computed as time goes on.
    """
    split = _Split(program)
    for op in program.net.body.block.ops:
        split.visit(op)
    return split.finish()


class _Split:
    """The state of the walk over a net's block.

    Attributes:
        dynamic: the values that inputs have a part in.
        once, often: value of the net -> the same in `init` and in `step`.
    """

    def __init__(self, program: Program) -> None:
        self.program, self.available = program, availability_of(program.net)
        self.init, self.step = (
            Builder.net(f"{program.name}_init"),
            Builder.net(f"{program.name}_step"),
        )
        self.once: Values = {}
        self.often: Values = {}
        self.dynamic = set(program.net.inputs.values())
        self.kept: list[StateValue] = []
        self.firsts: dict[str, SSAValue] = {}
        self.nexts: dict[str, SSAValue] = {}
        self.defaults: dict[str, int | None] = {}
        self._position: SSAValue | None = None
        for name, value in program.net.inputs.items():
            timed = self.available[value] == Availability.SEQUENCE
            build, known = (self.step, self.often) if timed else (self.init, self.once)
            known[value] = build.input(name, dims_of(value), dtype_of(value))
            if not timed:
                self.defaults[name] = default_initial_state(value)

    def visit(self, op: Operation) -> None:
        """Put an op where it belongs."""
        if isinstance(op, Yield):
            return
        # A parameter without an array is one that the caller gives, as an input.
        unknown = isinstance(op, Param) and op.param_name.data not in self.program.arrays
        if unknown or self.dynamic.intersection(op.operands):
            self.dynamic.update(op.results)
        if all(self.available[result] == Availability.FIXED for result in op.results):
            self.init.block.add_op(op.clone(self.once))
            if isinstance(op, Param) and unknown:
                self.defaults[op.param_name.data] = None
        # Numbers along time start at 0 in each call of a step: they go on from a count in the
        # state.
        elif isinstance(op, Iota) and op.axis.data == time_axis(op.y):
            self.often[op.y] = self._count_on(op)
        else:
            self._repeat(op)

    def finish(self) -> Streamed:
        """Both programs, with their outputs."""
        outputs = {n: self._in_step(v) for n, v in self.program.net.outputs.items()}
        state: list[StateValue] = []
        for kept in self.kept:
            following = None
            if kept.name in self.nexts:
                following = fresh(f"next:{kept.name.removeprefix('state:')}", outputs)
                outputs[following] = self.nexts[kept.name]
            state.append(StateValue(kept.name, following, kept.initial_input))
        arrays, source = self.program.arrays, self.program.source
        init = self.init.finish(self.firsts, arrays, source)
        step = self.step.finish(outputs, arrays, source)
        name_state(step, state)
        return Streamed(init, step, state, self.defaults)

    def _repeat(self, op: Operation) -> None:
        """An op of every step; a loop over time starts from the state and leaves the next."""
        scan = op if isinstance(op, Scan) and op.steps == Dim.of(TIME) else None
        starts = dict(enumerate(scan.inits, len(scan.consts))) if scan else {}
        names: dict[int, str] = {}
        operands: list[SSAValue] = []
        for i, value in enumerate(op.operands):
            if i in starts:
                # The loop of a step starts where that of the step before ended, so its first state
                # is kept.
                names[i] = self._keep(value, self.once[value])
                operands.append(self.step.block.args[-1])
            else:
                operands.append(self._in_step(value))
        clone = op.clone(self.often)
        clone.operands = operands
        self.step.block.add_op(clone)
        if scan:
            finals = (self.often[final] for final in scan.finals)
            self.nexts |= dict(zip(names.values(), finals, strict=True))

    def _in_step(self, value: SSAValue) -> SSAValue:
        """The value in the program of every step."""
        for inner in () if value in self.often else post_order(value, self._needs):
            if inner in self.often:  # another result of an op that is there by now
                continue
            if self._is_repeated(inner):
                assert isinstance(inner.owner, Operation)
                self.step.block.add_op(inner.owner.clone(self.often))
            else:
                self._keep(inner, self.once[inner])
                self.often[inner] = self.step.block.args[-1]
        return self.often[value]

    def _is_repeated(self, value: SSAValue) -> bool:
        """Whether every step computes a value again rather than read it from the state.

        What no input has a part in are constants; views cost nothing, and keeping one would copy.
        """
        op = value.owner
        return isinstance(op, Operation) and (value not in self.dynamic or isinstance(op, _VIEWS))

    def _needs(self, value: SSAValue) -> list[SSAValue]:
        if not self._is_repeated(value):
            return []
        assert isinstance(value.owner, Operation)
        return [operand for operand in value.owner.operands if operand not in self.often]

    def _keep(self, value: SSAValue, first: SSAValue) -> str:
        """One more value in the state, the last argument of the step; its name."""
        source = self._source(value)
        hint = source or value.name_hint or str(len(self.kept))
        return self._add(hint, first, source)

    def _add(self, hint: str, first: SSAValue, source: str | None = None) -> str:
        reserved = {*self.firsts, *self.program.net.inputs, *self.defaults}
        name = fresh(f"state:{hint}", reserved)
        self.step.input(name, dims_of(first), dtype_of(first))
        self.kept.append(StateValue(name, initial_input=source))
        self.firsts[name] = first
        return name

    def _source(self, value: SSAValue) -> str | None:
        """The input that a value is, but for its shape."""
        while isinstance(op := value.owner, Reshape):
            value = op.x
        if isinstance(op, Param) and value in self.dynamic:
            return op.param_name.data
        names = {v: name for name, v in self.program.net.inputs.items()}
        return names.get(value)

    def _count_on(self, op: Iota) -> SSAValue:
        """Numbers of steps that go on from those of the steps before."""
        b, dims = self.step, dims_of(op.y)
        b.loc = Builder.before(op).loc
        start = self._steps_so_far()
        rows = dims[op.axis.data].divide(Dim.of(TIME))
        assert rows is not None
        # T·R numbers along time: a step has R of them.
        if rows != 1:
            start = b.mul(start, b.size(rows, "i32"))
        return b.cast(b.add(b.iota(dims, op.axis.data), start), dtype_of(op.y))

    def _steps_so_far(self) -> SSAValue:
        """The number of the first step; it saturates: streams have no end."""
        if self._position is None:
            b = self.step
            name = self._add("steps", self.init.fill(0, (), "i32"))
            count = b.size(Dim.of(TIME), "i32")
            # An i32 that wraps around would count backwards after 2^31 steps.
            room = b.sub(b.constant(np.array(MOST_STEPS), "i32"), count)
            self._position = b.minimum(b.block.args[-1], room)
            self.nexts[name] = b.add(self._position, count)
        return self._position
