"""The cache on disk, keyed by content: models compiled in memory, and what tuning found.

An entry is one file: a checksum, then the content (docs/packaging.md). The state of the disk is no
error here: what cannot be read is computed again, what cannot be written is not kept.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llvmlite
import numpy as np

from rnncc.errors import CompileError
from rnncc.frontends.onnx.external_data import external_files
from rnncc.frontends.onnx.reading import is_onnx, load
from rnncc.frontends.torch.programs.archives import is_exported
from rnncc.options import Options
from rnncc.own_files import cache_folder, is_ours, is_own, make_folder, own_file
from rnncc.sizes import parse_bytes
from rnncc.sources import is_regular, read_bytes
from rnncc.version import __version__
from rnncc.writing import PARTIAL, replacing

if TYPE_CHECKING:
    from rnncc.codegen.target import Target
    from rnncc.ir.program import Program

LIMIT = 256 << 20
"""Bytes of all entries, where RNNCC_CACHE_BYTES does not say otherwise."""

LARGEST_NET = LARGEST_ENTRY = 1 << 30
FOLDER = "rnncc-models"
"""Holds the entries, and nothing that is not the cache's."""

_SUFFIX = ".model"
_ENTRY = re.compile(r"[0-9a-f]{40}\.model")
_DIGEST = 32


def key_of(net: Any, init: Any, options: Options, target: Target) -> str | None:
    """What a compilation depends on, as the name of an entry; None where it is not to be kept.

    Args:
        net, init: as for `rnncc.compile`.
        options: those that show what happens inside keep nothing.
        target: the machine that the options name.

    Raises:
        CompileError: RNNCC_CACHE_BYTES is no number of bytes.
    """
    if cache_folder() is None or options.dump_ir or options.time_passes or options.verify_each:
        return None
    _limit()  # an error of the environment shows before the work
    if options.functions:
        return None  # Python code, whose meaning is not in its text alone
    content = _content(net)
    parts = content, b"none" if init is None else _content(init), _beside(net, content or b"")
    if None in parts:
        return None
    settings = json.dumps(asdict(options), sort_keys=True, default=repr)
    makers = f"{__version__} {llvmlite.__version__} {np.__version__} {_sources()}"
    digest = blake2b(digest_size=20)
    for part in (makers.encode(), repr(target).encode(), settings.encode(), *parts):
        assert part is not None
        digest.update(len(part).to_bytes(8))
        digest.update(part)
    return digest.hexdigest()


def find(key: str | None) -> bytes | None:
    """What a key's entry holds, which becomes the one used last.

    None where there is none, or it is not as `keep` left it.
    """
    if key is None or (where := _entries()) is None:
        return None
    path = where / f"{key}{_SUFFIX}"
    try:
        data = own_file(path, LARGEST_ENTRY)
        checksum, content = data[:_DIGEST], data[_DIGEST:]
        if _checksum(key, [content]) != checksum:
            path.unlink()
            return None
    except OSError:
        return None
    with suppress(OSError):  # entries of a disk that is read-only now serve as well
        os.utime(path)
    return content


def keep(key: str | None, parts: Sequence[bytes | memoryview]) -> None:
    """Write an entry in one step, then remove those used longest ago until all fit."""
    if key is None or not fits(parts):
        return
    with suppress(OSError):
        where = _entries(make=True)
        if where is None:
            return
        with replacing(where / f"{key}{_SUFFIX}", 0o600) as file:
            file.write(_checksum(key, parts))
            file.writelines(parts)
        _evict(where, _limit())


def fits(parts: Sequence[bytes | memoryview]) -> bool:
    """Whether an entry is small enough to be kept."""
    return sum(map(len, parts)) + _DIGEST <= min(_limit(), LARGEST_ENTRY)


def _entries(make: bool = False) -> Path | None:
    """The folder of entries, in which nothing else lies; None where it is not this user's alone.

    Raises:
        OSError: it is to be made, and cannot be.
    """
    above = cache_folder()
    if above is None:
        return None
    where = above / FOLDER
    if make:
        make_folder(where)  # entries are code
    return where if is_ours(where, os.lstat) else None


def _checksum(key: str, parts: Sequence[bytes | memoryview]) -> bytes:
    """Of an entry under its own name: under another it counts as damaged."""
    hashed = blake2b(digest_size=_DIGEST, key=key.encode())
    for part in parts:
        hashed.update(part)
    return hashed.digest()


def _limit() -> int:
    text = os.environ.get("RNNCC_CACHE_BYTES")
    return LIMIT if text is None else parse_bytes(text, "RNNCC_CACHE_BYTES")


def _evict(where: Path, limit: int) -> None:
    """Remove entries, those used longest ago first, until the rest is no larger than the limit.

    Whatever the cache has not made is neither counted nor removed.
    """
    entries = list[tuple[float, int, str]]()
    for entry in os.scandir(where):
        is_partial = PARTIAL.fullmatch(entry.name)  # also writes that stopped
        if is_partial or _ENTRY.fullmatch(entry.name):
            with suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode) and is_own(status):
                    entries.append((status.st_mtime, status.st_size, entry.path))
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
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
            if not is_regular(path) or path.stat().st_size > LARGEST_NET:
                return None
            return os.fsencode(path.suffix) + b"\n" + read_bytes(path)
        except (CompileError, OSError):
            return None  # the importer says why
    if isinstance(source, bytes):
        return source
    if hasattr(source, "SerializeToString"):
        return source.SerializeToString(deterministic=True)
    return _program(source) if hasattr(source, "module") else None


def _beside(source: Any, content: bytes) -> bytes | None:
    """What else a file's meaning depends on: the package of its format, and the bytes of the files
    that an ONNX model's tensors lie in.

    Their sizes and times say too little: weights that are trained again have the same size, and
    what unpacks or copies them may give them the same time.
    """
    exported = is_exported(source)
    if not exported and not is_onnx(source):
        return b""
    from importlib.metadata import PackageNotFoundError, version

    try:
        facts: list[Any] = [version("torch" if exported else "onnx")]
        if exported:
            return repr(facts).encode()
        if isinstance(source, (str, Path)) and b"location" in content:
            paths = external_files(load(source), Path(source).parent)
            if sum(path.stat().st_size for path in paths) > LARGEST_NET:
                return None
            for path in paths:
                with path.open("rb") as file:
                    digest = file_digest(file, partial(blake2b, digest_size=20))
                facts.append((str(path), digest.hexdigest()))
    except (CompileError, OSError, PackageNotFoundError):
        return None  # the importer says why
    return repr(facts).encode(errors="backslashreplace")


def _program(program: Program) -> bytes:
    """The text of a program, what it says beside that, and its arrays."""
    sets = map(sorted, (program.recompute, program.zeros, program.fixed))
    facts = [program.name, *sets, list(map(str, program.bounds)), program.counts, program.texts]
    parts = [f"{facts}\n{program.module}".encode(errors="backslashreplace")]
    for name, array in program.arrays.items():
        parts += [f"{name} {array.dtype} {array.shape}".encode(), array.tobytes()]
    return b"\n".join(parts)


def _sources() -> str:
    """Says when rnncc itself has changed: sizes and times of its files."""
    digest = blake2b(digest_size=16)
    for name, size, changed in sorted(_files(Path(__file__).parents[1])):
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
