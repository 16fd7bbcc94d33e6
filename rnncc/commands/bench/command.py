"""`rnncc bench`: a thin command over `rnncc.bench`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from click.core import ParameterSource

from rnncc.commands.help import example
from rnncc.commands.options import BIND, JSON, MAX_INPUT, PATH, SHAPE, STATE, FiniteRange, only_init
from rnncc.errors import CompileError

LISTING = frozenset({"as_json", "max_input"})
CEILINGS = LISTING | {"roofline", "write", "core"}
EXPLAINED = LISTING | frozenset(
    "what init_net init shapes state bind seed at train rounds seconds core explain".split()
)
"""Parameters that do something: to list the suites, to measure the machine, to explain a net."""


@click.command(
    epilog=example("rnncc bench examples/lstm.pbtxt examples/lstm_init.pbtxt --for 20,1 --rounds 3")
)
@click.argument("what", metavar="[NET|LIBRARY|SUITE]", required=False)
@click.argument("init_net", metavar="[INIT]", required=False, type=PATH)
@click.option("--init", type=PATH, help="The net of parameters.")
@SHAPE
@STATE
@BIND
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Of random fills.")
@click.option("--for", "at", metavar="T,N", help="A net's sizes, or T=100,N=1; 100 and 1 if not.")
@click.option("--train", is_flag=True, help="Of a net: time forward and backward.")
@click.option("--ragged", is_flag=True, help="Of a net: lengths are uniform in 1..T, not all T.")
@click.option("--only", default="", metavar="WORDS", help="Of a suite: such as 'lstm H=128'.")
@click.option(
    "--peers",
    metavar="NAME,...",
    help="all, none, or names; all that are installed and quick to prepare without it.",
)
@click.option(
    "--precision",
    default="fp32",
    metavar="KIND,...",
    help="Of rnncc's weights: fp32, bf16, int8, or all; fp32 without it.",
)
@click.option("--rounds", type=click.IntRange(min=1), default=9, help="In which all take turns.")
@click.option("--seconds", type=FiniteRange(min=0), default=0.1, help="That one takes in a round.")
@click.option(
    "--core",
    type=int,
    help="What all are pinned to, or the first of several; the last without it.",
)
@click.option("--threads", default="1", metavar="K,...", help="Threads that compute a call.")
@click.option(
    "--device",
    type=click.Choice(["cpu", "cuda"]),
    default="cpu",
    help="What computes: an NVIDIA GPU is cuda, beside the peers that use it.",
)
@click.option("--roofline", is_flag=True, help="Measure what the machine can do, and compare.")
@click.option(
    "--write",
    is_flag=True,
    help="With --roofline alone: code for this machine is sized by what was measured from now on.",
)
@click.option("--explain", is_flag=True, help="Say what bounds NET, and what would help.")
@MAX_INPUT
@JSON
@click.option("--markdown", is_flag=True, help="Of a net or suite: print a table in Markdown.")
@click.option("--svg", type=PATH, help="A picture: times relative to rnncc's.")
def bench(
    what: str | None,
    init_net: Path | None,
    init: Path | None,
    shapes: Sequence[str],
    state: Sequence[str],
    bind: Sequence[str],
    seed: int,
    at: str | None,
    train: bool,
    ragged: bool,
    only: str,
    peers: str | None,
    precision: str,
    rounds: int,
    seconds: float,
    core: int | None,
    threads: str,
    device: str,
    roofline: bool,
    write: bool,
    explain: bool,
    as_json: bool,
    markdown: bool,
    svg: Path | None,
) -> None:
    """Time a net, or a suite of nets beside the peers that are installed.

    Without NET or SUITE the suites are listed, or with --roofline the machine's ceilings measured.
    All run on the same cores, in turn; times are medians, with the quartiles' distance.
    """
    from rnncc.bench.running import Effort, cores
    from rnncc.commands.bench import running

    effort = Effort(cores(core), rounds, seconds)
    if markdown and (as_json or explain or roofline):
        raise CompileError("--markdown", "goes without --json, --explain and --roofline")
    if what is None:
        if write and not roofline:
            raise CompileError("--write", "goes with --roofline")
        _only("goes with a net or a suite", CEILINGS if roofline else LISTING)
        running.without_net(effort.cores, roofline, write, as_json)
        return
    if write:
        raise CompileError("--write", "goes with --roofline alone, without a net or a suite")
    if device != "cpu" and (roofline or explain or threads != "1"):
        what = "--roofline, --explain and --threads are about the CPU"
        raise CompileError("--device", what)
    init_path = only_init(init_net, init)
    kinds = only, peers, precision, threads, device
    options = {"shapes": shapes, "state": state, "bind": bind}
    chosen = running.Chosen(init_path, seed, at, train, ragged, *kinds, options)
    if explain:
        _only("goes without --explain, which takes a net, its sizes and --train", EXPLAINED)
        running.explain(what, chosen, effort, as_json)
        return
    form = "json" if as_json else "markdown" if markdown else None
    running.bench(what, chosen, effort, roofline, form, svg)


def _only(why: str, names: frozenset[str]) -> None:
    """Refuse an option of this command's that is none of the named, and would do nothing."""
    context = click.get_current_context()
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is ParameterSource.COMMANDLINE and parameter.name not in names:
            raise CompileError(parameter.opts[0], why)
