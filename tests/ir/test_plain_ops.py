"""The builder's derived methods: their stub, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from rnncc.ir.builder import Builder
from rnncc.ir.plain_ops import PLAIN
from tools import write_plain_ops


def test_the_stub_is_up_to_date() -> None:
    assert write_plain_ops.PATH.read_text() == write_plain_ops.stub()


def test_every_plain_op_has_a_method() -> None:
    assert all(callable(getattr(Builder, op.name.removeprefix("rnn."))) for op in PLAIN)


def test_operands_broadcast_and_flags_have_defaults() -> None:
    b = Builder.net("plain")
    x, w = b.input("x", ["N", 3]), b.input("w", [3, 3])
    text = str(b.finish({"y": b.add(b.matmul(x, w, transpose_b=True), b.fill(1.0, []))}).module)
    assert "transpose_a = false, transpose_b = true" in text
    assert "rnn.broadcast" in text


def test_arguments_that_do_not_fit_are_refused() -> None:
    b = Builder.net("plain")
    x, i = b.input("x", ["N", 3]), b.input("i", [2], "i32")
    wrong: list[tuple[Any, ...]] = [(x,), (x, i), (x, i, 0, True, 1)]
    for arguments in wrong:
        with pytest.raises(TypeError, match=r"rnn\.gather"):
            b.gather(*arguments)
    with pytest.raises(TypeError, match=r"rnn\.gather"):
        b.gather(x, i, 0, axes=1)  # type: ignore[call-arg]
