"""What a library tells of itself: the metadata of docs/abi.md."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from rnncc_runtime.signatures import CUDA_SUFFIX, PACKED

from rnncc.codegen.prototypes import STRUCTS
from rnncc.codegen.target import Target
from rnncc.ir.dims import Dim
from rnncc.kern.exports import exported, size_functions
from rnncc.kern.largest import Largest
from rnncc.kern.library import Library
from rnncc.kern.program import Port
from rnncc.kern.signatures import SYNC_BYTES, cuda_parameters
from rnncc.kern.training import Training
from rnncc.names import c_names
from rnncc.platforms import LINE, system_of
from rnncc.version import __version__

FORMAT = 2


def describe(library: Library, target: Target) -> dict[str, Any]:
    """The metadata, ready for JSON."""
    inputs, outputs = library.ports
    streaming = library.streaming
    return {
        "format": FORMAT,
        "rnncc": __version__,
        "name": library.name,
        "symbols": library.symbols,
        **_functions(library, target.device),
        "inputs": _ports(library.name, inputs),
        "outputs": _ports(library.name, outputs),
        "parameters": [
            {**port, "packed": True} for port in _ports(library.name, library.parameters)
        ],
        **(_training(library.name, library.training) if library.training else {}),
        "stream": _stream(library, target.triple),
        **({"bounds": [str(formula) for formula in library.bounds]} if library.bounds else {}),
        **(
            {"counts": {n: [*chain(*counts)] for n, counts in library.counts.items()}}
            if library.counts
            else {}
        ),
        **({"texts": list(library.texts)} if library.texts else {}),
        **({"line": streaming.line} if streaming and streaming.line != LINE else {}),
        **({} if library.max_steps is None else {"max_steps": library.max_steps}),
        "workspace": str(_workspace(library, target.device)),
        "weights": library.weights,
        **({} if target.device == "cpu" else {"device": target.device}),
        "target": target.triple,
        "cpu": target.cpu,
        **({"tuned": target.tuned} if target.tuned else {}),
        "features": target.extensions_of(library),
        "precision": library.precision,
        **({"denormals": "flushed"} if library.flushes else {}),
    }


def _functions(library: Library, device: str) -> dict[str, Any]:
    """What is exported: what computes, and how many pointers that takes; what tells numbers."""
    functions = {name: len(parameters) for name, parameters in exported(library).items()}
    sizes = [function.name for function in size_functions(library)]
    if device == "cuda":
        arguments_of = {name: cuda_parameters(entry) for name, entry in exported(library).items()}
        functions = {f"{name}{CUDA_SUFFIX}": len(entry) for name, entry in arguments_of.items()}
        return {"functions": functions, "sizes": [f"{name}{CUDA_SUFFIX}" for name in sizes]}
    return {"functions": functions, "sizes": [*sizes, *(["threads"] if library.shared else [])]}


def _workspace(library: Library, device: str) -> Largest:
    """What a call takes: on a GPU also the room in which blocks meet."""
    formulas = library.workspace.formulas or (Dim.of(0),)
    return Largest(f + SYNC_BYTES for f in formulas) if device == "cuda" else library.workspace


def _training(name: str, training: Training) -> dict[str, Any]:
    """The parameters that the caller holds, the gradients, and the tape."""
    return {
        "trained": _ports(name, training.parameters),
        "output_grads": _ports(name, training.output_grads),
        "grads": _ports(name, training.grads),
        "kept": training.kept,
        "tape": str(training.tape),
        **({} if training.packed is None else {PACKED: int(training.packed_bytes)}),
        "checkpoints": training.checkpoints,
    }


def _stream(library: Library, triple: str) -> dict[str, Any]:
    """The state, and what each input is where a user leaves it out as a sequence begins.

    Without a system, where memory is short, also the workspace that a stream does with.
    """
    streaming, bare = library.streaming, system_of(triple) == "bare"
    if streaming is None:
        return {"refused": library.refusal}
    return {
        "state": str(streaming.bytes),
        **({"workspace": str(library.stream_workspace)} if bare else {}),
        "slots": [
            {
                "name": slot.port.name,
                "dtype": slot.port.dtype,
                "shape": [_size(d) for d in slot.port.dims],
                "offset": _size(slot.offset),
            }
            for slot in streaming.slots
        ],
        "starts": streaming.defaults,
    }


def _ports(library: str, listed: Sequence[Port]) -> list[dict[str, Any]]:
    structs = [f"{library}_{kind}" for kind in STRUCTS]  # C++: no member has its struct's name
    names = c_names([port.name for port in listed], structs)
    return [
        {
            "name": port.name,
            "c_name": name,
            "dtype": port.dtype,
            "shape": [_size(d) for d in port.dims],
            **({"optional": True} if port.optional else {}),
        }
        for port, name in zip(listed, names, strict=True)
    ]


def _size(dim: Dim) -> int | str:
    return int(dim) if dim.is_static else str(dim)
