"""The result of code generation, and the files made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OBJECT_PRODUCTS = ("so", "h", "py", "o", "a", "pc", "cmake", "wheel")
"""Of object code: keys of `rnncc.packaging.products.KINDS`."""


@dataclass(frozen=True)
class Compiled:
    """A model as code.

    Attributes:
        name: a C identifier; the prefix of every exported symbol.
        metadata: what `NAME_metadata` tells (docs/abi.md).
        code: a relocatable, position-independent object, or C; the weights included.
        triple: the machine it is for, or `reference` for C.
        tuning: settings of the code generator that differ from its model of the machine.
        products: the files that can be made of it.
    """

    name: str
    metadata: dict[str, Any]
    code: bytes
    triple: str
    tuning: Mapping[str, int] = field(default_factory=dict[str, int])
    products: tuple[str, ...] = OBJECT_PRODUCTS


@dataclass(frozen=True)
class Artifacts:
    """The files of a model; None for what was not asked for."""

    library: Path | None = None
    header: Path | None = None
    wrapper: Path | None = None
    object: Path | None = None
    archive: Path | None = None
    pkg_config: Path | None = None
    cmake: Path | None = None
    wheel: Path | None = None
    source: Path | None = None

    def moved(self, folder: Path) -> Artifacts:
        """The same files in another folder."""
        held = {name: path and folder / path.name for name, path in vars(self).items()}
        return Artifacts(**held)

    @property
    def paths(self) -> list[Path]:
        """Those that exist."""
        every = (self.library, self.header, self.wrapper, self.object)
        more = (self.archive, self.pkg_config, self.cmake, self.wheel, self.source)
        return [path for path in every + more if path is not None]
