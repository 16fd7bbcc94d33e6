"""rnncc on an NVIDIA GPU beside its peers: `python -m benchmarks.gpu`, under 8 minutes

All that issue 17 asks to be measured: the bits of the golden nets, compute-sanitizer, cold load,
LSTM and GRU beside cuDNN, cells of one's own beside PyTorch, torch.compile and JAX. Writes a table
as Markdown, and all figures as JSON. Sections that are named with --only run alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.cuda.sections import SECTIONS, TIMED, Prepared, Row, Section, run_section
from benchmarks.cuda.table import markdown

SECONDS = 460.0
WAIT, LAST = 45, 30
"""Seconds that compilers get before the first section that is timed; and that are kept to time what
they made."""
PEERS = ("torch", "jax", "nvidia-cudnn-cu13")


def main() -> None:
    """Measure, print as it goes, write the table after each section."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="of " + ",".join(SECTIONS))
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for all")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "build")))
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(SECTIONS)
    if unknown := [name for name in names if name not in SECTIONS]:
        parser.error(f"no section is named {', '.join(unknown)}: {', '.join(SECTIONS)}")
    options.out.mkdir(parents=True, exist_ok=True)
    Run(options.seconds, options.out).sections([SECTIONS[n] for n in SECTIONS if n in names])


class Run:
    """One run: its results so far."""

    def __init__(self, seconds: float, out: Path) -> None:
        self._begun, self._seconds, self._out = time.monotonic(), seconds, out
        self._rows: dict[str, list[Row]] = {}
        self._device = device()

    def sections(self, sections: list[Section]) -> None:
        """One after another; the compiled peers prepare themselves beside the first ones."""
        compiled = SECTIONS["compiled"]
        prepared = Prepared(compiled) if compiled in sections else None
        waited = False
        try:
            for section in sections:
                if prepared is not None and section.name in TIMED and not waited:
                    waited = True
                    prepared.wait(min(self._end(), time.monotonic() + WAIT), self.report)
                self._section(section, prepared)
        finally:
            if prepared is not None:
                prepared.end()
        print(markdown(self._results()))

    def _section(self, section: Section, prepared: Prepared | None) -> None:
        begun = time.monotonic()
        deadline = min(self._end(), begun + section.seconds)
        self.report(f"== {section.title}, at most {deadline - begun:.0f} s")
        if section.name == "compiled" and prepared is not None:
            prepared.wait(deadline - LAST, self.report)
            rows = prepared.run(deadline, self.report)
        elif section.name in TIMED and prepared is not None:
            with prepared.stopped():
                rows = run_section(section, deadline, self.report)
        else:
            rows = run_section(section, deadline, self.report)
        self._rows[section.name] = rows
        self.report(f"== {section.name}: {time.monotonic() - begun:.0f} s")
        self.write()

    def _end(self) -> float:
        return self._begun + self._seconds

    def report(self, text: str) -> None:
        """What happens, with the second at which it does."""
        print(f"[{time.monotonic() - self._begun:5.0f}] {text}", flush=True)

    def _results(self) -> dict[str, Any]:
        return {
            "device": self._device,
            "date": time.strftime("%Y-%m-%d"),
            "versions": versions(),
            "seconds": time.monotonic() - self._begun,
            "rows": self._rows,
        }

    def write(self) -> None:
        """All that is known by now."""
        results = self._results()
        (self._out / "gpu.json").write_text(json.dumps(results, indent=1))
        (self._out / "gpu.md").write_text(markdown(results))


def device() -> str:
    """Its name and driver, as nvidia-smi tells them."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        print("nvidia-smi tells of no device", file=sys.stderr)
        return "no device"
    name, _, driver = done.stdout.splitlines()[0].partition(", ")
    return f"{name}, driver {driver}"


def versions() -> dict[str, str]:
    """Of what is installed."""
    found: dict[str, str] = {"Python": sys.version.split()[0]}
    for name in PEERS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    main()
