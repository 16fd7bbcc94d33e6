# pyright: basic, reportMissingImports=false
"""Files of `torch.export.save`: what they are known by, and how they are read. Light to import."""

from __future__ import annotations

import io
import os
import threading
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnncc.errors import CompileError
from rnncc.formats import kind_of
from rnncc.frontends.torch.logs import logged_errors
from rnncc.frontends.torch.programs.archive_checks import checked_archive
from rnncc.sources import head, limit, read_bytes, too_large

if TYPE_CHECKING:
    from torch.export import ExportedProgram

SUFFIX = ".pt2"
_ZIP = b"PK\x03\x04"
_SAFE = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
"""The variable that keeps PyTorch from running code that a file brings along."""
_MARK, _CUSTOM = "archive_format", "custom_obj"
_lock = threading.Lock()


def is_exported(source: object) -> bool:
    """Whether something is an `ExportedProgram`, its file, or another archive of PyTorch's kind."""
    if isinstance(source, (str, Path)):
        path = Path(source)
        zipped = path.suffix != ".npz" and head(path, len(_ZIP)) == _ZIP
        return zipped or path.suffix == SUFFIX
    if isinstance(source, bytes):
        return source.startswith(_ZIP)
    return type(source).__module__ == "torch.export.exported_program"


def load_exported(source: Any, where: str) -> ExportedProgram:
    """The program of a file; `where` is what messages call it.

    Raises:
        CompileError: the file is damaged or something else, or PyTorch is not installed.
    """
    data = source if isinstance(source, bytes) else read_bytes(Path(source))
    _check_archive(data, where)  # says what else it is, also where there is no PyTorch
    try:
        import torch
    except ImportError as error:
        what = "programs of torch.export need PyTorch"
        raise CompileError(where, what, "pip install 'rnncc[torch]'") from error
    import torch.export

    from rnncc.frontends.torch.graphs import graphs_of
    from rnncc.frontends.torch.own_operators import function_op, recurrent_op  # noqa: F401  in files
    from rnncc.frontends.torch.own_operators.scalar_op import ELEMENTWISE

    data = checked_archive(data, where)
    with _without_code(), logged_errors("torch.export") as logged:
        try:
            exported = torch.export.load(io.BytesIO(data))
        except Exception as error:  # PyTorch's reader raises whatever damage leads to
            reason = logged[0] if logged else error  # what it raises then speaks of the log
            lines = str(reason).strip().splitlines() or [type(reason).__name__]
            raise CompileError(where, f"PyTorch cannot read it: {lines[0]}") from error
    # PyTorch takes these two as they are
    guards: Any = getattr(exported, "_guards_code", [])
    if not isinstance(guards, list) or not exported.module_call_graph:
        raise CompileError(where, "damaged: it does not say how the module is called")
    parts = graphs_of(exported.graph_module)
    if any(node.target is ELEMENTWISE for part in parts for node in part.graph.nodes):
        what = "it applies a function of numbers in Python, which is not in the file"
        raise CompileError(where, what, "rnncc.torch.build(module, args)")
    return exported


def _check_archive(data: bytes, where: str) -> None:
    """Refuse what is no program, what is too large unpacked, and what holds objects of others."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        what, hint = f"damaged: {error}", None
        if kind := kind_of(data):
            what, hint = f"is {kind[0]}, no program of torch.export.save", kind[1]
        raise CompileError(where, what, hint) from error
    if sum(entry.file_size for entry in entries) > limit():
        raise too_large(where, limit())
    names = [entry.filename.rpartition("/")[2] for entry in entries]
    if _MARK not in names:
        what, hint = kind_of(data) or ("an archive", None)
        raise CompileError(where, f"is {what}, no program of torch.export.save", hint)
    if any(name.startswith(_CUSTOM) for name in names):
        raise CompileError(where, "it holds objects of classes of its own")


@contextmanager
def _without_code() -> Generator[None]:
    """While it lasts, PyTorch unpickles tensors alone."""
    with _lock:
        before = os.environ.get(_SAFE)
        os.environ[_SAFE] = "1"
        try:
            yield
        finally:
            if before is None:
                del os.environ[_SAFE]
            else:
                os.environ[_SAFE] = before
