"""The command line: thin commands over the library; errors are one line and end with status 2."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rnncc import __version__
from rnncc.commands import console
from rnncc.commands.bench.command import bench
from rnncc.commands.compile.command import compile
from rnncc.commands.help import Commands, example
from rnncc.commands.netdef.command import netdef
from rnncc.commands.options import (
    GPU,
    INIT_NET,
    JSON,
    MEMORY_BUDGET,
    NET,
    PATH,
    RECOMPUTE,
    NetCommand,
    check_apart,
    import_options,
    only_init,
    options_of,
    settle,
    source_options,
)
from rnncc.sources import check_kept, noted
from rnncc.writing import write_file

if TYPE_CHECKING:
    from rnncc.sources import NetFile


@click.group(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="rnncc", message="%(prog)s %(version)s")
def cli() -> None:
    """Compile recurrent nets to small libraries that need nothing but libc."""


cli.add_command(compile)
cli.add_command(netdef)
cli.add_command(bench)


@cli.command(
    cls=NetCommand,
    epilog=example(
        "rnncc run examples/lstm.pbtxt --init examples/lstm_init.pbtxt -i examples/lstm.npz"
    ),
)
@click.argument("net_or_library", type=PATH, callback=settle)
@INIT_NET
@source_options
@GPU
@click.option(
    "-i",
    "--input",
    "inputs",
    multiple=True,
    metavar="FILE",
    help="x.npz, NAME=x.npy, NAME=x.csv, NAME=0 for all elements; or a table x.parquet, a row a"
    " sequence.",
)
@click.option(
    "-o",
    "--out",
    type=PATH,
    help="y.npz, or y.npy for one output; of a table also y.parquet.",
)
@click.option("--lengths", default="", metavar="INPUT", help="Of a table: gets each row's steps.")
@click.option("--batch", type=click.IntRange(1), help="Rows of a table at a time; 256 without.")
@click.option(  # as many at the most as rnncc_runtime.pool, which takes NumPy, makes
    "--threads", type=click.IntRange(1, 1024), default=1, help="How many compute; 1 without."
)
def run(
    net_or_library: NetFile,
    init_net: NetFile | None,
    init: NetFile | None,
    inputs: Sequence[str],
    out: Path | None,
    lengths: str,
    batch: int | None,
    threads: int,
    **options: Any,
) -> None:
    """Run a net or a compiled library on arrays; without -o, print a summary of the outputs."""
    from rnncc import arrays
    from rnncc.commands import libraries, tables
    from rnncc.commands.run.arrays import compute, read_arrays, scoring_of
    from rnncc.commands.run.scoring import score

    init = only_init(init_net, init)
    check_apart(out, net_or_library, init, *inputs)
    table = scoring_of(inputs, batch, threads, lengths)
    arrays_read = read_arrays(inputs) if table is None else {}
    library = libraries.library_alone(net_or_library, {"init": init, **options})
    if library is not None:
        model = libraries.open_library(library)
    else:
        from rnncc.driver.remote.models import compile_to_run

        chosen = options_of(net_or_library, {**options, "threads": threads > 1})
        with noted() as read:
            model = compile_to_run(net_or_library, init, chosen)
        check_kept(out, read)
    if table is not None:
        click.echo(f"{score(model, table, out)} rows", err=True)
        return
    results = compute(model, arrays_read, threads)
    if out is None:
        tables.print_arrays(results)
    else:
        arrays.write(results, out)


@cli.command(epilog=example("rnncc inspect examples/lstm.pbtxt --init examples/lstm_init.pbtxt"))
@NET
@INIT_NET
@import_options
@JSON
def inspect(
    net: NetFile,
    init_net: NetFile | None,
    init: NetFile | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Show a net's operators, blobs, versions, shapes and parameters."""
    from rnncc.commands import libraries
    from rnncc.commands.inspect import inspection

    init = only_init(init_net, init)
    if (library := libraries.library_alone(net, {"init": init, **options})) is not None:
        report = libraries.inspect(library)
    else:
        report = inspection.inspect(net, init, options_of(net, options))
    if as_json:
        click.echo(json.dumps(report, indent=2))
    else:
        inspection.print_report(report)


@cli.command(epilog=example("rnncc draw examples/lstm.pbtxt examples/lstm_init.pbtxt -o lstm.svg"))
@NET
@INIT_NET
@import_options
@click.option("-o", "--out", type=PATH, help="An .svg or .html file.")
def draw(
    net: NetFile,
    init_net: NetFile | None,
    init: NetFile | None,
    out: Path | None,
    **options: Any,
) -> None:
    """Draw a net as equations in boxes, loops as boxes around those of a step.

    Without -o the SVG goes to standard output."""
    from rnncc.commands.draw import draw

    draw(net, only_init(init_net, init), out, options_of(net, options))


@cli.command(
    cls=NetCommand,
    epilog=example(
        "rnncc plan examples/lstm.pbtxt --init examples/lstm_init.pbtxt --plan-for 100,4"
        " --html plan.html"
    ),
)
@NET
@INIT_NET
@source_options
@GPU
@click.option("--train", is_flag=True, help="Plan forward and backward.")
@RECOMPUTE
@MEMORY_BUDGET
@click.option("--plan-for", metavar="T,N", help="Sizes for figures and budget, or T=100,N=4.")
@click.option("--html", type=PATH, help="A page that draws the plan.")
@JSON
def plan(
    net: NetFile,
    init_net: NetFile | None,
    init: NetFile | None,
    plan_for: str | None,
    html: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Show where every buffer of the compiled net lies, when it lives, and what that takes."""
    from rnncc.commands import libraries
    from rnncc.commands.plan import print_report
    from rnncc.driver.planning import report_of

    init = only_init(init_net, init)
    check_apart(html, net, init)
    library = libraries.library_alone(net, {"init": init, "html": html, **options})
    if library is not None:
        blocks = libraries.plan(library, plan_for)
        if as_json:
            click.echo(json.dumps(blocks, indent=2))
        else:
            libraries.print_plan(blocks)
        return
    options["plan_for"] = plan_for
    with noted() as read:
        report = report_of(net, init, options_of(net, options), plan_for)
    if html is not None:
        from rnncc.planning.drawing import draw

        check_kept(html, read)
        write_file(html, draw(report))
    if as_json:
        click.echo(json.dumps(report.to_dict(), indent=2))
    elif html is None:
        print_report(report)


@cli.command(
    cls=NetCommand,
    epilog=example(
        "rnncc check examples/lstm.pbtxt examples/lstm_init.pbtxt --for 7,3 --recompute all"
    ),
)
@NET
@INIT_NET
@source_options
@GPU
@click.option("--for", "at", metavar="T,N", help="The sizes, or T=7,N=3; 7,3 without it.")
@RECOMPUTE
@click.option(
    "-i",
    "--input",
    "inputs",
    multiple=True,
    metavar="FILE",
    help="x.npz, or NAME=x.npy; the rest is drawn at random.",
)
@JSON
def check(
    net: NetFile,
    init_net: NetFile | None,
    init: NetFile | None,
    at: str | None,
    inputs: Sequence[str],
    as_json: bool,
    **options: Any,
) -> None:
    """Compare the compiled NET, forward and backward, with the interpreter.

    The gradients are compared with finite differences too; with a --precision, the outputs with
    those of fp32. The exit status is 1 if anything is further off than rounding explains."""
    init = only_init(init_net, init)
    from rnncc.commands import check
    from rnncc.commands.run.arrays import read_arrays
    from rnncc.commands.tables import working

    arrays_read = read_arrays(inputs)
    with working(f"checking {net}"):
        chosen = options_of(net, {**options, "train": options["precision"] in (None, "fp32")})
        report = check.check(net, init, chosen, at, arrays_read)
    if as_json:
        click.echo(json.dumps(report.to_dict(), indent=2))
    else:
        check.print_report(report)
    if report.failures:
        raise click.exceptions.Exit(1)


@cli.command(epilog=example("rnncc demo"))
@click.option("-o", "--out", type=PATH, help="Write net and library there.")
def demo(out: Path | None) -> None:
    """Make a small net, compile it, run it, compare it with the interpreter, time it."""
    from rnncc.commands import demo

    demo.demo(out)


@cli.command(epilog=example("rnncc targets"))
@JSON
def targets(as_json: bool) -> None:
    """List the machines that code can be generated for."""
    from rnncc.commands import targets
    from rnncc.commands.tables import print_table

    rows = targets.rows()
    if as_json:
        click.echo(
            json.dumps([dict(zip(targets.COLUMNS, row, strict=True)) for row in rows], indent=2)
        )
    else:
        print_table("", targets.COLUMNS, rows)


@cli.command(epilog=example("rnncc ops --onnx LSTM Scan"))
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--onnx", is_flag=True, help="Those of ONNX.")
@JSON
def ops(names: Sequence[str], onnx: bool, as_json: bool) -> None:
    """List the operators that Caffe2 nets may use, or ONNX models, and what is refused.

    With names these operators alone: what they compute, and which of their forms are refused."""
    from rnncc.commands import ops

    report = ops.onnx_report() if onnx else ops.report()
    report = ops.only(report, names) if names else report
    if as_json:
        click.echo(json.dumps(report, indent=2))
    else:
        ops.print_report(report)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status, as `rnncc.commands.console` says.

    Args:
        arguments: those of this process without it, which then is the command's own.
    """
    return console.run_process(cli) if arguments is None else console.run(cli, arguments)
