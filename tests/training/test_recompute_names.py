"""Blobs that a user names to be computed again: those of step nets, and values built in Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import rnncc
from rnncc.errors import CompileError
from tests.golden import GOLDEN
from tests.passes.nets import gated

LSTM = GOLDEN / "caffe2" / "lstm"


def tape(net: object, init: Path | None, recompute: str) -> int:
    """Bytes at T = 10, N = 2."""
    model = rnncc.compile(net, init, train=True, recompute=recompute)  # type: ignore[arg-type]
    return model._functions["tape_bytes"](10, 2)


def test_a_blob_of_a_step_net() -> None:
    net, init = LSTM / "net.pb", LSTM / "init.pb"
    assert tape(net, init, "rnn/gates_t") < tape(net, init, "none")


@pytest.mark.parametrize("name", ["nonsense", "\udcff"])  # a byte of a command line, too
def test_an_unknown_blob(name: str) -> None:
    with pytest.raises(CompileError, match=f"no step of a recurrent net writes {name}"):
        tape(LSTM / "net.pb", LSTM / "init.pb", name)


def test_a_value_built_in_python() -> None:
    assert tape(gated(), None, "squashed") < tape(gated(), None, "none")
    with pytest.raises(CompileError, match="nothing is named nonsense to compute again"):
        tape(gated(), None, "nonsense")
