"""`rnncc draw`: a net of any kind as a picture of its equations."""

from __future__ import annotations

from pathlib import Path

from rnncc.commands.libraries import library_in
from rnncc.commands.options import check_apart, check_picture
from rnncc.commands.tables import print_bytes, working
from rnncc.drawing import draw as drawn
from rnncc.drawing import page
from rnncc.errors import CompileError
from rnncc.options import Options
from rnncc.sources import NetFile, check_kept, noted
from rnncc.stages.compilation import Compilation
from rnncc.stages.reading import read
from rnncc.writing import write_file


def draw(net: NetFile, init: NetFile | None, out: Path | None, options: Options) -> None:
    """Write the drawing of a net, an SVG or a page by the file's name.

    Raises:
        CompileError: the net cannot be read, is a compiled library, or is too large for a picture;
            or the file's name is of another format.
    """
    check_picture(out, ".svg", ".html")
    check_apart(out, net, init)
    if library_in(net) is not None:
        raise CompileError(str(net), "is a library, which holds no net to draw")
    with working(f"drawing {net}"), noted() as files:
        compilation = Compilation(options, source=net, init=init)
        read(compilation)
        program = compilation.programs.get("net")
        if program is None:
            parts = ", ".join(compilation.programs)
            raise CompileError(str(net), f"is cut into parts already ({parts})", "draw the net")
        text = drawn(program)
    if out is None or str(out) == "-":
        print_bytes(text.encode(errors="backslashreplace"))
        return
    check_kept(out, files)
    write_file(out, page(text, program.name) if out.suffix == ".html" else text)
