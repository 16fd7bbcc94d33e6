# pyright: basic, reportMissingImports=false
"""Files of `torch.export.save`: what they are known by, and reading them."""

from __future__ import annotations

import io
import os
import threading
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnncc.errors import CompileError, Location
from rnncc.frontends.shapes import Sizes, parse_shape
from rnncc.ir.dims import Dim
from rnncc.ir.program import Program
from rnncc.sources import called, is_regular, limit, read_bytes, too_large

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
        return path.suffix == SUFFIX or _head(path) == _ZIP
    if isinstance(source, bytes):
        return source.startswith(_ZIP)
    return type(source).__module__ == "torch.export.exported_program"


def import_file(source: Any, name: str, shapes: Sizes) -> Program:
    """The net of a program of `torch.export`, or of its file; its parameters become the net's.

    Args:
        source: an `ExportedProgram`, a path, or the bytes of a file.
        name: of the net.
        shapes: input -> its shape, which names sizes that are open.

    Raises:
        CompileError: the file is damaged or something else; it needs PyTorch; a shape is another
            than the program's; an operator or a dtype is not supported.
    """
    where, exported = called(source, name), source
    if isinstance(source, (str, Path, bytes)):
        exported = load_exported(source, where)
    from rnncc.frontends.torch.exported import import_exported  # which imports PyTorch

    names = _names(exported, shapes, where)
    return import_exported(exported, name, names, packed=True).program


def load_exported(source: Any, where: str) -> ExportedProgram:
    """The program of a file; `where` is what messages call it.

    Raises:
        CompileError: as for `import_file`.
    """
    try:
        import torch
    except ImportError as error:
        what = "programs of torch.export need PyTorch"
        raise CompileError(where, what, "pip install 'rnncc[torch]'") from error
    import torch.export

    from rnncc.frontends.torch import recurrent_op, scalar_op  # noqa: F401  operators in files

    data = source if isinstance(source, bytes) else read_bytes(Path(source))
    _check_archive(data, where)
    with _without_code():
        try:
            return torch.export.load(io.BytesIO(data))
        except Exception as error:  # PyTorch's reader raises whatever damage leads to
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise CompileError(where, f"PyTorch cannot read it: {lines[0]}") from error


def _head(path: Path) -> bytes:
    if path.suffix == ".npz" or not is_regular(path):
        return b""
    try:
        with path.open("rb") as file:
            return file.read(len(_ZIP))
    except OSError:
        return b""


def _check_archive(data: bytes, where: str) -> None:
    """Refuse what is no program, what is too large unpacked, and what holds objects of others."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise CompileError(where, f"damaged: {error}") from error
    if sum(entry.file_size for entry in entries) > limit():
        raise too_large(where, limit())
    names = [entry.filename.rpartition("/")[2] for entry in entries]
    if _MARK not in names:
        what = "an archive, but no program that torch.export.save wrote"
        raise CompileError(where, what, "torch.export.save(rnncc.torch.export(module, args), file)")
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


def _names(exported: ExportedProgram, shapes: Sizes, where: str) -> dict[str, str]:
    """What the user's shapes call PyTorch's symbols."""
    places = {n.name: n.meta["val"] for n in exported.graph.find_nodes(op="placeholder")}
    users = [name for name in exported.graph_signature.user_inputs if isinstance(name, str)]
    names = dict[str, str]()
    for name, shape in shapes.items():
        place = Location(f"{where}: input {name}")
        dims = parse_shape(shape, place)
        known = getattr(places.get(name) if name in users else None, "shape", None)
        if known is None:
            raise CompileError(where, f"no input {name}", f"there is {', '.join(users) or 'none'}")
        if len(known) != len(dims):
            raise CompileError(place, f"has {len(known)} axes, not {len(dims)}")
        for size, dim in zip(known, dims, strict=True):
            if dim is not None:
                _name(names, size, dim, place)
    if len(set(names.values())) != len(names):
        raise CompileError(where, "one name is given to several sizes")
    return names


def _name(names: dict[str, str], size: Any, dim: Dim, place: Location) -> None:
    """Note what a size of the program is called."""
    if isinstance(size, int):
        if Dim.of(size) != dim:
            raise CompileError(place, f"a size was exported as {size}", f"{size} in place of {dim}")
    elif len(dim.symbols) != 1 or dim != Dim.of(next(iter(dim.symbols))):
        what = f"a size was exported open, and {dim} is no name"
        raise CompileError(place, what, "a name such as T, or an export with a fixed size")
    elif names.setdefault(str(size), str(dim)) != str(dim):
        raise CompileError(place, f"{names[str(size)]} and {dim} are one size")
