"""Half-compiled models as MLIR that stock `xdsl-opt` reads, and back.

A file holds the programs of one `Compilation`, a `rnn.net` or a `kern.func` each, in one
`builtin.module`; the module's attributes hold what else the steps that follow need. Parameters
are in a file of arrays beside it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
)
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import ParseError, VerifyException

from rnncc import arrays
from rnncc.errors import CompileError
from rnncc.ir.dims import Dim
from rnncc.ir.ops.control import Net
from rnncc.ir.program import Program, parse_module
from rnncc.ir.types import NUMPY, dims_of, dtype_of
from rnncc.passes.gradients.split_phases import Phases
from rnncc.passes.streams.streaming import StateValue, Streamed
from rnncc.sources import called, read_bytes
from rnncc.stages.compilation import Array, Compilation
from rnncc.stages.ir_checks import check_facts, check_order, check_types
from rnncc.stages.ir_options import READ_ONLY, resumed, stated
from rnncc.stages.size_bounds import completed

if TYPE_CHECKING:
    from xdsl.ir import Attribute

SUFFIX = ".mlir"
FACTS = "rnncc"
"""The attribute of the module that holds what is no op."""
MOST_SHOWN = 300
"""Characters of a message of the parser, which repeats names of any length."""
_START = b"builtin.module"
_QUOTED = re.compile(rb'//[^\n]*|"(?:[^"\\\n\v\f]|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*"|"')
"""Comments and whole strings as MLIR has them; else a quote that opens a string without an end."""
_UNREADABLE = (ValueError, OverflowError, NotImplementedError)
"""What xDSL's parser raises besides its own errors: for a number that its type does not hold, say,
or an array of integers of 322 bits."""
_INITIAL = "initial"
"""Of names of arrays: what trained parameters start with; other names begin with a program's."""


def is_ir(source: Any) -> bool:
    """Whether a source is a file of ours, by its name; or the content of one."""
    if isinstance(source, bytes):
        return source.lstrip().startswith(_START)
    return isinstance(source, (str, Path)) and Path(source).suffix == SUFFIX


def write(compilation: Compilation, after: str) -> str:
    """The programs as they are, after a step of the pipeline; those in `kern` once there are."""
    c, ops = compilation, list[Operation]()
    for key, program in (c.kernels or c.programs).items():
        op = program.module.body.block.first_op
        assert op is not None
        ops.append(op.clone())
        # A program's own name is among the facts.
        ops[-1].properties["sym_name"] = StringAttr(key)
    module = ModuleOp(ops)
    module.attributes[FACTS] = _attribute(_facts(c, after))
    return str(module) + "\n"


def parameters(compilation: Compilation) -> dict[str, Array]:
    """The arrays that go with a text: PROGRAM/NAME, and initial/NAME of what is trained."""
    stored = {
        f"{key}/{name}": np.asarray(program.arrays[name], NUMPY[dtype_of(value)])
        for key, program in compilation.programs.items()
        for name, value in _typed(program).items()
        if name in program.arrays
    }
    return stored | {f"{_INITIAL}/{name}": a for name, a in compilation.initial.items()}


def read(compilation: Compilation) -> None:
    """Go on with what `write` wrote and the arrays that `parameters` gave.

    Raises:
        CompileError: the text is damaged, or no net in `rnn`; or the arrays do not fit it.
    """
    c, source = compilation, compilation.source
    name = called(source, "net.mlir")
    for option in READ_ONLY:
        if getattr(c.options, option):
            raise CompileError(name, f"{option} given for a net that has its own")
    content = source if isinstance(source, bytes) else read_bytes(Path(source))
    module = _parsed(content, name)
    stored = _arrays(c.init)
    try:
        facts: dict[str, Any] = {}
        if FACTS in module.attributes:
            facts = _plain(module.attributes[FACTS])
        _restore(c, module, facts, stored, name)
        check_facts(c)
    except VerifyException as error:
        raise CompileError(name, f"its attributes do not fit its nets: {error}") from error
    # Attributes that somebody has edited may hold anything.
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise CompileError(name, "its attributes are not as rnncc writes them") from error


def _facts(c: Compilation, after: str) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "after": after,
        "programs": [
            [key, p.name, sorted(p.recompute), sorted(p.zeros), sorted(p.fixed)]
            for key, p in c.programs.items()
        ],
        "symbols": c.symbols,
        "inputs": c.inputs,
        "bounds": [str(bound) for bound in c.bounds],
        **(
            {"counts": [[name, *chain(*pairs)] for name, pairs in c.counts.items()]}
            if c.counts
            else {}
        ),
        **({"texts": json.dumps(c.texts)} if c.texts else {}),
        "refusal": c.refusal,
        "trip_counts": [list(pair) for pair in c.trip_counts.items()],
        "initial": list(c.initial),
    }
    if chosen := stated(c.options):
        facts["options"] = chosen
    if c.streamed is not None:
        facts["state"] = [[kept.name, kept.next, kept.initial_input] for kept in c.streamed.state]
        facts["defaults"] = [list(pair) for pair in c.streamed.defaults.items()]
    if c.phases is not None:
        facts["saved"], facts["kept"] = c.phases.saved, c.phases.kept
        facts["checkpoints"] = c.phases.checkpoints
    return facts


def _restore(
    c: Compilation,
    module: ModuleOp,
    facts: dict[str, Any],
    stored: Mapping[str, Array],
    source: str,
) -> None:
    nets = [op for op in module.ops if isinstance(op, Net)]
    if not nets or len(nets) != len(list(module.ops)):
        raise CompileError(source, "holds something else than nets in rnn")
    rows = facts.get("programs", [["net", nets[0].sym_name.data, [], [], []]])
    for net, (key, name, recompute, zeros, fixed) in zip(nets, rows, strict=True):
        net.detach()
        own = {n.removeprefix(f"{key}/"): a for n, a in stored.items() if n.startswith(f"{key}/")}
        extras = frozenset(recompute), frozenset(zeros)
        program = Program(ModuleOp([net]), own, name, source, *extras, fixed=frozenset(fixed))
        _check_arrays(own, _typed(program), source)
        c.programs[key] = program
    first = next(iter(c.programs.values()))
    c.after = _text(facts.get("after", ""))
    c.carried = frozenset(facts.get("options", {}))
    c.options = resumed(c.options, facts.get("options", {}), source)
    c.symbols = facts.get("symbols", first.symbols)
    c.inputs = facts.get("inputs", list(first.net.inputs))
    c.refusal = facts.get("refusal", "")
    c.counts = {
        name: tuple(zip(flat[::2], flat[1::2], strict=True))
        for name, *flat in facts.get("counts", ())
    }
    c.texts = tuple(json.loads(facts.get("texts", "[]")))
    c.trip_counts = dict(facts.get("trip_counts", ()))
    stated = map(Dim.parse, facts.get("bounds", ()))
    c.bounds = completed(stated, c.programs.values(), c.trip_counts)
    c.initial = {name: _initial(name, stored, source) for name in facts.get("initial", ())}
    for program in c.programs.values():
        typed = _typed(program)
        _check_arrays({n: a for n, a in c.initial.items() if n in typed}, typed, source)
    if "state" in facts:
        state = [StateValue(*row) for row in facts["state"]]
        defaults = dict(facts["defaults"])
        c.streamed = Streamed(c.programs["init"], c.programs["step"], state, defaults)
    if "saved" in facts:
        halves = c.programs["forward"], c.programs["backward"]
        c.phases = Phases(*halves, facts["saved"], facts["kept"], facts["checkpoints"])
    if c.phases is not None or c.initial:
        c.options = replace(c.options, train=True)
    elif c.options.train and c.streamed is not None:
        raise CompileError(source, "holds a net for inference", "leave --train out")


def _initial(name: Any, stored: Mapping[str, Array], source: str) -> Array:
    """What a parameter that is trained starts with."""
    array = stored.get(f"{_INITIAL}/{name}")
    if array is None:
        what = f'no array is there for the parameter "{name}"'
        raise CompileError(source, what, "give the .npz that was written with it as init")
    return array


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _parsed(content: bytes, name: str) -> ModuleOp:
    """The module of a text, verified."""
    for quoted in _QUOTED.finditer(content):
        # xDSL's lexer tries each way to cut such a string: it never ends.
        if quoted[0] == b'"':
            line = content.count(b"\n", 0, quoted.start()) + 1
            raise CompileError(f"{name}: line {line}", "holds a string without an end")
    try:
        module = parse_module(content.decode())
        check_types(module)
        module.verify()
        check_order(module.body.block)
    except ParseError as error:
        line = content.count(b"\n", 0, error.span.start) + 1
        raise CompileError(f"{name}: line {line}", error.msg[:MOST_SHOWN]) from error
    except (VerifyException, *_UNREADABLE, RecursionError) as error:
        raise CompileError(name, f"is no net in rnn: {error}"[:MOST_SHOWN]) from error
    return module


def _arrays(source: Any) -> dict[str, Array]:
    """What is in the file of parameters, if there is one."""
    if source is None:
        return {}
    if isinstance(source, bytes):
        loaded = arrays.parse(source, called(source, "the parameters"))
    else:
        loaded = arrays.read(Path(source))
    if isinstance(loaded, np.ndarray):
        raise CompileError(called(source, "the parameters"), "holds one array without a name")
    return loaded


def _check_arrays(arrays: Mapping[str, Array], values: Mapping[str, SSAValue], source: str) -> None:
    """Raise `CompileError` for an array that is not of its parameter's type."""
    for name, array in arrays.items():
        if name not in values:
            raise CompileError(source, f'nothing takes the parameter "{name}"')
        value = values[name]
        dims = dims_of(value)
        fits = [array.shape[i] == d for i, d in enumerate(dims)] if len(dims) == array.ndim else [0]
        if not all(fits) or array.dtype != NUMPY[dtype_of(value)]:
            what = f'parameter "{name}" is {array.dtype} {list(array.shape)}'
            raise CompileError(source, f"{what}, expected {value.type}")


def _typed(program: Program) -> dict[str, SSAValue]:
    """What may have an array: parameters, and inputs, whose array is a default."""
    return {**program.net.inputs, **{name: op.y for name, op in program.params.items()}}


def _attribute(value: Any) -> Attribute:
    """Plain data as an attribute."""
    if isinstance(value, str):
        return StringAttr(value)
    if isinstance(value, int):
        return IntegerAttr(value, 64)
    if isinstance(value, Mapping):
        items = cast(Mapping[str, Any], value).items()
        return DictionaryAttr({key: _attribute(inner) for key, inner in items})
    if isinstance(value, Sequence):
        return ArrayAttr(_attribute(inner) for inner in cast(Sequence[Any], value))
    assert value is None
    return UnitAttr()


def _plain(attribute: Any) -> Any:
    """The opposite of `_attribute`."""
    if isinstance(attribute, StringAttr):
        return attribute.data
    if isinstance(attribute, IntegerAttr):
        return attribute.value.data
    if isinstance(attribute, DictionaryAttr):
        return {key: _plain(inner) for key, inner in attribute.data.items()}
    if isinstance(attribute, ArrayAttr):
        return [_plain(inner) for inner in cast("ArrayAttr[Attribute]", attribute)]
    if isinstance(attribute, UnitAttr):
        return None
    raise ValueError(f"{attribute} is no plain data")
