"""`rnncc netdef`: nets shown, compared, drawn, taken apart; thin commands over `rnncc.netdef`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from rnncc.commands.help import Commands, example
from rnncc.commands.options import JSON, MAX_INPUT, PATH, check_picture
from rnncc.errors import CompileError
from rnncc.writing import staged, write_file

INIT = click.option("--init", type=PATH, help="The net of parameters.")
INIT_OUT = click.option("--init-out", type=PATH, help="Where the new net of parameters goes.")
OUT = click.option(
    "-o", "--out", type=PATH, help="A file; its suffix (.pb, .pbtxt) tells the form."
)
FORM = click.option(
    "--text/--binary",
    "as_text",
    default=None,
    help="The form, whatever the suffix; without a file text on a terminal, binary in a pipe.",
)


def NET(function: Callable[..., None]) -> Callable[..., None]:  # noqa: N802, as other options
    """The net that a command reads, and how large it may be."""
    return click.argument("net", type=PATH)(MAX_INPUT(function))


def writes_net(function: Callable[..., None]) -> Callable[..., None]:
    """The options of every command that writes a net."""
    return OUT(FORM(function))


@click.group(cls=Commands, epilog=example("rnncc netdef show examples/lstm.pbtxt"))
def netdef() -> None:
    """Show, compare, draw and change Caffe2 nets.

    Nets are files in binary or text form, or - for standard input.
    """


@netdef.command(epilog=example("rnncc netdef show examples/lstm.pbtxt"))
@NET
@writes_net
def show(net: Path, out: Path | None, as_text: bool | None) -> None:
    """Print NET in text form, or convert it.

    Arguments stand in the order of their names, step nets held as text become nets.
    """
    from rnncc.commands.netdef import files
    from rnncc.netdef.ordered import ordered

    as_text = True if out is None and as_text is None else as_text
    message = files.read(net)
    with files.named_after(net, message):
        files.write(ordered(message), out, as_text)


@netdef.command(epilog=example("rnncc netdef ssa examples/lstm.pbtxt"))
@NET
@click.option("--rewrite", is_flag=True, help="Write the net with a name for each version.")
@JSON
@writes_net
def ssa(net: Path, rewrite: bool, as_json: bool, out: Path | None, as_text: bool | None) -> None:
    """Tell the versions of NET's blobs.

    Every writing of a blob makes the next version of it; 0 is what it holds before.
    """
    from rnncc.commands.netdef import files, reports
    from rnncc.netdef import ssa_rewrite

    if rewrite and as_json:
        raise CompileError("--json", "goes without --rewrite, which writes a net")
    message = files.read(net)
    if rewrite:
        with files.named_after(net, message):
            files.write(ssa_rewrite(message, nested=True), out, as_text)
    elif out is not None or as_text is not None:
        raise CompileError("--out" if out else "--text", "goes with --rewrite")
    else:
        reports.print_versions(message, as_json)


@netdef.command(epilog=example("rnncc netdef extract examples/lstm.pbtxt logits -o logits.pb"))
@NET
@click.argument("outputs", metavar="BLOB...", nargs=-1, required=True)
@writes_net
def extract(net: Path, outputs: Sequence[str], out: Path | None, as_text: bool | None) -> None:
    """Cut out what computes the named blobs of NET."""
    from rnncc.commands.netdef import files
    from rnncc.netdef import extract

    message = files.read(net)
    with files.named_after(net, message):
        files.write(extract(message, outputs), out, as_text)


@netdef.command(epilog=example("rnncc netdef prune examples/lstm.pbtxt -o pruned.pb"))
@NET
@INIT
@INIT_OUT
@writes_net
def prune(
    net: Path, init: Path | None, init_out: Path | None, out: Path | None, as_text: bool | None
) -> None:
    """Leave out what changes no output of NET.

    Dead operators go, copies, and reshapes before FC, those too whose shapes --init fills. What
    went is printed on standard error.
    """
    from rnncc.commands.netdef import changes, files
    from rnncc.commands.tables import working

    if init is None and init_out is not None:
        raise CompileError("--init-out", "goes with --init")
    message, filled = files.read(net), files.read_init(init)
    with working(f"pruning {net}"), files.named_after(net, message):
        pruned, new_init, removed = changes.prune(message, filled)
    files.write_with_init(pruned, out, new_init, init_out, as_text)
    for entry in removed:
        print(entry, file=sys.stderr)
    click.echo(f"{len(removed)} of {len(message.op)} operators went", err=True)


@netdef.command(epilog=example("rnncc netdef rename examples/lstm.pbtxt i2h gates_x -o renamed.pb"))
@NET
@click.argument("old")
@click.argument("new")
@click.option("--op", type=int, metavar="INDEX", help="Only what this operator writes as OLD.")
@INIT
@INIT_OUT
@writes_net
def rename(
    net: Path,
    old: str,
    new: str,
    op: int | None,
    init: Path | None,
    init_out: Path | None,
    out: Path | None,
    as_text: bool | None,
) -> None:
    """Give the blob OLD of NET the name NEW.

    It is renamed wherever it is read and written, in the net's inputs and outputs and in the nets
    inside operators as well.
    """
    from rnncc.commands.netdef import changes, files

    if (init is None) != (init_out is None):
        raise CompileError("--init", "goes with --init-out, and the other way round")
    if op is not None and init is not None:
        raise CompileError("--op", "renames what an operator of the net writes, not of --init")
    message, filled = files.read(net), files.read_init(init)
    with files.named_after(net, message):
        renamed, new_init = changes.rename(message, old, new, op, filled)
    files.write_with_init(renamed, out, new_init, init_out, as_text)


@netdef.command(
    epilog=example("rnncc netdef split examples/lstm.pbtxt --init examples/lstm_init.pbtxt -o nets")
)
@NET
@INIT
@click.option("--outputs", metavar="BLOB,...", help="What the predict net gives.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, help="Of random fills; 0 without it."
)
@click.option("--text", "as_text", is_flag=True, help="Write .pbtxt files.")
@click.option("-o", "--out", type=PATH, default=Path(), help="A folder.")
def split(
    net: Path, init: Path | None, outputs: str | None, seed: int, as_text: bool, out: Path
) -> None:
    """Split NET into init_net and predict_net.

    The init net holds the arrays that the fills in NET and in --init make and that the predict
    net reads.
    """
    from rnncc.commands.netdef import changes, files
    from rnncc.commands.tables import working

    message, filled = files.read(net), files.read_init(init)
    with working(f"splitting {net}"), files.named_after(net, message):
        names = [word.strip() for word in outputs.split(",")] if outputs else None
        parts = changes.split(message, filled, names, seed)
        with staged(out) as folder:
            for name, part in zip(("init_net", "predict_net"), parts, strict=True):
                files.write(part, folder / f"{name}.{'pbtxt' if as_text else 'pb'}")


@netdef.command(epilog=example("rnncc netdef diff examples/lstm.pbtxt examples/lstm.pbtxt"))
@click.argument("first", type=PATH)
@click.argument("second", type=PATH)
@MAX_INPUT
@JSON
def diff(first: Path, second: Path, as_json: bool) -> None:
    """Tell how two nets differ.

    What their inner blobs are called does not matter. The exit status is 1 if they differ.
    """
    from rnncc.commands.netdef import files, reports
    from rnncc.commands.tables import working
    from rnncc.netdef.diff import diff

    if str(first) == str(second) == files.PIPE:
        raise CompileError("<stdin>", "cannot be read twice")
    a, b = files.read(first), files.read(second)
    with working("comparing"):
        lines = diff(a, b)
    reports.print_differences(lines, as_json)
    if lines:
        raise click.exceptions.Exit(1)


@netdef.command(epilog=example("rnncc netdef draw examples/lstm.pbtxt -o lstm.svg"))
@NET
@INIT
@click.option("-o", "--out", type=PATH, help="An .svg file; standard output without it.")
@click.option(
    "--layout",
    type=click.Choice(("auto", "dot", "own")),
    default="auto",
    help="Who places the boxes: graphviz' dot where it is installed (auto), or rnncc itself.",
)
def draw(net: Path, init: Path | None, out: Path | None, layout: str) -> None:
    """Draw NET as SVG.

    Nets inside operators are boxes in boxes. Blobs that --init fills are named in the boxes of the
    operators that read them, as are weights of common operators.
    """
    from rnncc.commands.netdef import files
    from rnncc.commands.tables import print_bytes, working
    from rnncc.netdef.drawing import draw

    check_picture(out, ".svg")
    message, filled = files.read(net), files.read_init(init)
    weights = {name for op in filled.op for name in op.output} if filled else set[str]()
    with working(f"drawing {net}"), files.named_after(net, message):
        svg = draw(message, weights, layout, message.name or net.stem)
    if out is None or str(out) == files.PIPE:
        print_bytes(svg.encode(errors="backslashreplace"))
    else:
        write_file(out, svg)
