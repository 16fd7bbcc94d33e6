"""A wheel that holds one model: its library and wrapper in, the file's name and bytes out.

The format is that of the Python packaging user guide (binary distribution format 1.0), the platform
tags are those of PEP 600.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from typing import Any

from rnncc.errors import CompileError

DEFAULT_VERSION = "0.1"
OLDEST_GLIBC = 2, 17
"""The oldest that installers look for on these machines."""
_VERSION = re.compile(r"\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?", re.ASCII)
_NEEDED = re.compile(rb"GLIBC_(\d+)\.(\d+)")
_EPOCH = 1980, 1, 1, 0, 0, 0
"""When all files of a wheel were made, so that the same model gives the same bytes."""


def check_version(version: str) -> None:
    """Raise `CompileError` for what is no version of a distribution."""
    if not _VERSION.fullmatch(version):
        raise CompileError("--wheel-version", f"{version!r} is no version", "such as 1.0 or 2.1rc1")


def wheel(
    metadata: Mapping[str, Any], wrapper: str, library: bytes, triple: str, version: str
) -> tuple[str, bytes]:
    """The wheel of a model: a package NAME with its library, its wrapper and types.

    Args:
        metadata: the model's (docs/abi.md).
        wrapper: the text of its Python module.
        triple: the machine that the library is for.
    """
    name, tag = metadata["name"], f"py3-none-{platform_of(library, triple)}"
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}/__init__.py": wrapper.encode(),
        f"{name}/py.typed": b"",
        f"{name}/lib{name}.so": library,
        f"{info}/METADATA": _metadata(metadata, wrapper, version).encode(),
        f"{info}/WHEEL": _wheel(metadata, tag).encode(),
    }
    record = [f"{path},{_digest(content)},{len(content)}" for path, content in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,\n"]).encode()
    return f"{name}-{version}-{tag}.whl", _zipped(files)


def platform_of(library: bytes, triple: str) -> str:
    """Where a library runs, as installers say it: it needs glibc of a version, and nothing else."""
    machine, system = triple.split("-")[0], triple.split("-")[-1]
    if system != "gnu":
        return f"linux_{machine}"
    needed = [(int(major), int(minor)) for major, minor in _NEEDED.findall(library)]
    major, minor = max([OLDEST_GLIBC, *needed])
    return f"manylinux_{major}_{minor}_{machine}"


def _metadata(metadata: Mapping[str, Any], wrapper: str, version: str) -> str:
    described = wrapper.split('"""')[1].strip()
    return (
        "Metadata-Version: 2.1\n"
        f"Name: {metadata['name']}\n"
        f"Version: {version}\n"
        f"Summary: A recurrent net, compiled by rnncc for {metadata['cpu']}\n"
        "Requires-Python: >=3.11\n"
        f"Requires-Dist: rnncc-runtime>={metadata['rnncc']}\n"
        "Description-Content-Type: text/plain\n"
        f"\n{described}\n"
    )


def _wheel(metadata: Mapping[str, Any], tag: str) -> str:
    maker = f"rnncc {metadata['rnncc']}"
    return f"Wheel-Version: 1.0\nGenerator: {maker}\nRoot-Is-Purelib: false\nTag: {tag}\n"


def _digest(content: bytes) -> str:
    import hashlib
    from base64 import urlsafe_b64encode

    digest = urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
    return f"sha256={digest.decode()}"


def _zipped(files: Mapping[str, bytes]) -> bytes:
    from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

    stream = io.BytesIO()
    with ZipFile(stream, "w", ZIP_DEFLATED) as archive:
        for path, content in files.items():
            entry = ZipInfo(path, _EPOCH)
            entry.compress_type, entry.external_attr = ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, content)
    return stream.getvalue()
