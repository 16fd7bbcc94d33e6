"""A small net, and what a cache keeps of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rnncc_runtime import Model

from rnncc.driver import cache
from rnncc.netdef import Argument, NetDef, OperatorDef

WIDTH = 5


def net(kind: str = "Tanh") -> NetDef:
    """y = kind(w x + b), row by row."""
    ops = [
        OperatorDef(type="FC", input=["x", "w", "b"], output=["z"]),
        OperatorDef(type=kind, input=["z"], output=["y"]),
    ]
    return NetDef(name="made", op=ops, external_input=["x", "w", "b"], external_output=["y"])


def init(scale: float = 1.0) -> NetDef:
    """The net of w and b."""
    made = NetDef()
    for name, shape in (("w", [WIDTH, WIDTH]), ("b", [WIDTH])):
        values = np.linspace(-scale, scale, int(np.prod(shape))).tolist()
        args = [Argument(name="shape", ints=shape), Argument(name="values", floats=values)]
        made.op.append(OperatorDef(type="GivenTensorFill", output=[name], arg=args))
    return made


X = np.linspace(-2, 2, 3 * WIDTH, dtype=np.float32).reshape(3, WIDTH)


def result(model: Model) -> bytes:
    """The bits of y."""
    return model.run({"x": X})["y"].tobytes()


def entries(folder: Path) -> list[Path]:
    """The entries there are."""
    return sorted((folder / cache.FOLDER).glob("*.model"))


def never(*arguments: object) -> Any:
    """In place of what an entry that is found saves."""
    raise AssertionError("compiled, although it was compiled before")
