"""What `rnncc bench` does: choose cases, time them, measure the machine."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rnncc_runtime import describe

from rnncc.bench import contenders as who
from rnncc.bench import repository
from rnncc.bench.cases import NET, Case
from rnncc.bench.chart import draw
from rnncc.bench.contenders import Contender
from rnncc.bench.explain import Offer
from rnncc.bench.explain import explain as in_words
from rnncc.bench.machine import CACHES, Ceilings, Measuring, cpu_name, measure
from rnncc.bench.roofline import bounds, least, library_of
from rnncc.bench.running import CaseResult, Effort, run
from rnncc.codegen.cpu.library.entries import threading_cost_of
from rnncc.codegen.cpu.machine import measured
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.commands import libraries
from rnncc.commands.bench.reports import print_ceilings, print_json, print_markdown, print_results
from rnncc.commands.options import options_of
from rnncc.commands.tables import print_table, printable
from rnncc.errors import CompileError
from rnncc.kern.library import Library
from rnncc.options import PRECISIONS
from rnncc.own_files import cache_folder
from rnncc.records import record
from rnncc.sizes import TIME, number_of, parse_sizes
from rnncc.stages.reading import import_source
from rnncc.writing import write_file

USUAL = {TIME: 100}
"""Sizes that are not given; others are 1."""
Progress = Callable[[str], object]


@record
class Chosen:
    """What the command line says of a net or a suite."""

    init: Path | None = None
    seed: int = 0
    at: str | None = None
    train: bool = False
    ragged: bool = False
    only: str = ""
    peers: str | None = None
    precision: str = "fp32"
    threads: str = "1"
    device: str = "cpu"
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


def bench(
    what: str,
    chosen: Chosen,
    effort: Effort,
    roofline: bool,
    form: str | None,
    svg: Path | None,
) -> None:
    """Time a net or a suite, and print it.

    Raises:
        CompileError: there is no such net or suite, or the net cannot be compiled.
    """
    suites = repository.suites()
    if what not in suites and not Path(what).is_file():
        hint = f"suites are {', '.join(suites)}" if suites else repository.HINT
        raise CompileError(what, "no such file, nor a suite", hint)
    with _progress() as report:
        several = thread_counts(chosen.threads, len(effort.cores))
        cases, each = (_suite if what in suites else _net)(what, chosen)
        if roofline and what not in suites and libraries.library_in(Path(what)):
            raise CompileError("--roofline", "counts the work of a net, and a library has none")
        contenders = [one.on(threads) for threads in several for one in each]
        how, cores = Measuring(report=report), effort.cores
        ceilings = [measure(cores[:count], how) for count in several] if roofline else []
        results: list[CaseResult] = []
        for result in run(cases, contenders, effort, report):
            for one in ceilings:
                add_least(result, one, report)
            results.append(result)
    if svg is not None:
        write_file(svg, draw(results, *_headings(what, effort, several)))
    if form == "json":
        print_json(results, effort, ceilings)
    elif form == "markdown":
        print_markdown(results)
    else:
        print_results(results, ceilings)


def _suite(name: str, chosen: Chosen) -> tuple[list[Case], list[Contender]]:
    """The cases of a suite, and all that compute each on one thread: rnncc's ways, then peers."""
    _no_net_options(chosen)
    cases = repository.cases_of(name, chosen.only)
    own = who.own_contenders(chosen.precision, chosen.device)
    precisions = [one.precision for one in own]
    peers = repository.chosen_peers(chosen.peers, precisions, chosen.device)
    return cases, [*_with_padding(own, cases, chosen.device), *peers]


def _net(path: str, chosen: Chosen) -> tuple[list[Case], list[Contender]]:
    """As `_suite`, of a net, which has no peers."""
    _no_suite_options(chosen)
    cases = [net_case(path, chosen)]
    own = who.own_contenders(chosen.precision, chosen.device)
    return cases, _with_padding(own, cases, chosen.device)


def _with_padding(own: list[Contender], cases: Sequence[Case], device: str) -> list[Contender]:
    """Where lengths differ, each way also as if all were T, on CPUs."""
    padded = device == "cpu" and any(case.ragged for case in cases)
    return [*own, *who.padded(own)] if padded else own


def _headings(what: str, effort: Effort, threads: Sequence[int]) -> tuple[str, str]:
    """The title of a picture, and how its figures were measured."""
    suites = repository.suites()
    title = suites[what][0] if what in suites else Path(what).name
    cores = "one core" if max(threads) == 1 else f"{max(threads)} cores"
    conditions = (
        f"{cores} of {cpu_name()}, medians of {effort.rounds} rounds in which all took turns"
    )
    return title[:1].upper() + title[1:], conditions


def _no_net_options(chosen: Chosen) -> None:
    has_options = any(chosen.options.values())
    if has_options or chosen.init or chosen.at or chosen.train or chosen.seed or chosen.ragged:
        what = "INIT, --seed, --shape, --state, --bind, --for, --train and --ragged go with a net"
        raise CompileError("bench", what)


def _no_suite_options(chosen: Chosen) -> None:
    if chosen.only or chosen.peers:
        raise CompileError("bench", "--only and --peers go with a suite, not a net")


def net_case(path: str, chosen: Chosen) -> Case:
    """A net or a library from a file, at the sizes given.

    Raises:
        CompileError: the net cannot be compiled, or has no such size.
    """
    mode = "train" if chosen.train else "run"
    init = None if chosen.init is None else str(chosen.init)
    case = Case(NET, mode=mode, net=path, init=init, seed=chosen.seed, ragged=chosen.ragged)
    if (library := libraries.library_in(Path(path))) is not None:
        return _of_library(library, case, chosen)
    options = options_of(Path(path), {"seed": chosen.seed, **chosen.options})
    import_options = {"shapes": options.shapes, "bind": options.bind, "state": options.state}
    case = replace(case, options=json.dumps({k: dict(v) for k, v in import_options.items() if v}))
    return _sized(case, import_source(path, init, options).open_symbols, chosen)


def _of_library(path: Path, case: Case, chosen: Chosen) -> Case:
    """A library as a case: trained if it was compiled so.

    Raises:
        CompileError: something is chosen that needs the net.
        LoadError: rnncc did not make it.
    """
    metadata = describe(path)
    trains = "trained" in metadata
    precision = chosen.precision if chosen.precision != "fp32" else None
    several = chosen.threads != "1" and "threads" not in metadata.get("sizes", ())
    requested = {"init": chosen.init, "precision": precision, "seed": chosen.seed, **chosen.options}
    requested |= {"train": chosen.train and not trains, "threads": several}
    libraries.refuse(path, requested)
    case = replace(case, mode="train" if trains else "run")
    return _sized(case, libraries.symbols_of(metadata), chosen)


def _sized(case: Case, symbols: Sequence[str], chosen: Chosen) -> Case:
    """With a value for every size that the inputs have."""
    sizes = parse_sizes(chosen.at, symbols, "--for")
    return replace(case, sizes=tuple((s, sizes.get(s, USUAL.get(s, 1))) for s in symbols))


def add_least(result: CaseResult, ceilings: Ceilings, report: Progress) -> None:
    """The least times of what rnncc computed on so many cores.

    None for lengths that are drawn: work is counted with all rows.
    """
    if result.case.ragged:
        return
    for name in result.own:
        contender = result.contenders[name]
        if contender.threads == ceilings.cores:
            report(f"{result.case.name}: what {name} has to do")
            library = library_of(result.case, contender.precision)
            result.least[name] = least(bounds(library, result.case, ceilings))


def thread_counts(text: str, most: int) -> list[int]:
    """The numbers of `1,2`.

    Raises:
        CompileError: one is no number from 1 to as many as there are cores.
    """
    counts = set[int]()
    for word in text.split(","):
        count = number_of(word.strip())
        if count is None or not 1 <= count <= most:
            what = f"{word.strip()[:40]!r} is not a number from 1 to {most}"
            raise CompileError("--threads", what, "a thread has a core to itself")
        counts.add(count)
    return sorted(counts)


def explain(what: str, chosen: Chosen, effort: Effort, as_json: bool) -> None:
    """Say what bounds a net.

    Raises:
        CompileError: there is no such net, or it cannot be compiled.
    """
    if not Path(what).is_file():
        raise CompileError(what, "no such file: --explain takes a net")
    if libraries.library_in(Path(what)):
        raise CompileError("--explain", "counts the work of a net, and a library has none")
    with _progress() as report:
        case = net_case(what, chosen)
        ceilings = measure(effort.cores[:1], Measuring(report=report))
        (result,) = run([case], who.own_contenders("fp32"), effort, report)
        library = library_of(case)
        phase_bounds = bounds(library, case, ceilings)
    seconds = result.times["rnncc"].median
    lines = in_words(case.name, phase_bounds, ceilings, seconds, offer(library, case))
    if as_json:
        parts = {"seconds": seconds, "least": least(phase_bounds), "ceilings": ceilings.to_dict()}
        click.echo(json.dumps({**parts, "words": lines}, indent=2))
    else:
        print("\n".join(printable(line) for line in lines))


def offer(library: Library, case: Case) -> Offer:
    """What this compiler offers beside fp32 on one thread."""
    team = threading_cost_of(library, resolve_target())
    return Offer(PRECISIONS, team.threads(case.dims))


def without_net(cores: Sequence[int], roofline: bool, write: bool, as_json: bool) -> None:
    """The machine's ceilings, kept where `write` says so; or the suites."""
    if roofline:
        folder = _folder_to_write_to() if write else None
        sets = [cores[:1], cores] if len(cores) > 1 else [cores]
        with _progress() as report:
            several = [measure(some, Measuring(report=report)) for some in sets]
        if as_json:
            click.echo(json.dumps([ceilings.to_dict() for ceilings in several], indent=2))
        else:
            print_ceilings(several)
        if folder is not None:
            click.echo(f"wrote {_keep(several[0], folder)}", err=True)
        return
    listed = {name: (report, make()) for name, (report, make) in repository.suites().items()}
    if as_json:
        suites = {name: [case.name for case in cases] for name, (_, cases) in listed.items()}
        click.echo(json.dumps({"suites": suites}, indent=2))
    else:
        rows = [(name, len(cases), report) for name, (report, cases) in listed.items()]
        if not rows:
            click.echo(repository.HINT)
            return
        print_table("", ["suite", "cases", "what"], rows)
        here = [peer.name for peer in repository.peers() if peer.installed and peer.device == "cpu"]
        click.echo(f"peers installed: {', '.join(here) or 'none'}")


def _folder_to_write_to() -> Path:
    folder = cache_folder()
    if folder is None:
        what = "the cache's folder is switched off, or others may write to it"
        raise CompileError("--write", what, "RNNCC_CACHE, RNNCC_CACHE_DIR: docs/packaging.md")
    return folder


def _keep(ceilings: Ceilings, folder: Path) -> Path:
    """Write what code for this machine is sized by."""
    caches = ceilings.caches
    l1 = caches.get("L1", CACHES["L1"])
    l2 = caches.get("L2", CACHES["L2"])
    return measured.write(folder, resolve_target().cpu, l1, l2, ceilings.quick_bf16)


@contextmanager
def _progress() -> Generator[Progress]:
    """What is being done, on a terminal only."""
    if not sys.stderr.isatty():
        yield lambda what: None
        return
    with Console(stderr=True).status("") as status:
        yield lambda what: status.update(printable(what))
