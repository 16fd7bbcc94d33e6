"""What is timed: a net from a file, or a cell of the repository's suites, at given sizes."""

from __future__ import annotations

import json
from dataclasses import asdict, field
from typing import Any, Literal

from rnncc.records import record
from rnncc.sizes import BATCH, TIME

Mode = Literal["run", "train", "step"]
NET = "net"
"""The cell of a case that is a net from a file."""
ENCODED = 32
"""Rows of the sequence that a decoder attends to."""
WORDS = {"run": "", "train": " forward and backward", "step": " one step"}


@record
class Case:
    """One thing to time.

    Attributes:
        cell: one of those that `benchmarks.cells` builds, or `net`.
        called: the cell, as pictures name it.
        units: H, and the inputs D.
        batch, steps: N and T.
        mode: whole sequences, those with gradients, or one step of a stream.
        net, init, sizes, seed: of a net from files: paths, a value for each size, of random fills.
        ragged: lengths are uniform in 1..T, not all T.
        lengths: whether a cell's sequences have lengths.
        options: of a net from files: further options of `rnncc.compile`, as JSON.
    """

    cell: str
    units: int = 0
    batch: int = 1
    steps: int = 1
    mode: Mode = "run"
    net: str = ""
    init: str | None = None
    sizes: tuple[tuple[str, int], ...] = ()
    seed: int = 0
    ragged: bool = False
    lengths: bool = False
    options: str = "{}"
    called: str = field(default="", compare=False)

    @property
    def compile_options(self) -> dict[str, Any]:
        """The options with which the net is compiled."""
        return {"seed": self.seed, **json.loads(self.options)}

    @property
    def name(self) -> str:
        """Such as `lstm H=128 B=1 T=100`."""
        if self.cell == NET:
            sizes = " ".join(f"{name}={value}" for name, value in self.sizes)
            label = f"{self.net} {sizes}".rstrip() + WORDS[self.mode]
            return f"{label} ragged" if self.ragged else label
        size = f"{self.cell} H={self.units} B={self.batch}"
        if self.mode == "step":
            return size + WORDS["step"]
        lengths = " ragged" if self.ragged else " lengths" if self.lengths else ""
        return f"{size} T={self.steps}{self._training}{lengths}"

    @property
    def title(self) -> str:
        """As a picture says it: `LSTM 128, batch 32, training`."""
        if self.cell == NET:
            return self.name.removeprefix(self.net.rpartition("/")[0] + "/")
        batch = f", batch {self.batch}" if self.batch > 1 else ""
        how = {"run": "", "train": ", training", "step": ", a step"}[self.mode]
        ragged = ", ragged" if self.ragged else ""
        return f"{self.called or self.cell} {self.units}{batch}{how}{ragged}"

    @property
    def _training(self) -> str:
        return WORDS["train"] if self.mode == "train" else ""

    @property
    def dims(self) -> dict[str, int]:
        """A value for every size of the net."""
        if self.cell == NET:
            return dict(self.sizes)
        return {TIME: self.steps, BATCH: self.batch, "S": ENCODED}

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(fields: dict[str, Any]) -> Case:
        """The inverse of `to_dict`, after a way through JSON."""
        values: dict[str, Any] = {**fields, "sizes": tuple((n, v) for n, v in fields["sizes"])}
        return Case(**values)
