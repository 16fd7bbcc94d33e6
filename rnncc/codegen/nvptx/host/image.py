"""What a library for a GPU holds beside code: images, kernels, weights and metadata, as constants.

They are LLVM's text, with the layout of `struct rnncc_cuda_image` in `rnncc_cuda.h`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rnncc.codegen.nvptx.device import DeviceKernel
from rnncc.codegen.nvptx.ptx import ChipImage

VERSION = 1
"""Of the structs that library and loader share."""

_ESCAPES = np.array([list(b"\\%02x" % i) for i in range(256)], np.uint8)
_STRUCTS = """
@{name}_cuda_binaries = private constant [{count} x {{ ptr, ptr, i64 }}] [{binaries}]
@{name}_cuda_kernels = private constant [{kernel_count} x {{ ptr, i32, i32 }}] [{kernels}]
@{name}_cuda_held = private constant {{ i32, i32, i32, i32, ptr, ptr, ptr, ptr, i64 }} {{ i32 {version}, i32 {count}, i32 {kernel_count}, i32 0, ptr {own}, ptr @{name}_cuda_binaries, ptr @{name}_cuda_kernels, ptr {weights}, i64 {weights_bytes} }}
define ptr @{name}_cuda_image() {{
  ret ptr @{name}_cuda_held
}}
define ptr @{name}_metadata() {{
  ret ptr {metadata}
}}
"""  # noqa: E501 - an instruction of LLVM IR a line


class _Constants:
    """Blocks of bytes as private constants."""

    def __init__(self, name: str) -> None:
        self._name, self.lines = name, list[str]()

    def add(self, data: bytes, align: int = 1) -> str:
        """A constant's symbol."""
        symbol = f"@{self._name}_cuda_bytes{len(self.lines)}"
        body = _ESCAPES[np.frombuffer(data, np.uint8)].tobytes().decode()
        kind = f"[{len(data)} x i8]"
        self.lines.append(f'{symbol} = private constant {kind} c"{body}", align {align}')
        return symbol

    def text(self, text: str) -> str:
        """A constant that ends in NUL."""
        return self.add(text.encode() + b"\0")


def image_text(
    name: str,
    images: Sequence[ChipImage],
    kernels: Sequence[DeviceKernel],
    weights: int,
    metadata: Mapping[str, Any],
    in_memory: bool,
) -> str:
    """`NAME_cuda_image`, `NAME_metadata` and what they tell of.

    Args:
        weights: their bytes; `NAME_weights` is an external constant, which
            `rnncc.codegen.llvm.objects.optimise` fills in.
        in_memory: the struct has no weights: who loads the code has them.
    """
    constants = _Constants(name)
    binaries = [
        f"{{ ptr, ptr, i64 }} {{ ptr {constants.text(one.chip)},"
        f" ptr {constants.add(one.data, 64)}, i64 {len(one.data)} }}"
        for one in images
    ]
    listed = [
        f"{{ ptr, i32, i32 }} {{ ptr {constants.text(one.symbol)}, i32 {one.threads},"
        f" i32 {one.shared} }}"
        for one in kernels
    ]
    structs = _STRUCTS.format(
        name=name,
        count=len(binaries),
        binaries=", ".join(binaries),
        kernel_count=len(listed),
        kernels=", ".join(listed),
        version=VERSION,
        own=constants.text(name),
        weights="null" if in_memory else f"@{name}_weights",
        weights_bytes=weights,
        metadata=constants.text(json.dumps(metadata)),
    )
    lines = constants.lines
    if not in_memory:
        lines = [f'@"{name}_weights" = external constant [{max(weights, 1)} x i8]', *lines]
    return "\n".join([*lines, structs])
