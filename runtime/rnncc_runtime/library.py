"""Loading a library made by rnncc: a file's path in, a `Model` out."""

from __future__ import annotations

import ctypes
import json
import os
from pathlib import Path

from rnncc_runtime.errors import LoadError
from rnncc_runtime.model import Model


def load(path: str | os.PathLike[str], name: str | None = None) -> Model:
    """The model in a shared library.

    Args:
        path: the library, `libNAME.so`.
        name: NAME, where the file was renamed.

    Raises:
        LoadError: there is no such file, it is not for this machine, or rnncc did not make it.
    """
    file = Path(path).resolve()
    if not file.is_file():
        raise LoadError(f"{path}: no such file")
    name = name or file.name.split(".")[0].removeprefix("lib")
    library = _open(file)
    try:
        metadata = ctypes.CFUNCTYPE(ctypes.c_char_p)((f"{name}_metadata", library))
        run = getattr(library, f"{name}_run")
        workspace_bytes = getattr(library, f"{name}_workspace_bytes")
    except AttributeError:
        raise LoadError(
            f"{path}: no model named {name} in it; if the file was renamed, give name="
        ) from None
    described = _read(path, metadata())
    count = len(described["symbols"])
    run.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int64] * count
    run.restype = ctypes.c_int32
    workspace_bytes.argtypes = [ctypes.c_int64] * count
    workspace_bytes.restype = ctypes.c_size_t
    return Model(described, run, workspace_bytes, keep=library)


def _read(path: str | os.PathLike[str], text: bytes | None) -> dict[str, list[str]]:
    try:
        described = json.loads(text or b"")
    except ValueError:
        described = None
    if not isinstance(described, dict) or "symbols" not in described:
        raise LoadError(f"{path}: its metadata cannot be read")
    return described  # pyright: ignore[reportUnknownVariableType]


def _open(file: Path) -> ctypes.CDLL:
    try:
        if not _is_loaded(file):
            return ctypes.CDLL(str(file))
        import tempfile  # rarely needed, and slow to import

        # The loader knows a library by its path: a library built anew would be the old one.
        # Under another name it looks at the file itself, and shares what is the same.
        with tempfile.TemporaryDirectory() as folder:
            alias = Path(folder) / file.name
            alias.symlink_to(file)
            return ctypes.CDLL(str(alias))
    except OSError as error:
        raise LoadError(f"{file}: {error}") from error


def _is_loaded(file: Path) -> bool:
    try:
        ctypes.CDLL(str(file), mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return False
    return True
