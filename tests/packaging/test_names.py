"""C identifiers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnncc.errors import CompileError
from rnncc.names import bad_library_name, c_name, c_names, library_name
from rnncc.options import Options
from rnncc.packaging.products import write_products
from tests import samples


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
        ("__LINE__", "x__LINE__"),
        ("_Bool", "x_Bool"),
        ("_x", "_x"),
        ("INT32_MAX", "INT32_MAX_"),
        ("min", "min_"),
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
    assert not any(re.match(r"_[_A-Z]", identifier) for identifier in identifiers)
    assert identifiers == c_names(names)


@pytest.mark.parametrize(
    ("name", "fault", "instead"),
    [
        ("net", "", "net"),
        ("ESN", "", "ESN"),  # a macro's form, but no library is a macro
        ("min", "", "min"),
        ("", "is not a C identifier", "_"),
        ("1st", "is not a C identifier", "_1st"),
        ("__net", "is of a form that C and C++ reserve", "x__net"),
        ("_Net", "is of a form that C and C++ reserve", "x_Net"),
        ("int", "is a keyword of C, C++ or Python", "int_"),
        ("lambda", "is a keyword of C, C++ or Python", "lambda_"),
        ("rnncc", "is a name of rnncc's own files", "rnncc_"),
        ("rnncc_pool", "is a name of rnncc's own files", "rnncc_pool_"),
        ("json", "", "json_"),
        ("a" * 201, "has 201 characters, at most 200", "a" * 200),
    ],
)
def test_names_of_libraries(name: str, fault: str, instead: str) -> None:
    assert bad_library_name(name) == fault
    assert library_name(name) == instead
    assert Options.of(f"nets/{name or '-'}.onnx", {}).name == instead
    if fault:
        with pytest.raises(CompileError, match=f"^name '{name}' {re.escape(fault)}$"):
            Options.of("net.onnx", {"name": name})


def test_a_module_that_would_hide_another(tmp_path: Path) -> None:
    made = samples.compiled("json")
    with pytest.raises(CompileError, match=r"json.py would hide Python's own module json"):
        write_products(made, tmp_path)
    assert not list(tmp_path.iterdir())
    assert write_products(made, tmp_path, {"h"}).paths == [tmp_path / "json.h"]
