"""Device code for the emulator: LLVM IR as host code in a shared object, and that as an image."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rnncc.codegen.cpu.machines import resolve_target
from rnncc.codegen.cpu.target import CpuTarget
from rnncc.codegen.llvm import objects
from tests.gpu.watched import watched

MAGIC = b"RNNCCEMU"


def image_of(text: str, linked: Sequence[str] = ()) -> bytes:
    """An image of a module with the emulator's primitives.

    LLVM's passes run before accesses are watched: what is left are those of the machine code.
    """
    host = resolve_target(None, None)
    seen = watched(objects.optimise(text, host, linked=linked).text)
    if keep := os.environ.get("RNNCC_EMU_KEEP"):
        Path(keep).write_text(seen)
    shared = _shared(_object(seen, host))
    return MAGIC + len(shared).to_bytes(8, "little") + shared


def _object(text: str, host: CpuTarget) -> bytes:
    """Machine code by LLVM's quickest way, which takes a quarter of the time of the best code."""
    llvm = objects.llvm
    target = llvm.Target.from_triple(host.triple)
    how = {"cpu": host.cpu, "features": host.features, "reloc": "pic", "opt": 0}
    return target.create_target_machine(**how).emit_object(llvm.parse_assembly(text))


def _shared(code: bytes) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "device.o"), Path(folder, "device.so")
        source.write_bytes(code)
        command = ["cc", "-shared", "-nostdlib", source, "-lm", "-o", made]
        subprocess.run(command, check=True)
        return made.read_bytes()
