"""Device code for the emulator: LLVM IR as host code in a shared object, and that as an image."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.codegen.llvm import objects
from tests.gpu.watched import watched

MAGIC = b"RNNCCEMU"


def image_of(text: str, linked: Sequence[str] = ()) -> bytes:
    """An image of a module with the emulator's primitives.

    A few of LLVM's passes run before accesses are watched, so that locals are no memory; then its
    quickest code generator, as most of the time would go into good code.
    """
    host = resolve_target(None, None)
    llvm = objects.llvm
    objects.initialize()
    target = llvm.Target.from_triple(host.triple)
    how = {"cpu": host.cpu, "features": host.features, "reloc": "pic", "opt": 0}
    machine = target.create_target_machine(**how)
    module = llvm.parse_assembly(text)
    for other in linked:
        module.link_in(llvm.parse_assembly(other))
    manager = llvm.create_new_module_pass_manager()
    manager.add_always_inliner_pass()
    manager.add_sroa_pass()
    manager.add_simplify_cfg_pass()
    tuning = llvm.create_pipeline_tuning_options(speed_level=1)
    manager.run(module, llvm.create_pass_builder(machine, tuning))
    seen = watched(str(module))
    if keep := os.environ.get("RNNCC_EMU_KEEP"):
        Path(keep).write_text(seen)
    shared = _shared(machine.emit_object(llvm.parse_assembly(seen)))
    return MAGIC + len(shared).to_bytes(8, "little") + shared


def _shared(code: bytes) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "device.o"), Path(folder, "device.so")
        source.write_bytes(code)
        command = ["cc", "-shared", "-nostdlib", source, "-lm", "-o", made]
        subprocess.run(command, check=True)
        return made.read_bytes()
