"""The suites of `rnncc bench`: cells at sizes, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product

from rnncc.bench.cases import Case, Mode

STANDARD = ("lstm", "gru")
CUSTOM = ("milstm", "layernorm_lstm", "peephole_lstm", "attention_lstm")
TITLES = {
    **{"lstm": "LSTM", "gru": "GRU", "milstm": "MI-LSTM", "layernorm_lstm": "layer-norm LSTM"},
    **{"peephole_lstm": "peephole LSTM", "attention_lstm": "attention LSTM"},
}


def _cases(
    cells: tuple[str, ...],
    units: tuple[int, ...],
    batches: tuple[int, ...],
    steps: tuple[int, ...],
    mode: Mode = "run",
) -> list[Case]:
    every = product(cells, units, batches, steps)
    return [Case(cell, h, n, t, mode, called=TITLES[cell]) for cell, h, n, t in every]


def _standard() -> list[Case]:
    """Sequences alone, and in batches."""
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
    """A few of all kinds, for a picture."""
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


SUITES: Mapping[str, tuple[str, Callable[[], list[Case]]]] = {
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
