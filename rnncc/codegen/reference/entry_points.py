"""The exported functions in C: the table of `rnncc.kern.entry_points`, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rnncc.codegen.prototypes import prototype
from rnncc.codegen.reference import expressions as c
from rnncc.codegen.reference.program import ProgramWriter
from rnncc.ir.dims import Dim
from rnncc.kern.entry_steps import (
    Call,
    CheckSizes,
    Copy,
    Default,
    EntryPoint,
    Field,
    Keep,
    Locate,
    NotNull,
    Place,
    Seal,
    Source,
    Step,
    Stored,
)
from rnncc.kern.exports import SizeFunction
from rnncc.kern.signatures import BAD_SIZE, BAD_TAPE, NULL_POINTER
from rnncc.sizes import TIME

STRUCTS = {"parameters": "trained"}
"""Structs whose entry in the metadata has another name."""


class CEntryWriter:
    """Writes exported functions.

    Args:
        metadata: of the library.
        programs: by name.
        symbols: the names of sizes in C.
        params: the names of the arrays that hold packed parameters, by their place.
    """

    def __init__(
        self,
        metadata: Mapping[str, Any],
        programs: Mapping[str, ProgramWriter],
        symbols: Mapping[str, str],
        params: Mapping[int, str],
    ) -> None:
        self.metadata, self.programs = metadata, programs
        self.symbols, self.params = symbols, params
        self.name: str = metadata["name"]

    def write(self, entry: EntryPoint) -> list[str]:
        """One that computes."""
        lines = list[str]()
        for step in entry.steps:
            lines += self._step(step, entry)
        calls = [step for step in entry.steps if isinstance(step, Call)]
        lines.append("return error;" if calls and not calls[-1].stops else "return 0;")
        # Only a call gives a code: C compilers warn of variables without a use.
        declared = ["int error;"] if calls else []
        return self._function(entry.name, entry.symbols, [*declared, *lines], entry.parameters)

    def write_size(self, function: SizeFunction) -> list[str]:
        """One that tells bytes."""
        lines = self._check(function.bounds, function.symbols, "(size_t)-1")
        lines.append(f"return (size_t)({c.largest(function.bytes)});")
        return self._function(function.name, function.symbols, lines, ())

    def _function(
        self, name: str, symbols: Sequence[str], lines: list[str], parameters: Sequence[str]
    ) -> list[str]:
        body = c.resolved(lines, {**self.symbols, TIME: self.symbols.get(TIME, TIME)})
        names = [*parameters, *(self.symbols[symbol] for symbol in symbols)]
        # `-Wextra` warns of parameters without a use.
        unused = [f"(void){word};" for word in names if not c.mentions(body, word)]
        head = prototype(self.metadata, name)
        return [*head.split("\n"), "{", *c.indented([*unused, *body]), "}", ""]

    def _step(self, step: Step, entry: EntryPoint) -> list[str]:
        match step:
            case CheckSizes(bounds):
                return self._check(bounds, entry.symbols, str(BAD_SIZE))
            case NotNull(block):
                return [f"if ({block} == NULL)", f"    return {NULL_POINTER};"]
            case Locate():
                # In C a place is an expression, where it is read.
                return []
            case Call():
                return self._call(step, entry)
            case Copy(source, target, size):
                place, check = self._pointer(target), list[str]()
                if isinstance(target, Field):
                    # A field is the caller's; a block has been looked at before.
                    check = [f"if ({place} == NULL)", f"    return {NULL_POINTER};"]
                source_pointer = self._pointer(source)
                return [*check, f"memcpy({place}, {source_pointer}, (size_t){c.factor(size)});"]
            case Keep(pointer, place):
                kept = self._pointer(pointer)
                check = [f"if ({kept} == NULL)", f"    return {NULL_POINTER};"]
                return [*check, f"rnncc_keep({self._pointer(place)}, {kept});"]
            case Seal(act):
                return self._seal(act, entry)

    def _check(self, bounds: Sequence[Dim], symbols: Sequence[str], code: str) -> list[str]:
        names = ", ".join(c.placeholder(symbol) for symbol in symbols)
        lines = list[str]()
        if symbols:
            lines = [f"const int64_t sizes[] = {{{names}}};"]
            lines += [f"if (rnncc_bad_sizes(sizes, {len(symbols)}))", f"    return {code};"]
        for formula in bounds:
            lines += [f"if ({c.size(formula)} < 0)", f"    return {code};"]
        return lines

    def _call(self, call: Call, entry: EntryPoint) -> list[str]:
        writer = self.programs[call.program]
        ports = f"{call.program}_ports"
        members = zip(
            (*writer.pointers.inputs, *writer.pointers.outputs),
            (*call.inputs, *call.outputs),
            strict=True,
        )
        kinds = (*writer.program.inputs, *writer.program.outputs)
        lines = [
            f"    .{member} = {self._pointer(source, c.C_TYPES[port.dtype])},"
            for (member, source), port in zip(members, kinds, strict=True)
        ]
        # What makes a state does not get T, and needs none.
        sizes = [c.placeholder(s) if s in entry.symbols else "0" for s in writer.program.symbols]
        words = [f"&{ports}", self._pointer(call.workspace, "unsigned char"), *sizes]
        lines = [
            f"const struct {writer.prefix}_ports {ports} = {{",
            # C99 has neither structs nor initialisers without members.
            *(lines or ["    .none = 0,"]),
            "};",
            f"error = {writer.prefix}_program({', '.join(words)});",
        ]
        return [*lines, "if (error != 0)", "    return error;"] if call.stops else lines

    def _pointer(self, source: Source, kind: str | None = None) -> str:
        """A pointer; to elements of a kind, as C++ does not make one of `void *` by itself."""
        cast = "" if kind is None else f"({kind} *)"
        match source:
            case None:
                return "NULL"
            case Field(struct, number):
                names = self.metadata[STRUCTS.get(struct, struct)]
                return f"{struct}->{names[number]['c_name']}"
            case Stored(place):
                return f"{cast}rnncc_kept({self._pointer(place)})"
            case Default(field, fallback):
                argument = self._pointer(field)
                return f"{argument} != NULL ? {argument} : {self._pointer(fallback, kind)}"
            case Place("weights", offset):
                # Each parameter is an array of its own: there is no block of weights.
                return self.params[int(offset)]
            case Place(block, offset):
                if offset == 0:
                    return f"{cast}{block}"
                text = f"(unsigned char *){block} + {c.size(offset)}"
                return f"{cast}({text})" if cast else text

    def _seal(self, act: str, entry: EntryPoint) -> list[str]:
        seal = f"rnncc_seal(&{self.name}_tape_seal, sizes, {len(entry.symbols)})"
        match act:
            case "open":
                # No tape until forward has ended well, whatever lies there.
                return ["rnncc_write_seal(tape, 0);"]
            case "check":
                return [f"if (rnncc_read_seal(tape) != {seal})", f"    return {BAD_TAPE};"]
            case "close":
                return ["if (error == 0)", f"    rnncc_write_seal(tape, {seal});"]
            case _:
                return [f"if (error != {NULL_POINTER})", "    rnncc_write_seal(tape, 0);"]
