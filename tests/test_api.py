"""rnncc.compile and rnncc.build: what they take, and that memory and library agree."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import rnncc_runtime

import rnncc
from rnncc.keywords import NamedKeywords
from rnncc.netdef import load
from rnncc.options import Options

EXAMPLES = Path(__file__).parents[1] / "examples"
NET, INIT = EXAMPLES / "lstm.pbtxt", EXAMPLES / "lstm_init.pbtxt"


@pytest.fixture(scope="module")
def inputs() -> dict[str, Any]:
    return dict(np.load(EXAMPLES / "lstm.npz"))


@pytest.fixture(scope="module")
def expected(inputs: dict[str, Any]) -> dict[str, Any]:
    return rnncc.compile(NET, INIT).run(inputs)


@pytest.mark.parametrize("form", ["text", "bytes", "message"])
def test_forms_of_a_net(form: str, inputs: dict[str, Any], expected: dict[str, Any]) -> None:
    read: Any = {"text": str, "bytes": Path.read_bytes, "message": load}[form]
    model = rnncc.compile(read(NET), init=read(INIT))
    assert model.name == {"text": "lstm", "bytes": "net", "message": "char_lstm"}[form]
    result = model.run(inputs)
    for name in expected:
        np.testing.assert_array_equal(result[name], expected[name])


def test_library_and_memory_agree(
    tmp_path: Path, inputs: dict[str, Any], expected: dict[str, Any]
) -> None:
    artifacts = rnncc.build(NET, INIT, out=tmp_path / "build", name="other")
    assert artifacts.library == tmp_path / "build" / "libother.so"
    assert artifacts.header is not None and artifacts.header.is_file()
    result = rnncc_runtime.load(tmp_path / "build" / "libother.so").run(inputs)
    assert result.keys() == expected.keys()
    for name in expected:
        np.testing.assert_array_equal(result[name], expected[name])


def test_without_init_parameters_are_inputs(
    inputs: dict[str, Any], expected: dict[str, Any]
) -> None:
    from rnncc.netdef import parameters

    model = rnncc.compile(NET, shapes={"h0": (1, "N", 128), "x": "T,N,64", "out_w": (64, 128)})
    assert not model.parameters
    result = model.run({**inputs, **parameters(str(INIT))})
    for name in expected:
        np.testing.assert_allclose(result[name], expected[name], atol=1e-6)


def test_symbols_of_the_user(inputs: dict[str, Any], expected: dict[str, Any]) -> None:
    model = rnncc.compile(NET, INIT, shapes={"x": ("STEPS", 1, 64)})
    assert model.inputs["x"].shape == ("STEPS", 1, 64)
    assert model.inputs["h0"].shape == (1, 1, 128)
    result = model.run(inputs)
    np.testing.assert_allclose(result["probabilities"], expected["probabilities"], atol=1e-6)


def test_seed(expected: dict[str, Any], inputs: dict[str, Any]) -> None:
    result = rnncc.compile(NET, INIT, seed=1).run(inputs)
    assert not np.array_equal(result["probabilities"], expected["probabilities"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bogus": 1}, "no option is named bogus (name, shapes,"),
        ({"name": "1st"}, "name '1st' is not a C identifier"),
        ({"seed": "x"}, "seed 'x' is not a number from 0 up"),
        ({"train": "no"}, "train 'no' is not true or false"),
        ({"cpu": 5}, "cpu 5 is not a text"),
        ({"bind": 3}, "bind 3 is not names, texts or a mapping"),
        ({"shapes": {"x": 5}}, "the shape 5 of x is not a text or a sequence"),
        ({"shapes": {"q": ("T",)}}, "--shape q: is no input of the net"),
        ({"target": "riscv64-unknown-linux-gnu"}, "riscv64"),
        ({"recompute": "all"}, "recompute goes with train"),
        ({"device": 0}, "device: 0 is not a text, such as cpu or cuda"),
        ({"progress": "yes"}, "progress: 'yes' is neither true nor a function"),
        ({"threads": 4}, "threads 4 is not true or false"),
        ({"plan_for": (3, 2)}, "--plan-for: goes with --memory-budget or --tune"),
        ({"functions": {"a.B": None}}, "functions: are operators of ONNX models"),
        ({"outputs_with_grads": ["y"]}, "outputs_with_grads goes with train"),
        ({"train": True, "recompute": 1}, "recompute 1 is not a text such as 'auto'"),
        ({"train": True, "outputs_with_grads": "y"}, "no output 'y' to differentiate; there are"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(rnncc.CompileError) as caught:
        rnncc.compile(NET, INIT, **options)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"out": 3}, "out: 3 is not a path"),
        ({"out": "a\0b"}, "out: 'a\\x00b' is not a path"),
        ({"dump_ir": "a\0b"}, "dump_ir 'a\\x00b' is not a path"),
        ({"products": 3}, "products: 3 names no products"),
        ({"products": ["so", None]}, "products: ['so', None] names no products"),
    ],
)
def test_where_and_what_nothing_can_be_written(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    stated: dict[str, Any] = {"out": tmp_path, **options}
    with pytest.raises(rnncc.CompileError) as caught:
        rnncc.build(NET, INIT, **stated)
    assert message in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_unknown_product_is_refused_before_compiling(tmp_path: Path) -> None:
    with pytest.raises(rnncc.CompileError, match="no product is named exe"):
        rnncc.build("none.pb", out=tmp_path, products=["exe"])


@pytest.mark.parametrize(
    ("option", "value"),
    [("target", "aarch64-unknown-linux-gnu"), ("cpu", "frob"), ("target", "riscv64-linux-gnu")],
)
def test_compile_refuses_other_machines(option: str, value: str) -> None:
    given: dict[str, Any] = {option: value}
    with pytest.raises(rnncc.CompileError, match=value.split("-")[0]):
        rnncc.compile(NET, INIT, **given)


def test_keywords_are_the_options() -> None:
    """Editors and type checkers know every option, and those alone; one goes with --emit."""
    options = {field.name for field in fields(Options)}
    assert {*NamedKeywords.__annotations__, "train", "stop_after"} == options
    with pytest.raises(rnncc.CompileError, match="no option is named presicion"):
        rnncc.compile(NET, INIT, presicion="int8")  # type: ignore[no-matching-overload]
    with pytest.raises(rnncc.CompileError, match="fp8"):
        rnncc.compile(NET, INIT, precision="fp8")


def test_progress(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[str] = []
    rnncc.compile(NET, INIT, progress=seen.append, verify_each=True)
    assert seen[0] == "read" and seen[-1] == "machine-code"
    rnncc.compile(NET, INIT, progress=True, verify_each=True)
    assert capsys.readouterr().err.splitlines() == [f"rnncc: {step}" for step in seen]
    rnncc.compile(NET, INIT, verify_each=True)
    assert capsys.readouterr().err == ""


def test_notebooks_show_models_and_plans() -> None:
    for model in (rnncc.compile(NET, INIT), rnncc.compile(NET, INIT, train=True)):
        page = ElementTree.fromstring(model._repr_html_())
        texts = [cell.text for cell in page.iter("td")]
        assert texts[: len(model.inputs)] == [str(spec) for spec in model.inputs.values()]
        assert f"{model.metadata['workspace']} bytes" in texts
    plan = rnncc.plan(NET, INIT, plan_for="T=100,N=4")
    assert plan.sizes == {"T": 100, "N": 4}
    frame = ElementTree.fromstring(plan._repr_html_())
    assert "Memory plan of lstm" in frame.get("srcdoc", "")
