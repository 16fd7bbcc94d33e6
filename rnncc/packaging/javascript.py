"""A library's arrays as JavaScript has them: typed arrays, and shapes as functions of sizes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from rnncc_runtime.sizes import Size

from rnncc.errors import CompileError
from rnncc.packaging.formulas import Language, shape
from rnncc.platforms import pointer_bytes
from rnncc.sizes import TIME

_ARRAYS = {
    **{"f32": "Float32Array", "f64": "Float64Array", "i32": "Int32Array", "i64": "BigInt64Array"},
    **{"i1": "Uint8Array", "i8": "Int8Array", "u8": "Uint8Array", "i16": "Int16Array"},
    **{"u16": "Uint16Array", "u32": "Uint32Array", "f16": "Uint16Array", "bf16": "Uint16Array"},
    "u64": "BigUint64Array",
    "text": "Int32Array",
}
"""Element types -> JavaScript's arrays."""
_JAVASCRIPT = Language(
    lambda symbol: f"s[{json.dumps(symbol)}]", "{}", "Math.ceil(({}) / {d})", "Math.max({}, 0)"
)
"""Of sizes that `s` holds."""


def description(metadata: Mapping[str, Any], harmless: Callable[[str], str]) -> dict[str, Any]:
    """What the module and its types say of the arrays.

    Args:
        harmless: a name as it may stand in a comment.

    Raises:
        CompileError: the library is for training.
    """
    if "trained" in metadata:
        what = "there is no JavaScript module of a net for training"
        raise CompileError("--products", what, "take wasm and h")
    arrays = {
        group: [_port(entry, harmless) for entry in metadata[group]]
        for group in ("inputs", "outputs")
    }
    starts = metadata["stream"].get("starts", {})
    wide = pointer_bytes(metadata["target"]) == 8
    return {
        **{"arrays": arrays, "starts": starts, "symbols": metadata["symbols"], "wide": wide},
        **{"dumps": json.dumps, "address": "BigInt({})".format if wide else str},
        "words": metadata.get("texts"),
    }


def _port(entry: Mapping[str, Any], harmless: Callable[[str], str]) -> dict[str, Any]:
    """An array: which typed array holds it, and its shape as JavaScript computes it."""
    return {
        **entry,
        "title": harmless(entry["name"]),
        "told": f"[{', '.join(map(str, entry['shape']))}]",
        "array": _ARRAYS[entry["dtype"]],
        "shape": shape(entry["shape"], _JAVASCRIPT),
        "optional": bool(entry.get("optional")),
        "timed": any(TIME in Size.parse(size).symbols for size in entry["shape"]),
    }
