"""Which functions a library exports, by name; `entry_points.py` says what they do."""

from __future__ import annotations

from rnncc_runtime.signatures import PARAMETERS, symbols_of, with_packed

from rnncc.ir.dims import Dim
from rnncc.kern.largest import Largest
from rnncc.kern.library import Library
from rnncc.kern.signatures import PART, PART_SUFFIX
from rnncc.records import record


@record
class SizeFunction:
    """An exported function that tells bytes, -1 where a size is out of range."""

    name: str
    bytes: Largest
    symbols: tuple[str, ...]
    bounds: tuple[Dim, ...]


def exported(library: Library) -> dict[str, tuple[str, ...]]:
    """The functions that compute, without the library's name -> the pointers that they take."""
    if library.training is not None:
        names, shared = ("forward", "backward", "init_parameters"), ("forward", "backward")
    else:
        names, shared = ("run",), ("run",)
        names += ("step", "state_init") if library.streaming is not None else ()
    functions = {name: PARAMETERS[name] for name in names}
    if library.prepacks:
        functions |= {name: with_packed(functions[name]) for name in shared}
        functions["pack_parameters"] = PARAMETERS["pack_parameters"]
    if library.shared:
        functions |= {f"{name}{PART_SUFFIX}": (*functions[name], PART) for name in shared}
    return functions


def size_functions(library: Library) -> list[SizeFunction]:
    """The functions that tell bytes."""
    symbols, bounds = tuple(library.symbols), library.whole_bounds
    more: list[SizeFunction] = []
    if library.streaming is not None:
        # a step of a stream is shorter than the whole sequence that bounds speak of
        bounds, untimed = library.piece_bounds, tuple(symbols_of(symbols, "state_bytes"))
        state = Largest([library.streaming.bytes])
        more = [SizeFunction("state_bytes", state, untimed, library.untimed_bounds)]
    if library.training is not None:
        more = [SizeFunction("tape_bytes", Largest([library.training.tape]), symbols, bounds)]
        if library.training.packed is not None:
            packed = Largest([library.training.packed_bytes])
            more.append(SizeFunction("packed_bytes", packed, (), ()))
    return [SizeFunction("workspace_bytes", library.workspace, symbols, bounds), *more]
