"""Mutates files of `torch.export` and imports what comes out: only success or a CompileError may
follow.

    python -m tests.fuzz.fuzz_torch --count 2000

The programs are a recurrent layer beside views, a buffer that changes and a choice, and a loop of
`rnncc.torch.scan` before convolution and pooling.
"""

from __future__ import annotations

import io
import json
import random
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any

import torch
from torch import nn
from torch.export import Dim

import rnncc.torch as rt
from rnncc.frontends.torch.programs.files import import_file
from rnncc.ir.program import Program
from tests.fuzz.harness import FLOATS, VALUES, Report, attempts, main, mutate_bytes

OTHERS = [None, "", "x", [], {}, True, 10**30, *VALUES, *FLOATS]
ABSENT = object()


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.out = nn.LSTM(3, 4), nn.Linear(4, 2)
        self.register_buffer("calls", torch.zeros(2))

    def forward(self, x: Any, mask: Any) -> Any:
        ys, state = self.layer(x)
        z = self.out(ys[:, :, 1:].repeat(1, 1, 2)[..., :4].relu())
        self.calls += 1
        return torch.where(mask, z.softmax(-1), z.view(x.shape[0], -1, 2)), state[0]


class Looped(nn.Module):
    def forward(self, x: Any) -> Any:
        def step(row: Any, h: Any) -> Any:
            h = torch.tanh(row.cumsum(-1) + h)
            return h, h

        ys = rt.scan(step, x, x.new_zeros(x.shape[1], 3))[0]
        if x.shape[1] % 2 == 0 or x.shape[1] // 3 > 4:  # a guard
            ys = ys * 2
        return nn.functional.max_pool1d(
            nn.functional.conv1d(ys.permute(1, 2, 0), torch.ones(2, 3, 2), stride=2), 2
        )


@cache
def files() -> list[bytes]:
    """What is damaged."""
    free = {0: Dim("T"), 1: Dim("N")}
    mask = torch.ones(6, 2, 2, dtype=torch.bool)
    programs = [
        rt.export(Layers(), (torch.zeros(6, 2, 3), mask), dynamic_shapes=(free, free)),
        torch.export.export(Layers().eval(), (torch.zeros(6, 2, 3), mask)),
        rt.export(Looped(), (torch.zeros(8, 2, 3),), dynamic_shapes=({1: Dim.AUTO},)),
    ]
    return list(map(_saved, programs))


def _saved(program: Any) -> bytes:
    file = io.BytesIO()
    torch.export.save(program, file)
    return file.getvalue()


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """All values in a tree, with the keys that lead there."""
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in parts:
        yield (*path, key), part
        if isinstance(part, dict | list):
            yield from _places(part, (*path, key))


def _other(rng: random.Random, value: Any, values: Sequence[Any]) -> Any:
    """A value for the place of another one, often of its kind."""
    if isinstance(value, int) and rng.random() < 0.5:
        return value + rng.choice([-2, -1, 1, 2, 1000, 1 << 40])
    if isinstance(value, str) and rng.random() < 0.5:
        return rng.choice([v for v in values if isinstance(v, str)])
    return rng.choice([*OTHERS, ABSENT, rng.choice(values)])


def change_value(rng: random.Random, tree: Any) -> None:
    """Another value somewhere in a tree, or none."""
    places = list(_places(tree))
    (*path, last), value = rng.choice(places)
    owner = tree
    for key in path:
        owner = owner[key]
    other = _other(rng, value, [v for _, v in places])
    if other is ABSENT:
        del owner[last]
    else:
        owner[last] = json.loads(json.dumps(other))  # a copy: a tree may not hold itself


def mutant(rng: random.Random, data: bytes) -> bytes:
    """A damaged file."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    if rng.random() < 0.75:
        [name] = (name for name in parts if "/models/" in name and name.endswith(".json"))
        tree = json.loads(parts[name])
        for _ in range(rng.choice([1, 1, 2])):
            change_value(rng, tree)
        parts[name] = json.dumps(tree).encode()
    else:
        name = rng.choice([name for name, content in parts.items() if content])
        parts[name] = mutate_bytes(rng, parts[name])
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


def run(count: int, seed: int = 0, progress: bool = False) -> Report:
    """Import `count` mutants."""
    cases = files()

    def draw(rng: random.Random) -> Callable[[], Program]:
        return partial(import_file, mutant(rng, rng.choice(cases)), "net", {})

    return attempts(count, seed, progress, draw)


if __name__ == "__main__":
    sys.exit(main(run, __doc__ or ""))
