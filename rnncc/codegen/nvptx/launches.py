"""How a GPU computes the programs of a library, for `rnncc plan`: one launch of a kernel each."""

from __future__ import annotations

from collections.abc import Mapping

from rnncc.codegen.nvptx.device import emit_device
from rnncc.codegen.nvptx.target import NvptxTarget
from rnncc.codegen.nvptx.usage import usage
from rnncc.kern.library import Library
from rnncc.planning.rows import LaunchRow


def launches(target: NvptxTarget, library: Library, sizes: Mapping[str, int]) -> list[LaunchRow]:
    """A row for each program, for a call of these sizes."""
    device = emit_device(library, target)
    used = usage(target.ptx(device.text, device.linked), target.chips)
    return [
        LaunchRow(
            program,
            kernel.symbol,
            kernel.threads,
            f"{kernel.points} / {kernel.per_block}",
            max(1, -(-kernel.points.evaluate(sizes) // kernel.per_block)),
            kernel.shared,
            *used.get(kernel.symbol, ()),
        )
        for program, kernel in device.kernels.items()
    ]
