# pyright: basic, reportMissingImports=false
"""Programs of torch.export as nets, with the sizes named by the user."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnncc.errors import CompileError, Location
from rnncc.frontends.shapes import Sizes, parse_shape
from rnncc.frontends.torch.programs.archives import load_exported
from rnncc.ir.dims import Dim
from rnncc.ir.program import Program
from rnncc.sources import called

if TYPE_CHECKING:
    from torch.export import ExportedProgram


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
    from rnncc.frontends.torch.programs.exported import import_exported

    names = _names(exported, shapes, where)
    try:
        return import_exported(exported, name, names, packed=True).program
    except CompileError as error:
        if exported is source:
            raise
        place = Location(where, error.location)
        raise CompileError(place, error.what, error.hint, error.differ) from error


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
