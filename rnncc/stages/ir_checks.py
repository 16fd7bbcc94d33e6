"""What a half-compiled model in a file must be besides what its ops verify themselves.

In: a `Compilation` that `ir_text` has read. A file is no more to be trusted than any other model:
what the steps that follow take for granted is looked at here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue

from rnncc.ir.ops.base import Sized
from rnncc.ir.ops.checks import expect
from rnncc.ir.ops.chunks import Chunks
from rnncc.ir.ops.source import Param
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of, is_tensor, tensor
from rnncc.passes.gradients.split_phases import Phases
from rnncc.passes.streams.streaming import Streamed
from rnncc.sizes import BATCH, TIME
from rnncc.stages.compilation import Compilation

_SYMBOL = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def check_types(module: ModuleOp) -> None:
    """Raise `VerifyException` for values of no type of ours, which ops' own checks take for one."""
    for op in module.walk():
        arguments = (a for region in op.regions for block in region.blocks for a in block.args)
        for value in (*arguments, *op.results):
            expect(is_tensor(value.type), f"{value.type} is no type of values")


def check_order(block: Block) -> None:
    """Raise `VerifyException` where a value is read before it is made, in blocks inside too.

    These see nothing of the blocks around them.
    """
    defined = set[SSAValue](block.args)
    for op in block.ops:
        expect(all(v in defined for v in op.operands), f"{op.name} reads what is made behind it")
        for inner in (block for region in op.regions for block in region.blocks):
            check_order(inner)
        defined.update(op.results)


def check_facts(c: Compilation) -> None:
    """Raise `VerifyException` for attributes of the module that its nets do not bear out."""
    names = [*c.symbols, *c.trip_counts]
    expect(_are_names(names) and all(map(_SYMBOL.fullmatch, names)), "symbols are names")
    expect(c.symbols[:2] == [TIME, BATCH], "the first symbols are T and N")
    expect(_are_numbers(c.trip_counts.values()), "counts are numbers")
    expect(_are_names(c.inputs), "inputs are names")
    expect(_are_names([c.refusal]), "a refusal is a text")
    expect(all(isinstance(word, str) for word in c.texts), "texts are texts")  # pyright: ignore
    whole = c.streamed is None and c.phases is None
    possible = ({"net"}, {"run"}) if whole else ({"init", "step"}, {"forward", "backward"})
    expect(c.programs.keys() in possible, f"no step leaves {', '.join(c.programs)[:40]}")
    for program in c.programs.values():
        _check_parameters(program)
        missing = sorted(_symbols_of(program.net.body.block).difference(names))
        expect(not missing, f"no symbols are {', '.join(missing)}")
        own = set(program.net.inputs_of(None))
        state = {kept.name for kept in c.streamed.state} if c.streamed else set[str]()
        expect(own <= {*c.inputs, *state, *c.initial}, "an input of a net is none of the model's")
    for name, count, axis in ((name, *pair) for name, pairs in c.counts.items() for pair in pairs):
        [net] = (program.net for program in c.programs.values())
        outputs, places = net.outputs, range(len(dims_of(net.outputs[name])))
        expect(outputs[count].type == tensor((), "i64"), f"{count} is no number of rows")
        expect(axis in places, f"{name} has no axis {axis}")
    if c.streamed is not None:
        _check_streamed(c.streamed)
    if c.phases is not None:
        _check_phases(c.phases, c.initial)


def _check_parameters(program: Program) -> None:
    """A parameter's name stands for one array, wherever it is read."""
    inputs, types = program.net.inputs, {name: op.y.type for name, op in program.params.items()}
    for op in program.net.walk():
        if isinstance(op, Param):
            name = op.param_name.data
            expect(name not in inputs, f"{name} is an input and a parameter")
            expect(op.y.type == types[name], f"the parameter {name} has two types")


def _symbols_of(block: Block) -> set[str]:
    """Those of all shapes, and of what else ops have of sizes, without the lengths of runs."""
    symbols = {s for value in block.args for dim in dims_of(value) for s in dim.symbols}
    for op in block.ops:
        sizes = op.sizes if isinstance(op, Sized) else []
        shapes = (dims_of(value) for value in op.results)
        symbols.update(
            symbol for dims in (sizes, *shapes) for dim in dims for symbol in dim.symbols
        )
        for region in op.regions:
            inside = _symbols_of(region.block)
            symbols |= inside - {op.extent.data} if isinstance(op, Chunks) else inside
    return symbols


def _are_names(names: Collection[object]) -> bool:
    return all(isinstance(name, str) for name in names) and len(set(names)) == len(names)


def _are_numbers(numbers: Iterable[object]) -> bool:
    return all(isinstance(number, int) and number >= 0 for number in numbers)


def _check_streamed(streamed: Streamed) -> None:
    init, step = streamed.init.net, streamed.step.net
    expect(init.inputs.keys() == streamed.defaults.keys(), "defaults are those of init's inputs")
    numbers = [number for number in streamed.defaults.values() if number is not None]
    expect(_are_numbers(numbers), "defaults are numbers")
    expect(_are_names([kept.name for kept in streamed.state]), "parts of the state are names")
    expect(init.outputs.keys() == {k.name for k in streamed.state}, "init gives the state")
    for kept in streamed.state:
        initial = init.outputs[kept.name]
        grows = any(TIME in dim.symbols for dim in dims_of(initial))
        expect(not grows, f"the state {kept.name} grows with the steps of a call")
        _check_equal(initial, step.inputs.get(kept.name), kept.name)
        if kept.next is not None:
            _check_equal(initial, step.outputs.get(kept.next), kept.next)
        if kept.initial_input is not None:
            expect(kept.initial_input in init.inputs, f"no input is {kept.initial_input}")


def _sources(program: Program) -> dict[str, SSAValue]:
    """A half's inputs that are the net's, and its parameters."""
    params = {name: op.y for name, op in program.params.items()}
    return {**program.net.inputs_of(None), **params}


def _check_phases(phases: Phases, initial: Collection[str]) -> None:
    forward, backward = phases.forward.net, phases.backward.net
    expect(_are_names([phases.checkpoints]), "checkpoints are a text")
    expect(_are_names([*phases.saved, *phases.kept]), "what is saved or kept is named")
    expect(set(phases.saved) == set(backward.inputs_of("saved")), "what backward reads is saved")
    expect(set(phases.kept) == set(backward.inputs_of("kept")), "what backward reads is kept")
    for name in phases.saved:
        _check_equal(backward.inputs[name], forward.outputs_of("saved").get(name), name)
    for name in phases.kept:
        kept = forward.outputs_of(None).get(backward.input_roles[name].of)
        _check_equal(backward.inputs[name], kept, name)
    gradients = backward.outputs_of("grad")
    expect(gradients.keys() == backward.outputs.keys(), "backward gives gradients alone")
    expect(not forward.input_roles, "forward reads the model's inputs alone")
    sources, read = _sources(phases.forward), _sources(phases.backward)
    of = {role.of for role in backward.output_roles.values()}
    expect(of <= {*sources, *initial}, "gradients are of inputs and parameters")
    of = {backward.input_roles[name].of for name in backward.inputs_of("grad")}
    expect(of <= forward.outputs_of(None).keys(), "gradients come in of outputs")
    for name, value in read.items():
        _check_equal(value, sources.get(name, value if name in initial else None), name)


def _check_equal(one: SSAValue, other: SSAValue | None, name: str) -> None:
    expect(other is not None and one.type == other.type, f"{name} is of one type in both nets")
