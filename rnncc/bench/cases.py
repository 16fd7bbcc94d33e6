"""What is timed: one cell at one size a case, and the named suites of cases."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any, Literal

from rnncc.errors import CompileError
from rnncc.sizes import BATCH, TIME

Mode = Literal["run", "train", "step"]
NET = "net"
"""The cell of a case that is a net from a file."""
ENCODED = 32
"""Rows of the sequence that a decoder attends to."""
WORDS = {"run": "", "train": " forward and backward", "step": " one step"}
TITLES = {
    **{"lstm": "LSTM", "gru": "GRU", "milstm": "MI-LSTM", "layernorm_lstm": "layer-norm LSTM"},
    **{"peephole_lstm": "peephole LSTM", "attention_lstm": "attention LSTM"},
}


@dataclass(frozen=True)
class Case:
    """One thing to time.

    Attributes:
        cell: a name that `rnncc.bench.nets` knows, or `net`.
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
        return f"{TITLES[self.cell]} {self.units}{batch}{how}{ragged}"

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


STANDARD = ("lstm", "gru")
CUSTOM = ("milstm", "layernorm_lstm", "peephole_lstm", "attention_lstm")


def _cases(
    cells: tuple[str, ...],
    units: tuple[int, ...],
    batches: tuple[int, ...],
    steps: tuple[int, ...],
    mode: Mode = "run",
) -> list[Case]:
    every = product(cells, units, batches, steps)
    return [Case(cell, h, n, t, mode) for cell, h, n, t in every]


def _standard() -> list[Case]:
    """Issue: sequences of one, and batches."""
    single = _cases(STANDARD, (32, 64, 128, 256, 512, 1024), (1,), (100,))
    return single + _cases(STANDARD, (256, 512, 1024), (16, 32, 64), (50,))


def _batches() -> list[Case]:
    """Few sequences at once: tiles of rows with a remainder."""
    return _cases(STANDARD, (256, 400), (2, 3, 5, 7, 8, 12, 16), (50,))


def _custom() -> list[Case]:
    return _cases(CUSTOM, (128,), (1,), (100,)) + _cases(CUSTOM, (256,), (32,), (50,))


def _training() -> list[Case]:
    cases = _cases(STANDARD, (128, 512), (1,), (100,), "train")
    cases += _cases(STANDARD, (256, 512), (32, 64), (50,), "train")
    own = ("milstm", "layernorm_lstm", "peephole_lstm")
    return [*cases, *_cases(own, (128,), (1,), (100,), "train"), *_batched_custom(own)]


def _overview() -> list[Case]:
    """A few of all kinds."""
    single = _cases(("lstm",), (64, 256), (1,), (100,)) + _cases(("gru",), (128,), (1,), (100,))
    batched = _cases(STANDARD, (256,), (32,), (50,))
    own = _cases(("milstm", "layernorm_lstm"), (128,), (1,), (100,))
    trained = _cases(("lstm", "milstm"), (256,), (32,), (50,), "train")
    return [*single, *batched, *own, *trained]


def _batched_custom(cells: tuple[str, ...]) -> list[Case]:
    return _cases(cells, (256,), (32,), (50,), "train")


def _ragged() -> list[Case]:
    cases = _cases(STANDARD, (256,), (32,), (50, 100)) + _cases(STANDARD, (256,), (1,), (100,))
    return [replace(case, lengths=True, ragged=True) for case in cases]


def _deepbench() -> list[Case]:
    """Baidu's DeepBench, inference on servers: 15 LSTMs and 54 GRUs."""
    batches = (1, 2, 4)
    cases = _cases(("lstm",), (512, 1024, 2048), batches, (25,))
    cases += _cases(("lstm",), (1536,), batches, (50,))
    cases += _cases(("lstm",), (256,), batches, (150,))
    cases += _cases(("gru",), (2816, 2048, 1536, 2560), batches, (1500, 750, 375, 187))
    cases += _cases(("gru",), (512,), batches, (1,))
    return cases + _cases(("gru",), (1024,), batches, (1500,))


SUITES = {
    "overview": ("a few cells of all kinds, alone, in batches and trained", _overview),
    "standard": ("LSTM and GRU over sequences, alone and in batches", _standard),
    "batches": ("LSTM and GRU over 2 to 16 sequences", _batches),
    "streaming": (
        "one step of one sequence, called from C",
        lambda: _cases(STANDARD, (32, 64, 128, 256), (1,), (1,), "step"),
    ),
    "custom": ("cells that frameworks have no operator for", _custom),
    "training": ("forward and backward with all gradients", _training),
    "ragged": ("sequences whose lengths are uniform in 1..T", _ragged),
    "deepbench-server": ("the RNN kernels of DeepBench's inference servers", _deepbench),
    "rtneural": (
        "the sizes of RTNeural-compare, a step a sample",
        lambda: _cases(STANDARD, (4, 8, 16, 32, 64), (1,), (1,), "step"),
    ),
}


def cases_of(suite: str, only: str = "") -> list[Case]:
    """The cases of a suite whose names have all words of `only` in them.

    Raises:
        CompileError: there is none.
    """
    cases = SUITES[suite][1]()
    words = only.split()
    matching = [case for case in cases if all(word in case.name.split() for word in words)]
    if not matching:
        hint = "such as " + "; ".join(case.name for case in cases[:3])
        raise CompileError("--only", f"no case of {suite} has {only!r} in its name", hint)
    return matching
