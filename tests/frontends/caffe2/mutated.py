"""The operators of real_operators.py with other arguments, sizes and elements, and the real Caffe2:

    python -m tests.frontends.caffe2.mutated caffe2/bin/python --count 3000

(real_operators.py says how to set that up.) Prints where results differ, where rnncc takes what
Caffe2 refuses, and how many of each kind there were; where elements are not finite, differences
may be Caffe2's: a maximum, say, forgets NaN there.
"""

from __future__ import annotations

import argparse
import random
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from rnncc import CompileError
from rnncc.frontends.caffe2 import import_net
from rnncc.ir.interpreter import run
from rnncc.netdef import NetDef
from tests.frontends.caffe2.nets import net, op
from tests.frontends.caffe2.real import filled
from tests.frontends.caffe2.real_answers import packed, receive, send, unpacked
from tests.frontends.caffe2.real_operators import CASES, IN_PLACE

Array = np.ndarray[Any, Any]
SIZES = (1, 1, 2, 3, 4, 5, 7, 8)
INTEGERS = (-3, -2, -1, 0, 1, 2, 3, 4, 5, 7)
FRACTIONS = (0.0, -0.5, 0.25, 1.0, 2.0, -1.0, 3.0, 1e-5, 10.0)
SPECIAL = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-40, 1e30, -1e30, 88.8, -104, 0.5])
WORDS = ("NCHW", "NHWC", "sequence", "window", "upper", "lower", "edge", "reflect", "other")
ENDS = {"pad": "tlbr", "kernel": "hw", "stride": "hw", "dilation": "hw", "adj": "hw"}
"""Arguments that have forms for each axis or side."""


class Caffe2:
    """The process that answers; begun again where it dies, as Caffe2 does of some sizes."""

    def __init__(self, python: str) -> None:
        self._command = [python, str(Path(__file__).with_name("real_answers.py"))]
        self._start()

    def _start(self) -> None:
        pipe = subprocess.PIPE
        kept = {"stdin": pipe, "stdout": pipe, "stderr": subprocess.DEVNULL}
        self._process: Any = subprocess.Popen(self._command, **kept)

    def ask(self, made: NetDef, inputs: dict[str, Array]) -> dict[str, Array] | str:
        """The outputs of a net, or what Caffe2 says."""
        outputs = list(made.external_output)
        try:
            send(self._process.stdin, (made.SerializeToString(), packed(inputs), outputs))
            answer = receive(self._process.stdout)
        except (EOFError, OSError):
            self._process.kill()
            self._start()
            return "died"
        if isinstance(answer, str):
            return answer
        if any(kind == "|O" for _, kind, _ in answer.values()):
            return "no tensor"
        return unpacked(answer)


def resized(rng: random.Random, arrays: list[Array]) -> list[Array]:
    """Some sizes changed, equal ones alike."""
    sizes = sorted({size for array in arrays for size in array.shape})
    new = {size: size for size in sizes}
    for size in rng.sample(sizes, rng.randint(1, len(sizes))) if sizes else ():
        new[size] = rng.choice(SIZES)
    made = list[Array]()
    for array in arrays:
        pairs = [(np.arange(new[size]) % size) for size in array.shape]
        made.append(array[np.ix_(*pairs)] if pairs and array.size else array)
    return made


def altered(rng: random.Random, array: Array) -> Array:
    """Other elements, or elements of another type."""
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    where, kind = (
        numbers.random(array.shape) < 0.3,
        rng.choice(["special", "halves", "scaled", "as is"]),
    )
    if array.dtype.kind == "f":
        made = {
            "special": lambda: np.where(where, numbers.choice(SPECIAL, array.shape), array),
            "halves": lambda: np.round(2 * array) / 2,
            "scaled": lambda: array * rng.choice([1e-3, 10, 100, -1]),
            "as is": lambda: array,
        }[kind]()
        array = np.asarray(made, array.dtype)
    elif array.dtype.kind == "i" and kind == "special":
        array = np.where(where, numbers.integers(-2, 7, array.shape), array).astype(array.dtype)
    if rng.random() < 0.06 and np.isfinite(array).all():
        array = array.astype(rng.choice([np.int32, np.int64, np.float32, np.bool_]))
    return array


def other_arguments(rng: random.Random, args: dict[str, Any]) -> dict[str, Any]:
    made = dict(args)
    for _ in range(rng.choice([0, 0, 1, 1, 2])):
        forms = [
            f"{n}_{end}" for n, ends in ENDS.items() if n in args or f"{n}s" in args for end in ends
        ]
        name = rng.choice([*args, *forms, rng.choice(["axis", "order", "broadcast", "keepdims"])])
        if name in made and rng.random() < 0.2:
            del made[name]
        else:
            made[name] = _other(rng, name, made.get(name, 0))
    return made


def _other(rng: random.Random, name: str, value: Any) -> Any:
    if isinstance(value, str) or name == "order":
        return rng.choice(WORDS)
    if isinstance(value, float):
        return rng.choice(FRACTIONS)
    if isinstance(value, list):
        count = max(0, len(value) + rng.choice([-1, 0, 0, 1]))
        whole = not any(isinstance(v, float) for v in value)
        return [rng.choice(INTEGERS if whole else FRACTIONS) for _ in range(count)]
    return rng.choice(INTEGERS)


def ours(made: NetDef, given: dict[str, Array]) -> dict[str, Array] | str:
    """The interpreter's outputs, or what is said of the net."""
    inputs = {name: array for name, array in given.items() if array.dtype == np.float32}
    held = filled({name: array for name, array in given.items() if name not in inputs})
    try:
        program = import_net(made, held, {name: a.shape for name, a in inputs.items()})
        with np.errstate(all="ignore"):
            return run(program, inputs)
    except CompileError as error:
        return str(error)
    except ValueError as error:  # of indices and lengths, which calls check
        if "outside" in str(error) or "length" in str(error):
            return str(error)
        raise


def difference(got: dict[str, Array], want: dict[str, Array]) -> str:
    """What differs by more than rounding, or nothing."""
    for name, theirs in want.items():
        mine = got[name]
        if mine.shape != theirs.shape:
            return f"{name} has shape {mine.shape}, expected {theirs.shape}"
        scale = np.abs(theirs[np.isfinite(theirs)]).max(initial=0)
        with np.errstate(all="ignore"):
            near = np.isclose(mine, theirs, 1e-4, 1e-5 * (1 + scale), equal_nan=True)
        if not near.all():
            return f"{name} has {mine[~near][:4]}, expected {theirs[~near][:4]}"
    return ""


def drawn(rng: random.Random, number: int) -> tuple[NetDef, dict[str, Array]]:
    """A net of one operator, and what it reads."""
    kind, inputs, outputs, args = CASES[number % len(CASES)]
    arrays = [np.asarray(array) for array in inputs]
    arrays = resized(rng, arrays) if rng.random() < 0.5 else arrays
    arrays = [altered(rng, array) if rng.random() < 0.5 else array for array in arrays]
    given = {f"x{i}": array for i, array in enumerate(arrays)}
    names, results = list(given), [f"y{i}" for i in range(outputs)]
    for y, x in IN_PLACE.get(kind, {}).items():
        results[y : y + 1] = [names[x]] if y < outputs else []
    made = op(kind, " ".join(names), " ".join(results), **other_arguments(rng, args))
    message = net([made], " ".join(names), results[0])
    message.external_input[:], message.external_output[:] = names, results
    return message, given


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.frontends.caffe2.mutated")
    parser.add_argument("python", help="one with Caffe2")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    caffe2, counts = Caffe2(options.python), Counter[str]()
    for number in range(options.count):
        message, given = drawn(random.Random(f"{options.seed} {number}"), number)
        got, want = ours(message, given), caffe2.ask(message, given)
        said = f"{number}: {message.op[0]} on {[a.shape for a in given.values()]}".replace(
            "\n", " "
        )
        if isinstance(got, str):
            counts["refused" if isinstance(want, str) else "refused by rnncc alone"] += 1
        elif isinstance(want, str):
            counts["refused by Caffe2 alone"] += 1
            print(f"taken: {said}: {want.splitlines()[0]}", flush=True)
        else:
            told = difference(got, want)
            finite = all(a.dtype.kind != "f" or np.isfinite(a).all() for a in given.values())
            counts["equal" if not told else "different" if finite else "different of infinite"] += 1
            if told:
                print(f"{'differs' if finite else 'not finite'}: {said}: {told}", flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main()
