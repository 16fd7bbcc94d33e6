"""Writes the files of a compiled model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from rnncc.errors import CompileError
from rnncc.names import SYSTEM_HEADERS, SYSTEM_LIBRARIES, hides_module
from rnncc.packaging import texts
from rnncc.packaging.ar import archive
from rnncc.packaging.compiled import OBJECT_PRODUCTS, Artifacts, CompiledModel
from rnncc.packaging.link import link_shared
from rnncc.packaging.wheel import DEFAULT_VERSION, check_version, wheel
from rnncc.platforms import system_of
from rnncc.sources import check_kept
from rnncc.writing import create, staged

KINDS = {
    "so": "shared library",
    "dll": "shared library for Windows",
    "lib": "import library of a DLL",
    "dylib": "shared library for macOS",
    "wasm": "WebAssembly module",
    "h": "C header",
    "py": "Python module over rnncc_runtime",
    "o": "object file",
    "a": "static library",
    "pc": "pkg-config file",
    "cmake": "CMake package",
    "wheel": "Python package for pip: library, module and types",
    "c": "C source, which includes the header (--target c99)",
    "js": "JavaScript module that loads the WebAssembly module beside it",
    "ts": "TypeScript's declarations of that",
}
"""The files there are, in the order in which they are written."""

DEFAULT_KINDS = frozenset({"so", "h", "py"})
"""Those of object code without a choice."""

_SOURCES = {".c", ".h", ".js", ".py", ".ts"}
"""Files that people write, too, by the same names: the script beside a model, which made it."""
_MARK = b"compiled by rnncc"
"""In the first line of each of ours."""


def check_kinds(
    kinds: Iterable[str] | None,
    name: str,
    possible: Iterable[str] = OBJECT_PRODUCTS,
    by_default: Iterable[str] = DEFAULT_KINDS,
) -> set[str]:
    """The kinds as a set.

    Args:
        kinds: a choice, or None for `by_default`; a text has commas between them.
        possible: what a target makes (`rnncc.codegen.targets`).

    Raises:
        CompileError: there is no kind, or one does not exist, or is not `possible`, or a file would
            be taken for one of the system's or of Python's.
    """
    kinds = by_default if kinds is None else kinds.split(",") if isinstance(kinds, str) else kinds
    if not isinstance(kinds, Iterable) or not all(isinstance(kind, str) for kind in kinds):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise CompileError("products", f"{kinds!r} names no products", ", ".join(KINDS))
    requested = set(kinds)
    if not requested:
        raise CompileError("--products", "names none", ", ".join(KINDS))
    if unknown := sorted(requested - KINDS.keys()):
        raise CompileError("", f"no product is named {', '.join(unknown)}", ", ".join(KINDS))
    if others := sorted(requested - set(possible)):
        what = f"the target does not make the product {', '.join(others)}"
        raise CompileError("--products", what, f"it makes {', '.join(possible)}")
    if requested & {"py", "wheel"} and hides_module(name):
        what = f"{name}.py would hide Python's own module {name}"
        raise CompileError("", what, "take another name, or other products")
    files = [f"lib{name}.{kind}" for kind in ("so", "dylib", "a") if kind in requested]
    files = files if name in SYSTEM_LIBRARIES else []
    files += [f"{name}.h"] if "h" in requested and name in SYSTEM_HEADERS else []
    if files:
        what = f"{files[0]} would be taken for the system's file of that name"
        raise CompileError(f"name {name!r}", what, "choose another name")
    return requested


def prepare(kinds: Iterable[str]) -> None:
    """Import and read what writing these kinds takes."""
    texts.prepare(kinds)


def check_wheel(version: str | None, kinds: Iterable[str]) -> None:
    """Raise `CompileError` for the version of a wheel that is not written."""
    if version is not None and "wheel" not in kinds:
        raise CompileError("--wheel-version", "goes with --products wheel")


def write_products(
    compiled: CompiledModel,
    out: Path,
    kinds: Iterable[str] = DEFAULT_KINDS,
    version: str = DEFAULT_VERSION,
    read: Iterable[Path] = (),
) -> Artifacts:
    """Write files into a folder, which is made if need be: all of them, or none.

    They replace older ones of rnncc's, and links in their places.

    Args:
        compiled: the model.
        out: the folder.
        kinds: keys of `KINDS`.
        version: of a wheel.
        read: the files that the model was made of.

    Raises:
        CompileError: as for `check_kinds`; or it is no version; or the folder cannot be written, or
            linking fails; or a source of somebody else's, or a file of `read`, would be replaced.
    """
    requested = check_kinds(kinds, compiled.name, compiled.products)
    check_version(version)
    try:
        with staged(out) as folder:
            written = _write(compiled, folder, requested, version)
            for file in folder.iterdir():
                check_kept(out / file.name, read)
                _check_ours(out / file.name)
        return written.moved(out)
    except OSError as error:
        raise CompileError(error.filename, f"cannot write: {error.strerror}") from error


def _check_ours(path: Path) -> None:
    """Raise `CompileError` for a source that is there already and that rnncc did not write."""
    if path.suffix not in _SOURCES or path.is_symlink() or not path.is_file():
        return
    with path.open("rb") as file:
        first = file.readline(1000)
    if first and _MARK not in first:
        what = "is there already, and rnncc did not write it: it would be lost"
        raise CompileError(str(path), what, "take another name or folder")


def _write(compiled: CompiledModel, out: Path, requested: set[str], version: str) -> Artifacts:
    name, metadata, code = compiled.name, compiled.metadata, compiled.code
    library, packed, imports = _linked(compiled, out, requested), None, None
    if library is not None:
        packed = _wheel(compiled, library, version) if "wheel" in requested else None
        imports = library.with_suffix(".lib") if "lib" in requested else None
        _drop_unwanted(library, requested)
        library = library if _kind(library) in requested else None

    def text(kind: str, file: str, make: Callable[[], str]) -> Path | None:
        return _put(out / file, make().encode()) if kind in requested else None

    return Artifacts(
        library=library,
        imports=imports,
        header=text("h", f"{name}.h", lambda: texts.header(metadata)),
        wrapper=text("py", f"{name}.py", lambda: texts.wrapper(metadata)),
        object=_put(out / f"{name}.{_suffix(compiled)}", code) if "o" in requested else None,
        archive=_archive(compiled, out / f"lib{name}.a") if "a" in requested else None,
        pkg_config=text("pc", f"{name}.pc", lambda: texts.pkg_config(metadata)),
        cmake=text(
            "cmake",
            f"{name}Config.cmake",
            lambda: texts.cmake_package(metadata, "so" in requested, "a" in requested),
        ),
        wheel=packed,
        source=_put(out / f"{name}.c", code) if "c" in requested else None,
        module=text("js", f"{name}.js", lambda: texts.javascript(metadata)),
        types=text("ts", f"{name}.d.ts", lambda: texts.types(metadata)),
    )


LINKED = {"so": "lib{}.so", "dll": "{}.dll", "dylib": "lib{}.dylib", "wasm": "{}.wasm"}
"""Kinds that a linker makes -> their files; a system has one of them."""
_OF = {"lib": "dll", "wheel": "so"}
"""Kinds that are made of such a file, or with it."""


def _linked(compiled: CompiledModel, out: Path, requested: set[str]) -> Path | None:
    kinds = LINKED.keys() & {_OF.get(kind, kind) for kind in requested}
    if not kinds:
        return None
    path = out / LINKED[kinds.pop()].format(compiled.name)
    link_shared(compiled.code, path, compiled.name, compiled.triple, compiled.exports)
    return path


def _drop_unwanted(library: Path, requested: set[str]) -> None:
    """The linked file, and what a linker for Windows writes beside it."""
    for path, kind in ((library, _kind(library)), (library.with_suffix(".lib"), "lib")):
        if kind not in requested:
            path.unlink(missing_ok=True)


def _kind(library: Path) -> str:
    return library.suffix.removeprefix(".")


def _wheel(compiled: CompiledModel, library: Path, version: str) -> Path:
    wrapper, content = texts.wrapper(compiled.metadata), library.read_bytes()
    name, packed = wheel(compiled.metadata, wrapper, content, compiled.triple, version)
    return _put(library.with_name(name), packed)


def _suffix(compiled: CompiledModel) -> str:
    return "obj" if system_of(compiled.triple) == "windows" else "o"


def _archive(compiled: CompiledModel, path: Path) -> Path:
    member = f"{compiled.name}.{_suffix(compiled)}"
    is_apple = system_of(compiled.triple) in ("macos", "ios")
    return _put(path, archive(member, compiled.code, compiled.exports, is_apple))


def _put(path: Path, content: bytes) -> Path:
    with create(path) as file:
        file.write(content)
    return path
