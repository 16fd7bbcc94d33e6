"""What half-compiled models give as text, and the code made of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rnncc import arrays, pipeline
from rnncc.driver import compiling
from rnncc.options import Options
from rnncc.stages.compilation import Compilation

TARGET: dict[str, Any] = {"target": "x86_64-linux-gnu", "cpu": "x86-64-v3", "name": "net"}


def emitted(net: Any, init: Any, folder: Path, **options: Any) -> tuple[Path, Path | None]:
    """The files that --emit rnn writes."""
    result = compiling.emit(net, init, Options(**TARGET, **options), "rnn")
    assert isinstance(result.content, str)
    (folder / "net.rnn.mlir").write_text(result.content)
    if result.arrays:
        arrays.write(result.arrays, folder / "net.npz")
    return folder / "net.rnn.mlir", folder / "net.npz" if result.arrays else None


def code_of(net: Any, init: Any, **options: Any) -> tuple[str, bytes]:
    """All that LLVM is given: its IR, and the weights."""
    c = Compilation(Options(**TARGET, **options), net, init)
    compiling.run_from_net(c, pipeline.LOWERING, pipeline.CODE[:2])
    assert c.code is not None
    return c.code.text, c.planned.weights_block().tobytes()
