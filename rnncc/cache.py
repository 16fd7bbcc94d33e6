"""What took long to find out, kept on disk under what it was made of (docs/packaging.md).

An entry is one file: a checksum, then a model compiled in memory, or what tuning found. Nothing
here fails for the state of the disk: what cannot be read is made anew, what cannot be written is
not kept.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnncc.options import Options
from rnncc.sizes import parse_bytes

if TYPE_CHECKING:
    from rnncc.codegen.target import Target
    from rnncc.ir.program import Program

LIMIT = 256 << 20
"""Bytes of all entries, where RNNCC_CACHE_BYTES does not say otherwise."""

LARGEST_NET = 1 << 30
_SUFFIX = ".model"
_DIGEST = 32


def key_of(net: Any, init: Any, options: Options, target: Target) -> str | None:
    """What a compilation depends on, as the name of an entry; None where it is not to be kept.

    Args:
        net, init: as for `rnncc.compile`.
        options: those that show what happens inside keep nothing.
        target: the machine that the options name.
    """
    if folder() is None or options.dump_ir or options.time_passes or options.verify_each:
        return None
    if options.functions:
        return None  # Python code, whose meaning is not in its text alone
    content = _content(net)
    parts = content, b"none" if init is None else _content(init), _beside(net, content or b"")
    if None in parts:
        return None
    import llvmlite
    import numpy as np

    settings = json.dumps(asdict(options), sort_keys=True, default=repr)
    makers = f"{llvmlite.__version__} {np.__version__} {_sources()}"
    digest = blake2b(digest_size=20)
    for part in (makers.encode(), repr(target).encode(), settings.encode(), *parts):
        assert part is not None
        digest.update(len(part).to_bytes(8))
        digest.update(part)
    return digest.hexdigest()


def find(key: str | None) -> bytes | None:
    """What a key's entry holds, which becomes the one used last; a damaged one is removed."""
    path = _path(key)
    if path is None:
        return None
    try:
        data = path.read_bytes()
    except OSError:
        return None
    checksum, content = data[:_DIGEST], data[_DIGEST:]
    with suppress(OSError):
        if blake2b(content, digest_size=_DIGEST).digest() != checksum:
            path.unlink()
            return None
        os.utime(path)
    return content


def keep(key: str | None, content: bytes) -> None:
    """Write an entry in one step, then remove those used longest ago until all fit."""
    path, limit = _path(key), _limit()
    if path is None:
        return
    if len(content) + _DIGEST > limit:
        return
    partial = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with partial.open("wb") as file:
            file.write(blake2b(content, digest_size=_DIGEST).digest())
            file.write(content)
        partial.replace(path)
        _evict(path.parent, limit)
    except OSError:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def folder() -> Path | None:
    """Where entries lie; None where the cache is off, or the folder is one that others write to."""
    if os.environ.get("RNNCC_CACHE") == "0":
        return None
    if chosen := os.environ.get("RNNCC_CACHE_DIR"):
        found = Path(chosen)
    else:
        shared = os.environ.get("XDG_CACHE_HOME", "")
        if not Path(shared).is_absolute():
            shared = os.path.expanduser("~/.cache")  # noqa: PTH111, Path.home() may raise
        found = Path(shared) / "rnncc"
    return found if _is_ours(found) else None


def _is_ours(path: Path) -> bool:
    """Whether nobody else can put code into a folder."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return True  # `keep` makes it
    except OSError:
        return False
    return not status.st_mode & 0o022 and (os.name != "posix" or status.st_uid == os.getuid())


def _path(key: str | None) -> Path | None:
    where = folder()
    return None if key is None or where is None else where / f"{key}{_SUFFIX}"


def _limit() -> int:
    text = os.environ.get("RNNCC_CACHE_BYTES")
    return LIMIT if text is None else parse_bytes(text, "RNNCC_CACHE_BYTES")


def _evict(where: Path, limit: int) -> None:
    """Remove files, those used longest ago first, until the rest is no larger than the limit."""
    found = list[tuple[float, int, str]]()
    for entry in os.scandir(where):
        if entry.name.endswith(_SUFFIX) or f"{_SUFFIX}." in entry.name:  # also writes that stopped
            with suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                found.append((status.st_mtime, status.st_size, entry.path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= limit:
            break
        with suppress(OSError):
            Path(path).unlink()
            total -= size


def _content(source: Any) -> bytes | None:
    """What decides what a net means; None for what has no bytes of its own."""
    if isinstance(source, (str, Path)):
        path = Path(source)
        try:
            if not path.is_file() or path.stat().st_size > LARGEST_NET:
                return None
            return path.suffix.encode() + b"\n" + path.read_bytes()
        except OSError:
            return None  # the importer says why
    if isinstance(source, bytes):
        return source
    if hasattr(source, "SerializeToString"):
        return source.SerializeToString(deterministic=True)
    return _program(source) if hasattr(source, "module") else None


def _beside(source: Any, content: bytes) -> bytes | None:
    """What else an ONNX model's meaning depends on: the standard's package, and the sizes and times
    of the files that its tensors lie in."""
    from importlib import metadata

    from rnncc.errors import CompileError
    from rnncc.frontends.onnx.reading import external_files, is_onnx, load

    if not is_onnx(source):
        return b""
    try:
        told: list[Any] = [metadata.version("onnx")]
        if isinstance(source, (str, Path)) and b"location" in content:
            for file in external_files(load(source), source):
                status = file.stat()
                told.append((str(file), status.st_size, status.st_mtime_ns))
    except (CompileError, OSError, metadata.PackageNotFoundError):
        return None  # the importer says why
    return repr(told).encode()


def _program(program: Program) -> bytes:
    """The text of a program, and its arrays."""
    names = f"{program.name} {sorted(program.recompute)} {sorted(program.zeros)}"
    parts = [f"{names}\n{program.module}".encode()]
    for name, array in program.arrays.items():
        parts += [f"{name} {array.dtype} {array.shape}".encode(), array.tobytes()]
    return b"\n".join(parts)


def _sources() -> str:
    """Says when rnncc itself has changed: sizes and times of its files."""
    digest = blake2b(digest_size=16)
    for name, size, changed in sorted(_files(Path(__file__).parent)):
        digest.update(f"{name} {size} {changed}\n".encode())
    return digest.hexdigest()


def _files(where: Path | str) -> Iterator[tuple[str, int, int]]:
    for entry in os.scandir(where):
        if entry.is_dir(follow_symlinks=False):
            if entry.name != "__pycache__":
                yield from _files(entry.path)
        elif entry.name.endswith(".py"):
            status = entry.stat()
            yield entry.path, status.st_size, status.st_mtime_ns
