"""Loading a library made by rnncc: a file's path in, a `Model` out."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, Literal, overload

from rnncc_runtime.elf import check_whole
from rnncc_runtime.errors import LoadError
from rnncc_runtime.machines import difference
from rnncc_runtime.metadata import read_metadata
from rnncc_runtime.model import Model
from rnncc_runtime.signals import undisturbed
from rnncc_runtime.signatures import symbols_of
from rnncc_runtime.training import TrainableModel

_METADATA = b'{"format": '
"""How the metadata in a library begins."""


@overload
def load(
    path: str | os.PathLike[str],
    name: str | None = None,
    *,
    train: Literal[False] = False,
    device: int | None = None,
) -> Model: ...


@overload
def load(
    path: str | os.PathLike[str],
    name: str | None = None,
    *,
    train: Literal[True],
    device: int | None = None,
) -> TrainableModel: ...


def load(
    path: str | os.PathLike[str],
    name: str | None = None,
    *,
    train: bool = False,
    device: int | None = None,
) -> Model | TrainableModel:
    """The model in a shared library; a `rnncc_runtime.cuda.CudaModel` in one for GPUs.

    Args:
        path: the library, `libNAME.so`; on Windows `NAME.dll`, on macOS `libNAME.dylib`.
        name: NAME, where the file was renamed.
        train: whether it was compiled for training.
        device: the number of a GPU, for a library for GPUs; without it that of the thread's current
            CUDA context, else 0.

    Raises:
        LoadError: there is no such file, it is not for this machine, whose CPU may lack what it
            needs, or rnncc did not make it; or it is for inference and not for training, or the
            other way round; or there is no GPU for it.
    """
    file, stem = _found(path, name)
    return _loaded(file, str(path), stem, train, device)


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """A library's metadata (docs/abi.md), whatever machine it is for: nothing of it is run.

    Raises:
        LoadError: there is no such file, it is no library, or rnncc did not make it.
    """
    file, _ = _found(path, None)
    check_whole(file)
    with file.open("rb") as opened, mmap(opened.fileno(), 0, access=ACCESS_READ) as content:
        start = content.find(_METADATA)
        if start < 0:
            raise LoadError(f"{path}: no model that rnncc compiled is in it")
        text = content[start : content.find(b"\0", start)]
    return read_metadata(str(path), text)


def _found(path: str | os.PathLike[str], name: str | None) -> tuple[Path, str]:
    """A library's file, and the prefix of what it exports."""
    path = Path(path)
    try:
        file = path.resolve()
        if not file.is_file():
            special = "is no regular file" if file.exists() else "no such file"
            raise LoadError(f"{path}: {'is a folder' if file.is_dir() else special}")
    except (OSError, ValueError) as error:  # a name that is too long, or with a NUL in it
        reason = getattr(error, "strerror", None) or error
        raise LoadError(f"{str(path)[:80]!r}: {reason}") from error
    stem = file.name.split(".")[0]
    return file, name or (stem if file.suffix.lower() == ".dll" else stem.removeprefix("lib"))


def load_bytes(content: bytes, name: str, train: bool) -> Model | TrainableModel:
    """The model in what the file of a shared library holds, as a pickle has it.

    Raises:
        LoadError: it is not for this machine, whose CPU may lack what it needs, or is damaged.
    """
    if not hasattr(os, "memfd_create"):  # on other systems than Linux
        kept = _File(content, name)
        return _loaded(kept.path, name, name, train, None, kept)
    descriptor = os.memfd_create(name)
    with os.fdopen(descriptor, "wb", closefd=False) as file:
        file.write(content)
    # the loader, and whoever pickles the model again, know it by its number
    descriptor_owner = _Descriptor(descriptor)
    return _loaded(Path(f"/proc/self/fd/{descriptor}"), name, name, train, None, descriptor_owner)


class _Descriptor:
    """An open file, closed when nobody needs it any more."""

    def __init__(self, number: int) -> None:
        self._close = weakref.finalize(self, os.close, number)


class _File:
    """A file in a folder of its own, which goes when nobody needs it; on Windows, where one that is
    loaded cannot go, the system's cleaning takes it."""

    def __init__(self, content: bytes, name: str) -> None:
        import shutil
        import tempfile

        folder = tempfile.mkdtemp(prefix="rnncc-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.path = Path(folder) / f"{name}{'.dll' if os.name == 'nt' else ''}"
        self.path.write_bytes(content)


def _loaded(
    file: Path, shown: str, name: str, train: bool, device: int | None, owner: object = None
) -> Model | TrainableModel:
    check_whole(file)
    stamp = _stamp(file)
    library = _open(file)
    described = read_metadata(shown, _metadata(shown, library, name))
    _check_cpu(shown, library, name, described)
    try:
        functions = {
            entry: bind(described, entry, getattr(library, f"{name}_{entry}"))
            for entry in (*described.get("functions", ()), *described.get("sizes", ()))
        }
    except AttributeError as error:
        raise LoadError(f"{shown}: a function is missing: {error}") from error
    if train != ("trained" in described):
        kind, way = ("inference", "without") if train else ("training", "with")
        raise LoadError(f"{shown}: compiled for {kind}: load it {way} train=True")
    if described.get("device") == "cuda":
        image = getattr(library, f"{name}_cuda_image", None)
        if image is None:
            raise LoadError(f"{shown}: a function is missing: {name}_cuda_image")
        image.restype = ctypes.c_void_p
        return on_gpu(described, functions, image(), keep=library, device=device)
    if device is not None:
        raise LoadError(f"{shown}: compiled for the CPU, and device={device} is a GPU's number")

    def origin() -> tuple[Callable[..., object], tuple[object, ...]]:
        return load_bytes, (_content(file, stamp), name, train)

    kind = TrainableModel if train else Model
    return kind(described, functions, (library, owner), origin)


def _stamp(file: Path) -> tuple[int, int, int]:
    """What changes when a file does."""
    status = file.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _content(file: Path, stamp: tuple[int, int, int]) -> bytes:
    """What a library's file holds, which is what was loaded of it."""
    try:
        content = file.read_bytes()
        same = _stamp(file) == stamp
    except OSError as error:
        raise LoadError(f"{file}: {error.strerror}: a copy needs the file") from error
    if not same:
        raise LoadError(f"{file}: the file was changed since it was loaded: a copy needs it")
    return content


def on_gpu(
    metadata: Mapping[str, Any],
    functions: Mapping[str, Callable[..., int]],
    image: int,
    keep: object,
    weights: int | None = None,
    device: int | None = None,
) -> Model | TrainableModel:
    """The model of a library for GPUs; the arguments are those of `rnncc_runtime.cuda.CudaModel`.

    Raises:
        LoadError: there is no such GPU, or no code for it.
    """
    from rnncc_runtime import cuda

    kind = cuda.CudaTrainableModel if "trained" in metadata else cuda.CudaModel
    return kind(metadata, functions, image, keep, weights, device)


def bind(
    metadata: Mapping[str, Any], name: str, function: Any, weights: int | None = None
) -> Callable[..., int]:
    """An exported function as Python calls it: pointers as ints, then the sizes.

    Args:
        function: of a loaded library; or the address of code that takes `weights` first.
    """
    pointers = metadata["functions"].get(name)
    sizes = [ctypes.c_int64] * len(symbols_of(metadata["symbols"], name))
    if pointers is None:
        result, types = ctypes.c_int64, sizes
    else:
        has_weights = weights is not None
        result, types = ctypes.c_int32, [*[ctypes.c_void_p] * (pointers + has_weights), *sizes]
    if isinstance(function, int):
        function = ctypes.CFUNCTYPE(result, *types)(function)
    else:
        function.restype, function.argtypes = result, types
    if weights is None or pointers is None:
        return function
    return partial(function, weights)


def _metadata(path: str, library: ctypes.CDLL, name: str) -> bytes | None:
    try:
        return ctypes.CFUNCTYPE(ctypes.c_char_p)((f"{name}_metadata", library))()
    except AttributeError:
        hint = "if the file was renamed, give name="
        raise LoadError(f"{path}: no model named {name} in it; {hint}") from None


def _check_cpu(path: str, library: ctypes.CDLL, name: str, described: Mapping[str, Any]) -> None:
    """Refuse a library whose code would end this process with an illegal instruction."""
    try:
        missing = ctypes.CFUNCTYPE(ctypes.c_char_p)((f"{name}_missing_feature", library))()
    except AttributeError:  # of an older rnncc
        return
    if missing is not None:
        portable = "x86-64-v3" if str(described.get("target")).startswith("x86_64") else "generic"
        lacks = f"compiled for {described.get('cpu')}, and this CPU has no {missing.decode()}"
        raise LoadError(f"{path}: {lacks}; compile it with another --cpu, such as {portable}")


def _open(file: Path) -> ctypes.CDLL:
    try:
        if not _is_loaded(file):
            return ctypes.CDLL(str(file))
        import tempfile

        # The loader knows a library by its path: a library built anew would be the old one.
        # Under another name it looks at the file itself, and shares what is the same.
        with undisturbed(), tempfile.TemporaryDirectory() as folder:  # which else might stay
            alias = Path(folder) / file.name
            alias.symlink_to(file)
            return ctypes.CDLL(str(alias))
    except OSError as error:
        reason = difference(file) or str(error).removeprefix(f"{file}: ")
        raise LoadError(f"{file}: {reason}") from error


def _is_loaded(file: Path) -> bool:
    """Whether another library may have been loaded from this path.

    Not on Windows, where a file that is loaded cannot be written to.
    """
    if not hasattr(os, "RTLD_NOLOAD"):
        return False
    try:
        ctypes.CDLL(str(file), mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return False
    return True
