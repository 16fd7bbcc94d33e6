"""`NAME_forward` and `NAME_backward`: they fill the two programs' tables of pointers.

`NAME_forward_part` and `NAME_backward_part` are the same for one of several threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.cpu.sizes import bad_size
from rnncc.codegen.cpu.tape_seal import TapeSeal
from rnncc.codegen.cpu.target import CpuTarget
from rnncc.codegen.cpu.team import Team, alone
from rnncc.codegen.llvm.emit import BAD_SIZE, I8, I32, I64, NULL_POINTER, OK, POINTER, Value
from rnncc.ir.dims import Dim
from rnncc.ir.kernel_program import Port
from rnncc.ir.library import Library
from rnncc.ir.training import GRAD, KEPT, SAVED

POINTERS = {"forward": 5, "backward": 6, "init_parameters": 1}
"""Exported functions -> how many pointers they take; in front of the sizes, but for the last."""
PARTS = {"forward_part": 6, "backward_part": 7}
"""Those that several threads call together."""
FORWARD = ("inputs", "parameters", "outputs", "tape", "workspace")
BACKWARD = ("inputs", "parameters", "output_grads", "grads", "tape", "workspace")


def emit_training(
    module: ir.Module, library: Library, calls: dict[str, ir.Function], target: CpuTarget
) -> dict[str, ir.Function]:
    """Add the functions that compute; each takes the weights first. By exported name."""
    initial = {"init_parameters": _initial(module, library, target)}
    parts = _passes(module, library, calls, target, team=True) if library.shared else {}
    return _passes(module, library, calls, target) | parts | initial


def _passes(
    module: ir.Module,
    library: Library,
    calls: dict[str, ir.Function],
    target: CpuTarget,
    team: bool = False,
) -> dict[str, ir.Function]:
    """Add forward and backward; `team`: for one of several threads."""
    end = ("_part", ("part",)) if team else ("", ())
    made = {
        name: (_Glue(module, library, target, f"{name}{end[0]}", (*blocks, *end[1])), write)
        for name, blocks, write in (
            ("forward", FORWARD, _forward),
            ("backward", BACKWARD, _backward),
        )
    }
    return {f"{name}{end[0]}": write(glue, calls[name]) for name, (glue, write) in made.items()}


def _forward(glue: _Glue, call: ir.Function) -> ir.Function:
    """Leaves the places of the outputs that backward reads on the tape."""
    training, program = glue.training, glue.library.programs["forward"]
    glue.name_fields("outputs", training.outputs)
    glue.seal.open()
    for name in training.kept:
        pointer = glue.field("outputs", name)
        glue.refuse_null(pointer)
        with glue.emit.alone():
            glue.emit.b.store(pointer, glue.tape(training.pointer_to(name)), align=8)
    return glue.finish(call, program.inputs, program.outputs, glue.seal.close)


def _backward(glue: _Glue, call: ir.Function) -> ir.Function:
    training, program = glue.training, glue.library.programs["backward"]
    glue.name_fields("output_grads", training.output_grads, GRAD)
    glue.name_fields("grads", training.grads, GRAD)
    glue.seal.check()
    return glue.finish(call, program.inputs, program.outputs, glue.seal.break_unless_refused)


def _initial(module: ir.Module, library: Library, target: CpuTarget) -> ir.Function:
    """Copies what the parameters start with to where the caller wants it; none may be NULL."""
    signature = ir.FunctionType(I32, [POINTER, POINTER])
    function = ir.Function(module, signature, f"{library.name}_init_parameters_entry")
    emit = CpuEmit.begin(function, target, [])
    b, (weights, parameters) = emit.b, function.args
    kind = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, I64, ir.IntType(1)])
    copy = ir.Function(module, kind, "llvm.memcpy.p0.p0.i64")
    emit.fail_if(emit.is_null(parameters), NULL_POINTER)
    for number, one in enumerate(library.initial):
        place = emit.field(parameters, number)
        emit.fail_if(emit.is_null(place), NULL_POINTER)
        held = b.gep(weights, [I64(one.offset)], source_etype=I8)
        b.call(copy, [place, held, I64(one.array.nbytes), ir.IntType(1)(0)])
    b.ret(I32(OK))
    return function


class _Glue:
    """A function over structs that calls a program over tables."""

    def __init__(
        self,
        module: ir.Module,
        library: Library,
        target: CpuTarget,
        name: str,
        blocks: Sequence[str],
    ) -> None:
        assert library.training is not None
        types = [POINTER] * (1 + len(blocks)) + [I64] * len(library.symbols)
        signature = ir.FunctionType(I32, types)
        self.function = ir.Function(module, signature, f"{library.name}_{name}_entry")
        self.library, self.training = library, library.training
        pointers = self.function.args[: 1 + len(blocks)]
        self.blocks: dict[str, Value] = dict(zip(("weights", *blocks), pointers, strict=True))
        self.emit = CpuEmit.begin(self.function, target, library.symbols)
        self.emit.fail_if(bad_size(self.emit, library.bounds), BAD_SIZE)
        for block in blocks:
            if block != "workspace":
                self.refuse_null(self.blocks[block])
        if "part" in blocks:
            self.emit.team = Team(module, self.emit.b, self.blocks["part"])
        self.sizes = self.function.args[1 + len(blocks) :]
        self.seal = TapeSeal(self.emit, library.name, self.blocks["tape"], self.sizes)
        self._fields: dict[str, tuple[str, int]] = {}
        self.name_fields("inputs", self.training.inputs)
        self.name_fields("parameters", self.training.parameters)

    def name_fields(self, struct: str, ports: Sequence[Port], prefix: str = "") -> None:
        """Where the ports of the programs are that stand in a struct."""
        for number, port in enumerate(ports):
            self._fields[f"{struct}/{prefix}{port.name}"] = (struct, number)

    def field(self, struct: str, name: str) -> Value:
        """One pointer of a struct."""
        _, number = self._fields[f"{struct}/{name}"]
        return self.emit.field(self.blocks[struct], number)

    def tape(self, offset: Dim) -> Value:
        """A place in the tape."""
        return self.emit.b.gep(self.blocks["tape"], [self.emit.dim(offset)], source_etype=I8)

    def refuse_null(self, pointer: Value) -> None:
        """End the call where a pointer is NULL."""
        self.emit.fail_if(self.emit.is_null(pointer), NULL_POINTER)

    def finish(
        self,
        call: ir.Function,
        inputs: Sequence[Port],
        outputs: Sequence[Port],
        last: Callable[[Value], None],
    ) -> ir.Function:
        """Fill the tables, call, and do what is `last`, given the code that is returned."""
        structs = ("output_grads", "inputs", "parameters"), ("grads", "outputs")
        tables = [
            self.emit.table([self._find(port.name, known) for port in ports])
            for ports, known in zip((inputs, outputs), structs, strict=True)
        ]
        part = [self.blocks.get("part") or alone(self.emit)] if self.library.shared else []
        arguments = [self.blocks["weights"], *tables, self.blocks["workspace"], *part]
        code = self.emit.b.call(call, [*arguments, *self.sizes])
        last(code)
        self.emit.b.ret(code)
        return self.function

    def _find(self, name: str, structs: Sequence[str]) -> Value:
        """The pointer of a program's port."""
        if name.startswith(SAVED):
            return self.tape(next(s.offset for s in self.training.slots if s.port.name == name))
        if name.startswith(KEPT):
            place = self.tape(self.training.pointer_to(name.removeprefix(KEPT)))
            return self.emit.b.load(place, typ=POINTER, align=8)
        struct = next(s for s in structs if f"{s}/{name}" in self._fields)
        return self.field(struct, name)
