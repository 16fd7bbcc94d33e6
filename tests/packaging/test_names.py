"""C identifiers."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnncc.packaging.names import c_name, c_names


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rnn/hidden_state_all", "rnn_hidden_state_all"),
        ("x", "x"),
        ("0:x", "_0_x"),
        ("", "_"),
        ("int", "int_"),
        ("class", "class_"),
        ("naïve", "na_ve"),
        ("a b\n*/", "a_b___"),
    ],
)
def test_one_name(name: str, expected: str) -> None:
    assert c_name(name) == expected


def test_names_that_would_be_equal() -> None:
    assert c_names(["a/b", "a_b", "a.b", "a_b_2"]) == ["a_b", "a_b_2", "a_b_3", "a_b_2_2"]
    assert c_names(["inputs", "T"], taken=["inputs"]) == ["inputs_2", "T"]


@given(st.lists(st.text(max_size=6), max_size=12))
def test_any_names(names: list[str]) -> None:
    identifiers = c_names(names)
    assert len(set(identifiers)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", identifier) for identifier in identifiers)
