"""docs/benchmarks.md knows every suite and every peer, and its commands are those there are."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from benchmarks.peers import PEERS
from benchmarks.suites import SUITES
from rnncc.commands.bench.command import bench

TEXT = (Path(__file__).parents[2] / "docs" / "benchmarks.md").read_text()


def test_tables() -> None:
    how = TEXT[: TEXT.index("## Figures")]
    firsts = re.findall(r"^\| (.+?) \|", how, re.MULTILINE)
    assert {name.strip("`") for name in firsts} - {"suite", "peer"} == {
        *SUITES,
        *(peer.name for peer in PEERS),
    }


def test_commands() -> None:
    lines = re.findall(r"^rnncc bench(.*?)(?:   .*)?$", TEXT, re.MULTILINE)
    assert len(lines) == 7
    for line in lines:
        bench.make_context("bench", shlex.split(line))
