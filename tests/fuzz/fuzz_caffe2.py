"""Mutates the golden nets and imports what comes out: only success or a CompileError may follow.

    python -m tests.fuzz.fuzz_caffe2 --count 100000

Prints how many mutants there were of each outcome, the most CPU time, and the peak of memory.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from functools import partial

from google.protobuf import text_format

from rnncc.frontends.caffe2 import OPERATORS, import_net
from rnncc.ir.program import Program
from rnncc.netdef import NetDef, OperatorDef, load
from tests.fuzz.harness import (
    FLOATS,
    VALUES,
    Report,
    attempts,
    change_number,
    change_one,
    change_order,
    main,
    mutate_bytes,
)
from tests.golden import GOLDEN

Mutation = Callable[[random.Random, NetDef], None]


# Mutations of messages


def every_operator(net: NetDef) -> list[OperatorDef]:
    """The operators of a net and of the nets inside."""
    found = list[OperatorDef]()
    for op in net.op:
        found.append(op)
        for arg in op.arg:
            if arg.HasField("n"):
                found += every_operator(arg.n)
    return found


def _names(net: NetDef) -> list[str]:
    ops = every_operator(net)
    return [*(n for op in ops for n in (*op.input, *op.output)), *net.external_input, "nothing", ""]


def change_type(rng: random.Random, net: NetDef) -> None:
    """Another operator in its place."""
    rng.choice(every_operator(net)).type = rng.choice([*OPERATORS, "Nothing"])


def change_name(rng: random.Random, net: NetDef) -> None:
    """Another blob, read or written."""
    op = rng.choice(every_operator(net))
    change_one(rng, rng.choice([op.input, op.output]), lambda: _names(net))


def change_count(rng: random.Random, net: NetDef) -> None:
    """One operand fewer or more."""
    op = rng.choice(every_operator(net))
    change_number(rng, rng.choice([op.input, op.output]), lambda: _names(net))


def change_argument(rng: random.Random, net: NetDef) -> None:
    """Another value, of the same kind or of another."""
    args = [arg for op in every_operator(net) for arg in op.arg]
    arg = rng.choice(args)
    match rng.randrange(7):
        case 0:
            arg.i = rng.choice(VALUES)
        case 1:
            arg.f = rng.choice(FLOATS)
        case 2:
            arg.s = rng.choice([b"", b"x", b"\xff", b"op {", b"sequence"])
        case 3 if arg.ints:
            arg.ints[rng.randrange(len(arg.ints))] = rng.choice(VALUES)
        case 4 if arg.strings:
            arg.strings[rng.randrange(len(arg.strings))] = rng.choice(_names(net)).encode()
        case 5:
            arg.name = rng.choice(args).name
        case _:
            if arg.ints:
                change_number(rng, arg.ints, lambda: VALUES)
            else:
                change_number(rng, arg.strings, lambda: [b"nothing"])


def change_operators(rng: random.Random, net: NetDef) -> None:
    """An operator moved, doubled or gone."""
    nets = [net, *(arg.n for op in every_operator(net) for arg in op.arg if arg.HasField("n"))]
    change_order(rng, rng.choice([n for n in nets if n.op]).op)


def change_interface(rng: random.Random, net: NetDef) -> None:
    """Another external input or output."""
    change_number(rng, rng.choice([net.external_input, net.external_output]), lambda: _names(net))


def agree(net: NetDef) -> None:
    """Give each RecurrentNetwork the arguments of its gradient operator: both are damaged alike."""
    gradients = [op for op in net.op if op.type == "RecurrentNetworkGradient"]
    for op in net.op:
        for gradient in gradients if op.type == "RecurrentNetwork" else ():
            if set(op.output) & set(gradient.input):
                del op.arg[:]
                op.arg.extend(gradient.arg)


MUTATIONS: list[Mutation] = [
    change_type,
    change_name,
    change_count,
    change_argument,
    change_argument,
    change_operators,
    change_interface,
]


def mutant(rng: random.Random, net: NetDef) -> bytes:
    """A damaged file: of its bytes, of its message, or of its text."""
    kind = rng.random()
    if kind < 0.3:
        return mutate_bytes(rng, net.SerializeToString())
    made = NetDef()
    made.CopyFrom(net)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        if any(op.arg for op in every_operator(made)):
            rng.choice(MUTATIONS)(rng, made)
    if rng.random() < 0.7:
        agree(made)
    if kind < 0.9:
        return made.SerializeToString()
    text = text_format.MessageToString(made).encode()
    return text if kind < 0.93 else mutate_bytes(rng, text)


def run(count: int, seed: int = 0, progress: bool = False) -> Report:
    """Import `count` mutants; any outcome but success or CompileError is a failure."""
    paths = [
        path for name in ("net", "train") for path in sorted(GOLDEN.glob(f"caffe2/*/{name}.pb"))
    ]
    cases = [(load(path), path.with_name("init.pb")) for path in paths]
    inits = [load(path) for _, path in cases]

    def draw(rng: random.Random) -> Callable[[], Program]:
        which = rng.randrange(len(cases))
        data: bytes = mutant(rng, cases[which][0])
        init: NetDef | bytes | None = inits[which]
        if rng.random() < 0.15:
            data, init = cases[which][0].SerializeToString(), mutant(rng, inits[which])
        elif rng.random() < 0.1:
            init = None
        return partial(import_net, data, init)

    return attempts(count, seed, progress, draw)


if __name__ == "__main__":
    sys.exit(main(run, __doc__ or ""))
