"""What stock `xdsl-opt` loads by the entry point `xdsl.universe`: our dialects and passes."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.universe import Universe

PASSES = {
    "rnn-canonicalize": "canonicalize.Canonicalize",
    "rnn-drop-stops": "drop_stops.DropStops",
    "rnn-hoist": "hoist.Hoist",
    "rnn-mask-rows": "mask_rows.MaskRows",
    "rnn-merge-equal": "merge_equal.MergeEqual",
    "rnn-merge-matmuls": "merge_matmuls.MergeMatmuls",
    "rnn-regroup-sums": "regroup_sums.RegroupSums",
    "rnn-remove-dead": "remove_dead.RemoveDead",
    "rnn-simplify": "simplify.Simplify",
    "rnn-simplify-scans": "simplify_scans.SimplifyScans",
    "rnn-split-scans": "split_scans.SplitScans",
}


def _rnn() -> Dialect:
    from rnncc.ir.rnn import RNN

    return RNN


def _kern() -> Dialect:
    from rnncc.ir.kern import KERN

    return KERN


def _pass(path: str) -> Callable[[], type[ModulePass]]:
    """The class of a pass; as xDSL's own base takes time to import, ours stand without it."""
    module, name = path.split(".")
    return lambda: type(
        name, (getattr(import_module(f"rnncc.passes.{module}"), name), ModulePass), {}
    )


UNIVERSE = Universe(
    all_dialects={"rnn": _rnn, "kern": _kern},
    all_passes={name: _pass(path) for name, path in PASSES.items()},
)
