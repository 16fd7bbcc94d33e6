"""The text files that go with a library: header, Python wrapper, pkg-config, CMake package."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from rnncc.kern.signatures import C_TYPES
from rnncc.names import in_comment
from rnncc.platforms import LINE, system_of
from rnncc.sizes import TIME
from rnncc.templates import template

GROUPS = ("inputs", "outputs", "parameters")
_FOLDER = Path(__file__).parent / "templates"
TEMPLATES = {
    "h": "header.h.j2",
    "cuda.h": "cuda.h.j2",
    "py": "wrapper.py.j2",
    "pc": "package.pc.j2",
    "cmake": "Config.cmake.j2",
    "js": "module.js.j2",
    "ts": "module.d.ts.j2",
}
"""Kinds of products that are texts -> their templates; `cuda.h` is `h` of a library for GPUs."""
_NUMPY = {
    **{"f32": "float32", "f64": "float64", "i32": "int32", "i64": "int64", "i1": "bool"},
    **{"i8": "int8", "u8": "uint8", "i16": "int16", "u16": "uint16", "u32": "uint32"},
    **{"u64": "uint64", "f16": "float16", "bf16": "bfloat16 (as uint16)"},
    "text": "text",
}


def prepare(kinds: Iterable[str]) -> None:
    """Read the templates of some kinds, which takes longer than to write the texts."""
    for kind in kinds:
        name = TEMPLATES.get("py" if kind == "wheel" else kind)
        if name is not None:
            template(_FOLDER, name)


def header(metadata: Mapping[str, Any]) -> str:
    """`NAME.h`: C99 and C++, self-contained."""
    # The table of what functions take is the runtime's, which imports NumPy: help needs neither.
    from rnncc.codegen.prototypes import prototype

    return _render(
        "cuda.h" if metadata.get("device") == "cuda" else "h",
        metadata,
        declare=partial(prototype, metadata),
        guard=f"RNNCC_MODEL_{metadata['name']}_H",
        needs=_filled(_needs(metadata)),
        constants=_constants(metadata) if system_of(metadata["target"]) == "bare" else [],
    )


def _constants(metadata: Mapping[str, Any]) -> list[str]:
    """Macros of the bytes of memory, for what is reserved before a program runs."""
    from rnncc.codegen.prototypes import size_names  # see `header`
    from rnncc.packaging.formulas import c_largest

    names = dict(zip(metadata["symbols"], size_names(metadata), strict=True))
    stream = metadata["stream"]
    sizes = {"WORKSPACE": metadata["workspace"], "STATE": stream.get("state")}
    sizes |= {"STREAM_WORKSPACE": stream.get("workspace"), "TAPE": metadata.get("tape")}

    def macro(memory: str, formula: str) -> str:
        arguments = [c for s, c in names.items() if memory != "STATE" or s != TIME]
        called = f"{metadata['name']}_{memory}_BYTES({', '.join(arguments)})"
        return f"{called} ({c_largest(formula, names)})"

    return [macro(memory, formula) for memory, formula in sizes.items() if formula is not None]


def wrapper(metadata: Mapping[str, Any]) -> str:
    """`NAME.py`: loads the library beside it, needs rnncc_runtime."""
    titles = {"Inputs": "inputs", "Outputs": "outputs", "Parameters": "trained"}
    titles["Packed parameters"] = "parameters"
    groups = [(title, _entries(metadata.get(key, []))) for title, key in titles.items()]
    return _render("py", metadata, groups=groups)


def pkg_config(metadata: Mapping[str, Any]) -> str:
    """`NAME.pc`, for the folder it lies in."""
    return _render("pc", metadata)


def cmake_package(metadata: Mapping[str, Any], has_library: bool, has_archive: bool) -> str:
    """`NAMEConfig.cmake`, for the folder it lies in."""
    return _render("cmake", metadata, has_library=has_library, has_archive=has_archive)


def javascript(metadata: Mapping[str, Any]) -> str:
    """`NAME.js`: loads `NAME.wasm` beside it, needs nothing else."""
    from rnncc.packaging.javascript import description

    return _render("js", metadata, **description(metadata, in_comment))


def types(metadata: Mapping[str, Any]) -> str:
    """`NAME.d.ts`, of that module."""
    from rnncc.packaging.javascript import description

    return _render("ts", metadata, **description(metadata, in_comment))


def _render(kind: str, metadata: Mapping[str, Any], **more: object) -> str:
    values = {
        **{key: metadata[key] for key in ("name", "target", "cpu", "workspace")},
        **{key: _entries(metadata[key], metadata) for key in GROUPS},
        "version": metadata["rnncc"],
        "line": metadata.get("line", LINE),
        "versions": [version["cpu"] for version in metadata.get("versions", ())],
        "max_steps": metadata.get("max_steps"),
        "bounds": _filled(", ".join(metadata.get("bounds", ()))),
        "gpu": metadata.get("device") == "cuda",
        "training": _training(metadata) if "trained" in metadata else None,
        "stream": metadata.get("stream", {}).get("state"),
        "flushes": metadata.get("denormals") == "flushed",
        "texts": [_c_literal(word) for word in metadata.get("texts", ())],
        "shared": any(name.endswith("_part") for name in metadata["functions"]),
        **more,
    }
    return template(_FOLDER, TEMPLATES[kind]).render(values)


def _c_literal(word: str) -> str:
    """A text as C writes it, in UTF-8; what is not plain by its bytes in octal digits."""
    plain = [chr(b) if 32 <= b < 127 and b not in b'"\\?' else f"\\{b:03o}" for b in word.encode()]
    return f'"{"".join(plain)}"'


def _filled(text: str) -> str:
    """Lines of a comment."""
    return textwrap.fill(text, 97).replace("\n", "\n * ")


def _needs(metadata: Mapping[str, Any]) -> str:
    """A sentence on the CPUs that the code runs on."""
    features = ", ".join(metadata.get("features", ()))
    if versions := metadata.get("versions"):
        names = ", ".join(version["cpu"] for version in versions)
        own = f" One without those of {versions[0]['cpu']} is not supported." if features else ""
        return f"It holds code for {names}; of those that the CPU has all for the last runs.{own}"
    if metadata.get("device") == "cuda":
        return (
            f"They run on a CPU that has {features}." if features else "They run on any such CPU."
        )
    return f"It runs on a CPU that has {features}." if features else "It runs on any such CPU."


def _training(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What the header of a library for training says beyond that of one for inference."""
    return {
        "parameters": _entries(metadata["trained"]),
        "output_grads": _entries(metadata["output_grads"]),
        "grads": _entries(metadata["grads"]),
        "optional": any(entry.get("optional") for entry in metadata["output_grads"]),
        "kept": metadata["kept"],
        "tape": metadata["tape"],
        "packed": metadata.get("packed"),
    }


def _entries(
    entries: list[dict[str, Any]], metadata: Mapping[str, Any] | None = None
) -> list[dict[str, str]]:
    return [
        {
            "title": in_comment(entry["name"]),
            "c_name": entry.get("c_name", ""),
            "c_type": C_TYPES[entry["dtype"]],
            "dtype": _NUMPY[entry["dtype"]],
            "shape": f"[{', '.join(map(str, entry['shape']))}]",
            "note": _note(entry, metadata or {}),
        }
        for entry in entries
    ]


def _note(entry: Mapping[str, Any], metadata: Mapping[str, Any]) -> str:
    from rnncc_runtime.arrays import counts_in

    counts = counts_in(metadata).get(entry["name"], ())
    if counts:
        along = " and ".join(f"{in_comment(count)} along axis {axis}" for count, axis in counts)
        return f", of which the first {along} count"
    if entry.get("optional"):
        return " (optional)"
    if entry["dtype"] == "text":
        return " (texts)"
    return " (kept)" if entry["name"] in metadata.get("kept", ()) else ""
