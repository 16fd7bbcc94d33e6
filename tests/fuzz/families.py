"""Where cases come from: a family is a function from random numbers to a case."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from typing import Any

from rnncc.frontends.onnx.importer import import_model
from rnncc.netdef import NetDef, load
from tests.frontends.caffe2.control_reference import RandomNet
from tests.fuzz import fuzz_caffe2, fuzz_mlir, fuzz_onnx
from tests.fuzz.cases import Case
from tests.fuzz.family_contributed import contributed_model
from tests.fuzz.family_control import control_model
from tests.fuzz.family_conv import conv_model
from tests.fuzz.family_counted import counted_model
from tests.fuzz.family_indexing import indexing_model
from tests.fuzz.family_options import options_model
from tests.fuzz.family_quantised import quantised_model
from tests.fuzz.family_recurrent import recurrent_model
from tests.fuzz.hostile_operators import caffe2_operator, onnx_operator
from tests.fuzz.random_onnx import random_model
from tests.fuzz.rewriting import rewritten
from tests.golden import GOLDEN, arrays_of

MAX_BYTES = 20_000
"""Mutants of larger nets take too long to compile."""


def make_case(family: str, seed: int, index: int) -> Case:
    """The case of a family with a number; the same for the same arguments."""
    name = f"{family} {seed} {index}"
    return FAMILIES[family](random.Random(name), name)


def _onnx_random(rng: random.Random, name: str) -> Case:
    """A valid model of random nodes."""
    train = rng.random() < 0.25
    source = random_model(rng).SerializeToString()
    return Case(name, source, train=train, seed=rng.randrange(1 << 30))


def _of_family(make: Callable[[random.Random], Any]) -> Callable[[random.Random, str], Case]:
    """Valid models of one family of operators, in chains with others between."""

    def made(rng: random.Random, name: str) -> Case:
        train = rng.random() < 0.15
        source = make(rng).SerializeToString()
        return Case(name, source, train=train, seed=rng.randrange(1 << 30))

    return made


def _onnx_mutant(rng: random.Random, name: str) -> Case:
    """A damaged model: one of the standard's tests, one with loops and lists, or a random one."""
    model: Any = random_model(rng) if rng.random() < 0.5 else rng.choice(fuzz_onnx.models())
    source = fuzz_onnx.mutant(rng, model)
    return Case(name, source, train=rng.random() < 0.1, seed=rng.randrange(1 << 30))


def _onnx_rewritten(rng: random.Random, name: str) -> Case:
    """A model that is written in another way: one of the standard's tests, or a random one."""
    model: Any = random_model(rng) if rng.random() < 0.4 else rng.choice(fuzz_onnx.models())
    return Case(name, rewritten(rng, model), seed=rng.randrange(1 << 30))


@cache
def _nets() -> list[Any]:
    """Golden nets with their init nets; nets with control flow with the shapes of their inputs."""
    made: list[Any] = []
    for path in sorted(GOLDEN.glob("*/*/net.pb")):
        net, init = load(path), path.with_name("init.pb")
        shapes = {name: array.shape for name, array in arrays_of(path.parent, "in:").items()}
        if net.ByteSize() < MAX_BYTES:
            data = load(init).SerializeToString() if init.exists() else None
            made.append((net, data, shapes if path.parts[-3] == "control" else {}))
    return made


def _caffe2_mutant(rng: random.Random, name: str) -> Case:
    """A net with one thing changed in its message."""
    net, init, shapes = rng.choice(_nets())
    mutant = NetDef()
    mutant.CopyFrom(net)
    rng.choice(fuzz_caffe2.MUTATIONS)(rng, mutant)
    train = rng.random() < 0.2
    source = mutant.SerializeToString()
    return Case(name, source, init, shapes, train=train, seed=rng.randrange(1 << 30))


def _caffe2_control(rng: random.Random, name: str) -> Case:
    """A random net of Do, If and While."""
    source = RandomNet(rng.randrange(1 << 30)).make().SerializeToString()
    shapes = {"x": (3,), "w": (3,), "p0": (1,), "n": (1,)}
    train = rng.random() < 0.2
    return Case(name, source, shapes=shapes, train=train, seed=rng.randrange(1 << 30))


def _onnx_operator(rng: random.Random, name: str) -> Case:
    """One operator with arguments that nobody means, of which ONNX Runtime may crash."""
    return Case(name, onnx_operator(rng), oracle=False, seed=rng.randrange(1 << 30))


def _caffe2_operator(rng: random.Random, name: str) -> Case:
    """The same of Caffe2."""
    source, init, shapes = caffe2_operator(rng)
    data = source.SerializeToString(), init.SerializeToString()
    return Case(name, *data, shapes, seed=rng.randrange(1 << 30))


def _rnn_mutant(rng: random.Random, name: str) -> Case:
    """A random model as the text that `--emit rnn` writes, damaged."""
    program = import_model(random_model(rng).SerializeToString(), name="net")
    text, params = fuzz_mlir.text_of(program, stop_after="read")
    source = fuzz_mlir.mutant(rng, text).encode()
    return Case(name, source, params, seed=rng.randrange(1 << 30))


FAMILIES: dict[str, Callable[[random.Random, str], Case]] = {
    "onnx-random": _onnx_random,
    "onnx-recurrent": _of_family(recurrent_model),
    "onnx-conv": _of_family(conv_model),
    "onnx-quantised": _of_family(quantised_model),
    "onnx-indexing": _of_family(indexing_model),
    "onnx-control": _of_family(control_model),
    "onnx-counted": _of_family(counted_model),
    "onnx-options": _of_family(options_model),
    "onnx-contributed": _of_family(contributed_model),
    "onnx-mutant": _onnx_mutant,
    "onnx-rewritten": _onnx_rewritten,
    "caffe2-mutant": _caffe2_mutant,
    "caffe2-control": _caffe2_control,
    "onnx-operator": _onnx_operator,
    "caffe2-operator": _caffe2_operator,
    "rnn-mutant": _rnn_mutant,
}
WEIGHTS = dict.fromkeys(FAMILIES, 1) | {"onnx-random": 6, "onnx-mutant": 3, "caffe2-mutant": 2}
"""How often a family is drawn."""
