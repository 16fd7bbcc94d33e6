"""The result of code generation, and the files made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from rnncc.platforms import SYSTEMS
from rnncc.records import record

OBJECT_PRODUCTS = SYSTEMS["linux"].products
"""Of object code for Linux: keys of `rnncc.packaging.products.KINDS`."""


@record
class CompiledModel:
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

    @property
    def exports(self) -> list[str]:
        """The symbols of its functions."""
        metadata = self.metadata
        more = ["cuda_image"] if "device" in metadata else []
        names = [*metadata["functions"], *metadata["sizes"], *more]
        names += ["metadata", "supported", "missing_feature"]
        names += ["chosen_cpu"] if "versions" in metadata else []
        return [f"{self.name}_{name}" for name in names]


@record
class Artifacts:
    """The files of a model; None for what was not asked for.

    Attributes:
        library: shared, in the form of its system: .so, .dll, .dylib or .wasm.
        imports: by which programs link to a DLL.
        module, types: JavaScript that loads WebAssembly, and what TypeScript knows of it.
    """

    library: Path | None = None
    imports: Path | None = None
    header: Path | None = None
    wrapper: Path | None = None
    object: Path | None = None
    archive: Path | None = None
    pkg_config: Path | None = None
    cmake: Path | None = None
    wheel: Path | None = None
    source: Path | None = None
    module: Path | None = None
    types: Path | None = None

    def moved(self, folder: Path) -> Artifacts:
        """The same files in another folder."""
        paths = {name: path and folder / path.name for name, path in vars(self).items()}
        return Artifacts(**paths)

    @property
    def paths(self) -> list[Path]:
        """Those that exist."""
        order = (
            *(self.library, self.imports, self.header, self.wrapper, self.object, self.archive),
            *(self.pkg_config, self.cmake, self.wheel, self.source, self.module, self.types),
        )
        return [path for path in order if path is not None]
