"""Mutates nets that `--emit rnn` wrote and compiles what comes out: only code or a CompileError may
follow.

    python -m tests.fuzz.fuzz_mlir --count 20000

The texts are layers, a model with loops and one with lists, after several steps, and for training.
"""

from __future__ import annotations

import io
import random
import re
import sys
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from onnx import parser

from rnncc import cells, pipeline
from rnncc.driver import compiling
from rnncc.errors import CompileError
from rnncc.ir.program import Program
from rnncc.options import Options
from rnncc.sources import Content
from rnncc.stages import ir_text
from rnncc.stages.compilation import Compilation
from tests.fuzz.fuzz_onnx import LISTS, NESTED
from tests.fuzz.harness import VALUES, Report, attempts, main, mutate_bytes

Text = tuple[str, bytes | None]
"""A net in `rnn`, and the file of its parameters."""

_TOKEN = re.compile(r'"[^"\n]*"|%\w+|tensor<[^>\n]*>|-?\b\d+\b|\b(?:true|false|unit|[fi]\d+)\b')
SIZES = ['""', '"T"', '"N"', '"T - 1"', '"2*T"', '"T/2"', '"T*N*T"', '"max(T - 3, 0)"', '"-1"']
SIZES += ['"0"', '"9223372036854775808"', '"x y"', '"T/0"', '"grad:x"']
KINDS = ["f32", "f64", "i1", "i8", "i32", "i64", "bf16", "index"]
FLAGS = ["true", "false", "unit", "[]", '"x"', "3 : i64"]


def text_of(net: Any, **options: Any) -> Text:
    """The text of a net after a step, the last one if none is named, and its parameters."""
    written = compiling.emit(net, None, Options(name="net", **options), "rnn")
    assert isinstance(written.content, str)
    if not written.arrays:
        return written.content, None
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **written.arrays)
    return written.content, file.getvalue()


@cache
def texts() -> list[tuple[Text, bool]]:
    """What is damaged, and whether it is for training."""
    models = [parser.parse_model(text).SerializeToString() for text in (NESTED, LISTS)]
    nets = [make(3, 4) for make in (cells.lstm, cells.gru, cells.elman)]
    made = [(text_of(net, stop_after="read"), False) for net in (*nets, *models)]
    made += [(text_of(net), False) for net in (*nets, *models)]
    return made + [(text_of(net, train=True), True) for net in (*nets, models[0])]


def mutant(rng: random.Random, text: str) -> str:
    """A damaged text: of its lines, of its bytes, or with another word of the same kind."""
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        kind = rng.random()
        if kind < 0.1:
            text = mutate_bytes(rng, text.encode()).decode(errors="replace")
        elif kind < 0.2:
            lines = text.split("\n")
            line = lines.pop(rng.randrange(len(lines)))
            for _ in range(rng.randrange(3)):
                lines.insert(rng.randrange(len(lines) + 1), line)
            text = "\n".join(lines)
        elif words := list(_TOKEN.finditer(text)):
            word = rng.choice(words)
            other = _other(rng, word[0], [w[0] for w in words])
            text = text[: word.start()] + other + text[word.end() :]
    return text


def _other(rng: random.Random, word: str, words: list[str]) -> str:
    """Another word in its place, most often of its kind."""
    if re.fullmatch(r"-?\d+", word):
        near = int(word) + rng.choice([-2, -1, 1, 2, 1000])
        return str(rng.choice([near, near, rng.randrange(-3, 9), rng.choice(VALUES), 10**30]))
    if word.startswith('"rnn.'):
        return rng.choice([w for w in words if w.startswith('"rnn.')])
    if word[0] in '"%t' and word not in FLAGS:
        return rng.choice([*(w for w in words if w[0] == word[0]), *(SIZES * (word[0] == '"'))])
    return rng.choice(KINDS if word in KINDS else FLAGS)


def read(text: str, params: bytes | None) -> Program:
    """The program of a text that holds a net as it was read, or of one that was damaged."""
    c = Compilation(Options(name="net"), Content(text.encode(), "net.mlir"), _content(params))
    ir_text.read(c)
    if c.programs.keys() != {"net"}:
        raise CompileError("net.mlir", "holds more than a net")
    return c.programs["net"]


def compile_text(text: str, params: bytes | None, train: bool) -> Program:
    """Go all the way to LLVM's text; one of the programs on the way."""
    options = Options(name="net", target="x86_64-linux-gnu", cpu="x86-64-v3", train=train)
    c = Compilation(options, Content(text.encode(), "net.mlir"), _content(params))
    compiling.run_from_net(c, pipeline.LOWERING, pipeline.CODE[:2])
    return next(iter(c.programs.values()))


def _content(params: bytes | None) -> Content | None:
    return None if params is None else Content(params, "net.npz")


def run(count: int, seed: int = 0, progress: bool = False) -> Report:
    """Compile `count` mutants."""
    cases = texts()

    def draw(rng: random.Random) -> Callable[[], Program]:
        (text, params), train = rng.choice(cases)
        return partial(compile_text, mutant(rng, text), params, train)

    return attempts(count, seed, progress, draw)


if __name__ == "__main__":
    sys.exit(main(run, __doc__ or ""))
