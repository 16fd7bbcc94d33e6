"""What commands tell of compiled libraries, by what these hold themselves: their metadata."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rnncc_runtime import Model, describe, load
from rnncc_runtime.sizes import Size, parse_largest

from rnncc.commands.tables import bytes_text, print_table, printable
from rnncc.errors import CompileError
from rnncc.formats import ELF
from rnncc.packaging.texts import GROUPS
from rnncc.sizes import TYPICAL, TYPICAL_OTHER, parse_sizes
from rnncc.sources import NetFile, head

Report = dict[str, Any]

BLOCKS = ("workspace", "state", "tape", "weights")


def library_in(source: NetFile) -> Path | None:
    """The path of a shared library; None of a net.

    Raises:
        CompileError: a library does not come from a regular file.
    """
    if isinstance(source, bytes):
        if source.startswith(ELF):
            raise CompileError(str(source), "is a library, which is loaded from a file alone")
        return None
    return source if head(source, len(ELF)) == ELF else None


def library_alone(source: NetFile, options: Mapping[str, Any]) -> Path | None:
    """The same, without options that a net is compiled with.

    Raises:
        CompileError: as for `library_in` and `refuse`.
    """
    path = library_in(source)
    if path is not None:
        refuse(path, options)
    return path


def open_library(path: Path) -> Model:
    """The model of a library for inference, whatever its file is called.

    Raises:
        CompileError: it was compiled for training.
        LoadError: it cannot be loaded.
    """
    metadata = describe(path)
    if "trained" in metadata:
        hint = "compile the net without --train; from Python, rnncc_runtime.load trains with it"
        raise CompileError(str(path), "is a library for training, which this does not run", hint)
    return load(path, metadata["name"])


def inspect(path: Path) -> Report:
    """A library in the form of a net's report, with what it says of itself.

    Raises:
        LoadError: rnncc did not make it.
    """
    metadata = describe(path)
    facts = ("rnncc", "target", "cpu", "tuned", "features", "versions", "precision", "denormals")
    facts += ("device", "functions", "max_steps")
    return {
        "name": metadata["name"],
        "file": str(path),
        "library": {key: metadata[key] for key in facts if key in metadata}
        | {"bytes": path.stat().st_size, **blocks_of(metadata)},
        "symbols": symbols_of(metadata),
        "operators": [],
        **{group: [_entry(e) for e in metadata.get(group, [])] for group in GROUPS},
        "blobs": [],
    }


def plan(path: Path, at: str | None) -> Report:
    """What the caller of a library needs to keep, at sizes.

    Raises:
        CompileError: `at` names no sizes of it.
        LoadError: as for `inspect`.
    """
    metadata = describe(path)
    symbols = symbols_of(metadata)
    sizes = {symbol: TYPICAL.get(symbol, TYPICAL_OTHER) for symbol in symbols}
    sizes |= parse_sizes(at, symbols)
    others = dict.fromkeys(metadata["symbols"], 1)
    blocks = {
        block: {"size": str(formula), "bytes": _value(formula, {**others, **sizes})}
        for block, formula in blocks_of(metadata).items()
    }
    return {"name": metadata["name"], "file": str(path), "sizes": sizes, "blocks": blocks}


def blocks_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The blocks of memory of a library, formulas or numbers of bytes."""
    entries = {**metadata, "state": metadata.get("stream", {}).get("state")}
    return {block: entries[block] for block in BLOCKS if entries.get(block) is not None}


def symbols_of(metadata: Mapping[str, Any]) -> list[str]:
    """The sizes that a call decides: those of the inputs' shapes."""
    dims = [d for entry in metadata["inputs"] for d in entry["shape"] if isinstance(d, str)]
    used = set[str]().union(*(Size.parse(dim).symbols for dim in dims))
    return [symbol for symbol in metadata["symbols"] if symbol in used]


def _versions(library: Report) -> dict[str, str]:
    """What a library for several CPUs holds, and how many steps one with a limit takes."""
    versions = {
        f"for {version['cpu']}{_tuned(version)}": f"workspace {version['workspace']} bytes"
        for version in library.get("versions", ())
    }
    return versions | ({"steps": f"at most {n}"} if (n := library.get("max_steps")) else {})


def _tuned(library: Report) -> str:
    """What code is tuned for, where the machine that it was made on names itself otherwise."""
    return f" as LLVM names it, tuned for {library['tuned']}" if "tuned" in library else ""


def print_inspection(library: Report) -> None:
    """What a library says of itself."""
    features = ", ".join(library.get("features", ())) or "none"
    lines = {
        "made by": f"rnncc {library['rnncc']}",
        "for": f"{library['cpu']}{_tuned(library)}, {library['target']}",
        "needs": features if "device" not in library else f"an NVIDIA GPU; {features}",
        **_versions(library),
        "weights": f"{library.get('weights', 0)} bytes, {library.get('precision', 'fp32')}",
        **({"denormals": library["denormals"]} if "denormals" in library else {}),
        "file": bytes_text(library["bytes"]),
        "functions": ", ".join(library["functions"]),
        **{block: f"{library[block]} bytes" for block in BLOCKS[:3] if block in library},
    }
    for name, text in lines.items():
        print(f"{printable(name):<10} {printable(text)}")
    print()


def print_plan(report: Report) -> None:
    """The blocks, one a row."""
    at = ", ".join(f"{name}={value}" for name, value in report["sizes"].items())
    rows = [(name, block["size"], block["bytes"]) for name, block in report["blocks"].items()]
    print_table("", ["block", "bytes", f"at {at}" if at else "in all"], rows)
    print("a library holds no plan of its buffers: rnncc plan NET shows that")


def _value(formula: Any, sizes: Mapping[str, int]) -> int:
    return max(size.evaluate(sizes) for size in parse_largest(str(formula)))


def _entry(entry: Mapping[str, Any]) -> Report:
    return {key: entry[key] for key in ("name", "dtype", "shape")}


def refuse(path: Path, options: Mapping[str, Any]) -> None:
    """Raise `CompileError` for options that a net is compiled with."""
    for name, value in options.items():
        if value not in (None, (), 0, False):
            shown = f"--{name.removesuffix('s') if name == 'shapes' else name.replace('_', '-')}"
            raise CompileError(os.fspath(path), f"is a library: {shown} goes with a net")
