"""What `rnncc compile` writes besides products, and what it tells of them."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rnncc import arrays
from rnncc.arrays import Array
from rnncc.commands.tables import bytes_text, print_bytes
from rnncc.driver import compiling
from rnncc.errors import CompileError
from rnncc.options import stem_of
from rnncc.sources import check_kept, noted
from rnncc.writing import staged, write_file

if TYPE_CHECKING:
    from rnncc.options import Options
    from rnncc.packaging.compiled import Artifacts, CompiledModel
    from rnncc.sources import NetFile


def write_form(
    net: NetFile,
    init: NetFile | None,
    out: Path | None,
    kind: str,
    options: Options,
    verbose: bool = False,
) -> None:
    """Write one form of the net to a file; to standard output for `-`, and texts without a file.

    With `rnn` in NAME.rnn.mlir goes NAME.npz, the parameters, from which it is compiled again, but
    not with what is no file, such as /dev/null.

    Args:
        verbose: tell what was written and how long it took, on standard error.

    Raises:
        CompileError: the net cannot be compiled; or a file that is read, or somebody else's
            `NAME.npz`, would be replaced.
    """
    started = time.perf_counter()
    with noted() as read:
        emitted = compiling.emit(net, init, options, kind)
    content = emitted.content
    if str(out) == "-" or (out is None and isinstance(content, str)):
        print_bytes(content.encode() if isinstance(content, str) else content)
        paths = list[Path]()
    else:
        paths = [out or Path(f"{options.name}.o")]
        if emitted.arrays and (paths[0].is_file() or not paths[0].exists()):
            paths.append(paths[0].with_name(f"{stem_of(paths[0])}.npz"))
            _check_beside(*paths)
        for path in paths:
            check_kept(path, read)
        _write(paths, content, emitted.arrays)
    if verbose:
        _tell_files(paths)
        click.echo(f"time  {time.perf_counter() - started:.2f} s", err=True)


def _write(paths: Sequence[Path], content: str | bytes, parameters: Mapping[str, Array]) -> None:
    """A form, and the arrays that go with it: both or neither, as either may be of another net."""
    if len(paths) == 1:
        write_file(paths[0], content)
        return
    folder = paths[0].parent
    folder.stat()  # which is not made
    with staged(folder) as own:
        form, beside = (own / path.name for path in paths)
        write_file(form, content)
        arrays.write(parameters, beside)


def _check_beside(net: Path, parameters: Path) -> None:
    """Raise `CompileError` for arrays that are there already, without the net that they go with.

    They may be inputs of the model, by its name.
    """
    if parameters.is_file() and not parameters.is_symlink() and not net.exists():
        what = f"is there already, and no {net.name} that it would go with: it would be lost"
        raise CompileError(str(parameters), what, "choose another name")


def tell(compiled: CompiledModel, written: Artifacts, options: Options, seconds: float) -> None:
    """What was written, what it takes, and how long that took."""
    _tell_files(written.paths)
    print(_made_for(compiled.metadata), file=sys.stderr)
    for block in ("workspace", "tape"):
        if size := compiled.metadata.get(block):
            click.echo(f"{block:<9}  {size} bytes", err=True)
    if checkpoints := compiled.metadata.get("checkpoints"):
        click.echo(checkpoints, err=True)
    if options.tune:
        settings = [f"{name} {value}" for name, value in compiled.tuning.items()]
        click.echo(f"tuned  {', '.join(settings) or 'no setting was faster'}", err=True)
    click.echo(f"time  {seconds:.2f} s", err=True)


def _tell_files(paths: Sequence[Path]) -> None:
    for path in paths:
        print(f"{path}  {bytes_text(path.stat().st_size)}", file=sys.stderr)


def _made_for(metadata: dict[str, Any]) -> str:
    """For which CPUs a library is, and how to make one for more."""
    text = f"cpu        {metadata['cpu']}, {metadata['target']}"
    if "device" in metadata:
        text = f"gpu        NVIDIA GPUs, from functions for {metadata['cpu']}, {metadata['target']}"
    elif metadata["target"].startswith("x86_64") and not metadata["cpu"].startswith("x86-64"):
        text += " (--cpu x86-64-v3 or x86-64-v2 for others)"
    elif metadata["target"].startswith("aarch64") and metadata["cpu"] != "generic":
        text += " (--cpu generic for others)"
    return text
