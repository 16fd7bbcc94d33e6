"""LLVM itself: optimisation, objects, assembly, code in memory.

No handler of a signal runs within: llvmlite marks what it has freed, or handed on, one step later,
and an error between the two, such as that of Ctrl-C, would let it be freed twice.
"""

from __future__ import annotations

import mmap
import tempfile
import threading
import weakref
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, cast

import llvmlite.binding
import numpy as np
from rnncc_runtime.signals import undisturbed

from rnncc.codegen.llvm.host import host
from rnncc.codegen.llvm.machine import Machine
from rnncc.codegen.llvm.relaxed_simd import keep_selections
from rnncc.errors import CompileError
from rnncc.platforms import architecture_of, system_of
from rnncc.records import record

llvm = cast(Any, llvmlite.binding)  # its type stubs are of an older version
ROOM, ROOM_PER_CHARACTER = 96 << 20, 32
"""Bytes of address space that LLVM takes at the most for small modules, and for text (measured)."""


@cache
def initialize() -> None:
    """Register every code generator, once."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()


def _machine(triple: str, cpu: str, features: str, jit: bool = False) -> Any:
    initialize()
    target = llvm.Target.from_triple(triple)
    return target.create_target_machine(
        cpu=cpu,
        features=features,
        opt=3,
        # Nobody moves code there once it is linked.
        reloc="static" if system_of(triple) in ("bare", "wasm") else "pic",
        codemodel="jitdefault" if jit else "default",
        jit=jit,
    )


def _parse(text: str, triple: str) -> Any:
    module = llvm.parse_assembly(text)
    module.triple = triple
    return module


_options = threading.Lock()
"""LLVM's options are the process's."""


@contextmanager
def _quick_passes(target: Machine) -> Generator[None]:
    """On x86-64 without strength reduction of loops, a third of the time that machine code takes.

    It gains nothing where loops are written as they should run: 14 nets were as fast without it, to
    1 % on average. Others, such as numba, find the option as it was.
    """
    if architecture_of(target.triple) != "x86_64":
        yield
        return
    with _options:
        llvm.set_option("", "--disable-lsr=true")
        try:
            yield
        finally:
            llvm.set_option("", "--disable-lsr=false")


def _make_sure_of_room(text: str, more: int = 0) -> None:
    """Fail before LLVM does, which ends the process where it finds no memory.

    Raises:
        MemoryError: a limit of the process, such as `ulimit -v`, leaves too little.
    """
    try:
        mmap.mmap(-1, ROOM + ROOM_PER_CHARACTER * len(text) + more).close()
    except OSError as error:
        raise MemoryError("LLVM needs more memory than there is") from error


@record
class Optimised:
    """A module after LLVM's passes, and the machine it is for."""

    module: Any
    machine: Any
    target: Machine

    @property
    @undisturbed()
    def text(self) -> str:
        """LLVM IR."""
        return str(self.module)

    @undisturbed()
    def take_in(self, text: str, inside: Sequence[str]) -> None:
        """Link another module's functions in, as they are; those named become internal."""
        self.module.link_in(_parse(text, self.module.triple))
        for name in inside:
            self.module.get_function(name).linkage = "internal"

    @property
    @undisturbed()
    def assembly(self) -> str:
        """The machine's assembly language."""
        with _quick_passes(self.target):
            return self.machine.emit_assembly(self.module)

    @property
    @undisturbed()
    def object_code(self) -> bytes:
        """A relocatable object."""
        with _quick_passes(self.target):
            return self.machine.emit_object(self.module)


@undisturbed()
def optimise(
    text: str,
    target: Machine,
    jit: bool = False,
    weights: tuple[str, np.ndarray[Any, Any]] | None = None,
    linked: Sequence[str] = (),
    twice: bool = False,
) -> Optimised:
    """Parse textual IR and run LLVM's passes for a machine.

    Loops are written as they should run, neither unrolled nor vectorised again, and functions that
    should be inlined say so; so a few passes do: LLVM's own pipeline takes five times as long and
    gains nothing (measured on LSTMs). Nor does NewGVN, which takes a twelfth of the time, once gave
    a loop of two iterations the row of the iteration before, and ends the process where fifty loops
    may return: address arithmetic is all that is written more than once, and code generation sees
    that by itself.

    Args:
        weights: a name and bytes that become the constant `NAME_weights`, in the object alone.
        linked: modules whose functions it calls; these get all of LLVM's passes.
        twice: whether what the machine's code generator makes of it is optimised once more, as text
            for another assembler; then what takes long is left to that.
    """
    _make_sure_of_room(text, 2 * len(weights[1]) if weights else 0)
    machine = _machine(target.triple, target.cpu, target.features, jit)
    text, file = _with_weights(text, target, *weights) if weights else (text, None)
    module = _parse(text, target.triple)
    module.data_layout = str(machine.target_data)
    for other in linked:
        _link(module, other, machine)
    module.verify()
    manager = llvm.create_new_module_pass_manager()
    manager.add_always_inliner_pass()
    manager.add_sroa_pass()
    if not twice:
        manager.add_sccp_pass()  # what is never reached is a sixteenth of the code
        manager.add_instruction_combine_pass()
    manager.add_simplify_cfg_pass()
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    manager.run(module, llvm.create_pass_builder(machine, tuning))
    if "+relaxed-simd" in target.features.split(","):
        module = _parse(keep_selections(str(module)), target.triple)
    optimised = Optimised(module, machine, target)
    if file is not None:
        # The assembler reads the file when the object is made.
        weakref.finalize(optimised, file.close)
    return optimised


@undisturbed()
def inlined(text: str, triple: str, name: str) -> str:
    """The IR of a function after LLVM has taken in all functions that it may."""
    module, machine = _parse(text, triple), _machine(triple, "", "")
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
    builder.getModulePassManager().run(module, builder)
    return str(module.get_function(name))


def _link(module: Any, text: str, machine: Any) -> None:
    """Take in a module's functions, optimised."""
    other = _parse(text, module.triple)
    other.data_layout = module.data_layout
    # What users wrote comes as loops over lanes, for LLVM to vectorise (`user_functions.py`).
    tuning = llvm.create_pipeline_tuning_options(speed_level=3)
    if architecture_of(module.triple).startswith("thumb"):  # whose vectors it would compare wrongly
        tuning.loop_vectorization = tuning.slp_vectorization = False  # (`helium.py`)
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(other, builder)
    names = [function.name for function in other.functions if not function.is_declaration]
    module.link_in(other)
    for name in names:
        module.get_function(name).linkage = "internal"


def _with_weights(
    text: str, target: Machine, name: str, weights: np.ndarray[Any, Any]
) -> tuple[str, Any]:
    """IR that holds a constant's bytes, and a file that is open until the object is written.

    The assembler reads them from a file where LLVM has one for this machine: a second quicker
    for 32 MB than bytes written out as text.
    """
    symbol = f"{name}_weights"
    declared = f'@"{symbol}" = external constant [{max(len(weights), 1)} x i8]'
    assert text.count(declared) == 1
    elf = system_of(target.triple) == "linux"
    if elf and architecture_of(target.triple) == architecture_of(host().triple):
        file, path = _on_disk(weights)
        lines = [
            f'.section .rodata.{symbol},"a",@progbits',
            ".p2align 6",
            f".globl {symbol}",
            f".hidden {symbol}",
            f"{symbol}:",
            f'.incbin "{path}"',
            ".text",
        ]
        quoted = "\n".join(f"module asm {_quoted(line)}" for line in lines)
        hidden = declared.replace("external", "external hidden")
        return f"{text.replace(declared, hidden)}\n{quoted}\n", file
    escapes = np.array([list(b"\\%02x" % i) for i in range(256)], np.uint8)
    body = escapes[weights].tobytes().decode()
    definition = f'@"{symbol}" = hidden constant [{len(weights)} x i8] c"{body}", align 64'
    return text.replace(declared, definition), None


def _on_disk(weights: np.ndarray[Any, Any]) -> tuple[Any, str]:
    """A temporary file of bytes, and its path for this process; it goes when it is closed.

    Raises:
        CompileError: it cannot be written.
    """
    try:
        file: Any = tempfile.TemporaryFile()  # noqa: SIM115, lives on: returned
        path = f"/proc/self/fd/{file.fileno()}"
        if not Path(path).exists():  # no Linux, or without /proc
            file = tempfile.NamedTemporaryFile(suffix=".weights")  # noqa: SIM115, as above
            path = file.name
        file.write(weights.data)
        file.flush()
    except OSError as error:
        what = f"cannot write: {error.strerror or error}"
        raise CompileError(tempfile.gettempdir(), what) from error
    return file, path


def _quoted(line: str) -> str:
    return '"' + line.replace("\\", "\\5C").replace('"', "\\22") + '"'


@undisturbed()
def load(optimised: Optimised) -> Any:
    """Code in memory; `get_function_address` of the result gives entry points."""
    engine = llvm.create_mcjit_compiler(optimised.module, optimised.machine)
    engine.finalize_object()
    return engine


@undisturbed()
def load_object(code: bytes) -> Any:
    """As `load`, of an object that a machine for code in memory has made."""
    triple = host().triple
    machine = _machine(triple, "", "", jit=True)
    engine = llvm.create_mcjit_compiler(_parse("", triple), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine
