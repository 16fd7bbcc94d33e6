"""`rnncc compile`: a net to a library, or to one form of it."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rnncc import CompileError
from rnncc.codegen import targets
from rnncc.commands.help import example
from rnncc.commands.options import (
    GPU,
    INIT_NET,
    MEMORY_BUDGET,
    NET,
    PATH,
    NetCommand,
    only_init,
    options_of,
    source_options,
)
from rnncc.options import check_plan_for
from rnncc.packaging.products import KINDS, check_kinds, check_wheel, prepare, write_products
from rnncc.packaging.wheel import DEFAULT_VERSION
from rnncc.sources import noted

if TYPE_CHECKING:
    from rnncc.options import Options
    from rnncc.sources import NetFile

TEXTS = ("rnn", "kern", "llvm", "ptx", "asm", "c")
EMITTED = (*TEXTS, "obj", "so")


@click.command(
    cls=NetCommand,
    epilog=example("rnncc compile examples/lstm.pbtxt examples/lstm_init.pbtxt -o build"),
)
@NET
@INIT_NET
@source_options
@GPU
@click.option("-o", "--out", type=PATH, help="Folder; with --emit a file or -.")
@click.option(
    "--products",
    metavar="KINDS",
    help=f"Files to write, of {', '.join(KINDS)}; so,h,py without it, on Linux.",
)
@click.option(
    "--wheel-version",
    metavar="X.Y",
    help=f"Of a wheel; {DEFAULT_VERSION} without it.",
)
@click.option("--emit", type=click.Choice(EMITTED), help="Write one form of the net instead.")
@click.option("--stop-after", metavar="STEP", help="With --emit rnn or kern: the last step run.")
@click.option("--dump-ir", metavar="DIR", help="Write the IR after every step.")
@click.option("--time-passes", is_flag=True, help="Print the time of every step.")
@click.option("--verify-each", is_flag=True, help="Verify the IR after every step.")
@click.option("-v", "--verbose", is_flag=True, help="Say what was written and how long it took.")
@click.option(
    "--threads", is_flag=True, help="Also make NAME_run_part: one call by several threads."
)
@click.option("--train", is_flag=True, help="Compile forward and backward instead of inference.")
@click.option(
    "--order",
    type=click.IntRange(1, 2),
    help="With --train: 2 for second derivatives; the net gives its gradients then.",
)
@click.option(
    "--recompute",
    metavar="WHAT",
    help="With --train: what backward computes again instead of reading it from the tape: auto,"
    " none, all, or blobs' names with commas between them; auto without it.",
)
@click.option(
    "--outputs-with-grads",
    metavar="BLOB,...",
    help="With --train: the outputs that a loss depends on; all without it.",
)
@click.option(
    "--prepack",
    is_flag=True,
    help="With --train: NAME_pack_parameters packs weights, once for several calls.",
)
@MEMORY_BUDGET
@click.option(
    "--tune",
    is_flag=True,
    help="Measure a few settings of the code generator on this machine, and take the fastest.",
)
@click.option("--plan-for", metavar="T,N", help="Sizes for budget and tuning, or T=100,N=4.")
def compile(
    net: NetFile,
    init_net: NetFile | None,
    init: NetFile | None,
    out: Path | None,
    products: str | None,
    wheel_version: str | None,
    emit: str | None,
    verbose: bool,
    outputs_with_grads: str | None,
    **options: Any,
) -> None:
    """Compile NET to a shared library, a C header and a Python module."""
    from rnncc.commands.compile.forms import tell, write_form

    asked = _words(products)
    _check_together(emit, asked, wheel_version, options)
    init = only_init(init_net, init)
    if outputs_with_grads is not None and not _words(outputs_with_grads):
        raise CompileError("--outputs-with-grads", "names none", "leave it away for all outputs")
    options["outputs_with_grads"] = _words(outputs_with_grads) or None
    if emit in (*TEXTS, "obj"):
        write_form(net, init, out, emit, _chosen(net, options), verbose)
        return
    if str(out) == "-":
        raise CompileError(
            "--out", "- is standard output, and several files are written", "a folder"
        )
    before, started = time.process_time(), time.perf_counter()
    from rnncc.commands.tables import working
    from rnncc.driver import compiling
    from rnncc.driver.trace import show, timed

    imported = time.perf_counter()
    chosen = _chosen(net, options)
    row = targets.row_of(chosen.target)
    if emit and emit not in row.products:
        what = f"the target has no {emit}, a library for Linux"
        raise CompileError("--emit", what, f"it makes {', '.join(row.products)}")
    words = ["so"] if emit else None if products is None else asked
    kinds = check_kinds(words, chosen.name, row.products, row.by_default)
    if chosen.time_passes:
        show("start", before)  # Python itself and the command line
        show("imports", imported - started)
    with working(f"compiling {net}"), noted() as read:
        compiled = compiling.compile_object(net, init, chosen, lambda: prepare(kinds))
        with timed(chosen.time_passes, "write"):
            written = write_products(
                compiled, out or Path(), kinds, wheel_version or DEFAULT_VERSION, read
            )
    if chosen.time_passes:
        show("total", before + time.perf_counter() - started)
    if verbose or sys.stderr.isatty():
        tell(compiled, written, chosen, time.perf_counter() - started)


def _check_together(
    emit: str | None, products: list[str], wheel_version: str | None, options: dict[str, Any]
) -> None:
    """Raise `CompileError` for an option that would do nothing without another, or beside one."""
    if options["stop_after"] and emit not in ("rnn", "kern"):
        raise CompileError("--stop-after", "goes with --emit rnn or --emit kern")
    if emit and products:
        raise CompileError("--products", "goes without --emit, which writes one form")
    if options["tune"] and emit in ("rnn", "kern"):
        raise CompileError("--tune", f"goes without --emit {emit}, which no setting changes")
    check_wheel(wheel_version, products)


def _chosen(net: NetFile, options: dict[str, Any]) -> Options:
    chosen = options_of(net, options)
    check_plan_for(chosen)
    return chosen


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in (text or "").split(",") if word.strip()]
