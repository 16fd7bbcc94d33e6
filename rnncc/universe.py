"""What stock `xdsl-opt` loads by the entry point `xdsl.universe`: our dialects and passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from xdsl.passes import ModulePass
from xdsl.universe import Universe

from rnncc import pipeline
from rnncc.ir.rewriting import NetPass
from rnncc.ir.rnn import RNN
from rnncc.kern.dialect import KERN
from rnncc.passes.cleanup import simplify


def _passes() -> Iterator[type[NetPass]]:
    """Those of the pipeline, and those that `Simplify` is made of."""
    for step in (*pipeline.STREAMING, *pipeline.INFERENCE, *pipeline.TRAINING):
        if isinstance(step.action, NetPass):
            yield type(step.action)
    yield from map(type, simplify.PASSES)


def _loader(kind: type[NetPass]) -> Callable[[], type[ModulePass]]:
    """A pass as one of xDSL's own, whose base takes time to import: ours stand without it."""
    return lambda: type(kind.__name__, (kind, ModulePass), {})


UNIVERSE = Universe(
    all_dialects={"rnn": lambda: RNN, "kern": lambda: KERN},
    all_passes={kind.name: _loader(kind) for kind in _passes()},
)
