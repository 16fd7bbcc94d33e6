"""Makes a stream of a net that takes a state in and gives the next one out, by names.

In: a program and pairs of an input and an output. Out: as of `streaming.py`: a program that makes
the state, and the net itself, whose inputs are those of a step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from xdsl.ir import SSAValue

from rnncc.errors import CompileError
from rnncc.ir.builder import Builder
from rnncc.ir.ops.base import Array
from rnncc.ir.ports import fresh
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of, dtype_of, shape_text
from rnncc.passes.streams.streaming import StateValue, Streamed, name_state
from rnncc.sizes import TIME


def make_state_explicit(program: Program, pairs: Mapping[str, str]) -> Streamed:
    """Cut a program in two.

    Before:

        v1 = mul(h, x)
        return v1

    After:

        init(h):
            return state:h=h
        step(state:h, x):
            v1 = mul(state:h, x)
            return y=v1, next:h=v1

    Args:
        pairs: input -> the output that is its value in the next call. What a user gives no start
            for is zeros.

    Raises:
        CompileError: a name that there is not, a pair that differs in shape or type, or a state
            whose size depends on the number of steps.
    """
    net = program.net
    _check(program, pairs)
    begin = Builder.net(f"{program.name}_init")
    titles = _titles(program, pairs)
    firsts = dict[str, SSAValue]()
    for name, (initial, _) in titles.items():
        value = net.inputs[name]
        firsts[initial] = begin.input(name, dims_of(value), dtype_of(value))
    state = [StateValue(initial, following, name) for name, (initial, following) in titles.items()]
    # The default of a state is where a stream begins: `init` has it, and no later step may fall
    # back on it.
    arrays = {n: a for n, a in program.arrays.items() if n not in pairs}
    initial = {n: a for n, a in program.arrays.items() if n in pairs}
    init = begin.finish(firsts, initial, program.source)
    step = _step(program, titles, pairs, arrays)
    name_state(step, state)
    return Streamed(init, step, state, dict.fromkeys(pairs, 0))


def _titles(program: Program, pairs: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Names of the state's values and of their next values that nothing else of the net has."""
    reserved = {*program.net.inputs, *program.net.outputs, *program.params}
    titles = dict[str, tuple[str, str]]()
    for name in pairs:
        titles[name] = fresh(f"state:{name}", reserved), fresh(f"next:{name}", reserved)
        reserved.update(titles[name])
    return titles


def _step(
    program: Program,
    titles: Mapping[str, tuple[str, str]],
    pairs: Mapping[str, str],
    arrays: Mapping[str, Array],
) -> Program:
    """The net, with its states as inputs of other names, and the next ones as further outputs."""
    b, known = Builder.net(f"{program.name}_step"), dict[SSAValue, SSAValue]()
    for name, value in program.net.inputs.items():
        title = titles[name][0] if name in pairs else name
        known[value] = b.input(title, dims_of(value), dtype_of(value))
    last = program.net.body.block.last_op
    for op in program.net.body.block.ops:
        if op is not last:
            b.block.add_op(op.clone(known))
    outputs = {name: known[value] for name, value in program.net.outputs.items()}
    nexts = {titles[name][1]: outputs[output] for name, output in pairs.items()}
    return b.finish({**outputs, **nexts}, arrays, program.source)


def _check(program: Program, pairs: Mapping[str, str]) -> None:
    inputs, outputs = program.net.inputs, program.net.outputs
    for name, output in pairs.items():
        for what, label, ports in (("input", name, inputs), ("output", output, outputs)):
            if label not in ports:
                names = f"{what}s: {', '.join(ports)}"
                raise CompileError(program.source, f'state: no {what} is named "{label}"', names)
        one, other = inputs[name], outputs[output]
        if one.type != other.type:
            texts = [f"{dtype_of(v)} {shape_text(dims_of(v))}" for v in (one, other)]
            what = f'state: input "{name}" is {texts[0]}, output "{output}" {texts[1]}'
            raise CompileError(program.source, what)
        if any(TIME in dim.symbols for dim in dims_of(one)):
            what = f'state: input "{name}" is {shape_text(dims_of(one))}'
            hint = "a state may not grow with the steps of a call"
            raise CompileError(program.source, f"{what}, which depends on {TIME}", hint)
    if len(set(pairs.values())) < len(pairs):
        raise CompileError(program.source, "state: one output is the next value of two inputs")
