"""A small slice of the fuzz runs."""

from __future__ import annotations

import os
import signal
from typing import Any

import numpy as np
import pytest

from rnncc.frontends.onnx.importer import import_model
from tests.frontends.onnx.models import info, model, node
from tests.fuzz import fuzz_caffe2, fuzz_mlir, fuzz_onnx
from tests.fuzz.campaign import Runner, Totals, campaign, drawn
from tests.fuzz.families import FAMILIES, make_case
from tests.fuzz.oracles import Interpreted
from tests.fuzz.shrink import shrink
from tests.golden import Arrays


def test_mutants_of_golden_nets_end_in_an_error_or_a_program() -> None:
    report = fuzz_caffe2.run(160, seed=1)
    assert not report.failures, report.failures[0]
    assert report.imported > 10
    assert report.refused > 50


def test_mutants_of_onnx_models_end_in_an_error_or_a_program() -> None:
    report = fuzz_onnx.run(70, seed=1)
    assert not report.failures, report.failures[0]
    assert report.imported > 6
    assert report.refused > 15


def test_mutants_of_texts_end_in_an_error_or_in_code() -> None:
    report = fuzz_mlir.run(32, seed=1)
    assert not report.failures, report.failures[0]
    assert report.imported > 2
    assert report.refused > 16


@pytest.mark.peers
def test_mutants_of_pytorch_programs_end_in_an_error_or_a_program() -> None:
    pytest.importorskip("torch")
    from tests.fuzz import fuzz_torch

    report = fuzz_torch.run(8, seed=1)
    assert not report.failures, report.failures[0]
    assert report.refused > 3


def test_a_few_models_through_passes_code_and_runs() -> None:
    tasks = drawn(list(FAMILIES), [1] * len(FAMILIES), 7, lambda index: index < 10)
    totals = campaign(tasks, 1, Totals())
    assert not totals.failures, totals.failures
    assert totals.outcomes["accepted"] > 2
    assert totals.outcomes["compared"] > 6


def test_a_wrong_result_is_found_and_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks of the fuzzer see what they are there for: tanh that is computed as sine."""
    from rnncc.ir.ops.functions import Tanh
    from tests.fuzz.check import check

    monkeypatch.setattr(Tanh, "evaluate", lambda self, context, *arrays: np.sin(arrays[0]))
    cases = (make_case("onnx-random", 3, index) for index in range(100))
    failing = next(case for case in cases if check(case).failures)
    smaller, result = shrink(failing, check)
    assert result.failures[0].kind == "wrong"
    assert len(smaller.source) < len(failing.source)
    assert b"Tanh" in smaller.source


def test_other_bits_of_threads_and_pieces_are_found() -> None:
    from rnncc_runtime import Model

    import rnncc
    from tests.fuzz.ways import difference

    layer = rnncc.cells.gru(3, 5)
    x = np.random.default_rng(0).standard_normal((4, 2, 3), np.float32)
    for threads, way in ((True, "threads: y"), (False, "pieces of [1, 0, 2, 1]: y")):
        model = rnncc.compile(layer, threads=threads)
        assert isinstance(model, Model)
        want = model.run({"x": x})
        assert difference(model, layer, {"x": x}, {"T": 4, "N": 2}, want) is None
        want["y"][2, 1, 3] = np.nextafter(want["y"][2, 1, 3], np.float32(1))
        told = difference(model, layer, {"x": x}, {"T": 4, "N": 2}, want)
        assert told is not None and told.startswith(way)
        want["y"][2, 1, 3] = np.nan
        assert difference(model, layer, {"x": x}, {"T": 4, "N": 2}, want) is not None


def test_other_gradients_of_threads_are_found() -> None:
    from rnncc_runtime import TrainableModel

    import rnncc
    from tests.fuzz.ways import training_difference

    model = rnncc.compile(rnncc.cells.gru(3, 5), train=True, threads=True)
    assert isinstance(model, TrainableModel)
    x = {"x": np.random.default_rng(0).standard_normal((4, 2, 3), np.float32)}
    outputs, tape = model.forward(x)
    outer = {name: np.ones_like(outputs[name]) for name in model._output_grads}
    grads = model.backward(tape, outer)
    assert training_difference(model, x, outer, outputs, grads) is None
    grads["x"][1, 0, 2] = np.nextafter(grads["x"][1, 0, 2], np.float32(1))
    told = training_difference(model, x, outer, outputs, grads)
    assert told is not None and told.startswith("threads: x")


def test_other_bits_of_a_row_alone_are_found() -> None:
    from rnncc_runtime import Model

    import rnncc
    from tests.fuzz.ways import difference

    layer = rnncc.cells.gru(3, 5, direction="both")  # which has no pieces
    mean = import_model(
        model(
            [node("ReduceMean", "x", "m", axes=[0]), node("Sub", "x m", "y")],
            [info("x", ["N", 3])],
            [info("y", ["N", 3])],
        )
    )
    x = np.random.default_rng(0).standard_normal((4, 2, 3), np.float32)
    for net, given, sizes in ((layer, x, {"T": 4, "N": 2}), (mean, x[0], {"N": 2})):
        compiled = rnncc.compile(net)
        assert isinstance(compiled, Model)
        want = compiled.run({"x": given})
        assert difference(compiled, net, {"x": given}, sizes, want) is None
        want["y"][..., -1, 1] = np.nextafter(want["y"][..., -1, 1], np.float32(1))
        told = difference(compiled, net, {"x": given}, sizes, want)
        # The mean's rows depend on each other.
        assert told is None if net is mean else told is not None and told.startswith("row 1 alone")


def sensitivity(nodes: list[Any], inputs: Arrays) -> tuple[Arrays, Arrays, list[bool]]:
    """Of calls of a model that gives y: exact results, what they may miss, and which count."""
    infos = [info(name, list(array.shape[1:])) for name, array in inputs.items()]
    program = import_model(model(nodes, infos, [info("y", None)]))
    calls = len(next(iter(inputs.values())))
    exact, allowed, stable = Interpreted(program).sensitivity(inputs, {}, calls)
    return exact, allowed, stable.tolist()


def test_a_product_beyond_float32_may_make_nan_of_an_infinity() -> None:
    """1e30 * 1e30 - inf is -inf fused, as the interpreter has it, and NaN unfused."""
    a = np.array([[[1e30, -np.inf]], [[1e30, 1.0]], [[np.inf, 1.0]], [[3.0, -np.inf]]])
    b = np.array([[[1e30], [1.0]]] * 2 + [[[1.0], [2.0]]] * 2)
    inputs = {"a": a.astype(np.float32), "b": b.astype(np.float32)}
    stable = sensitivity([node("MatMul", "a b", "y")], inputs)[2]
    assert stable == [False, False, True, True]


def test_a_power_of_e_that_is_no_normal_float_may_be_zero() -> None:
    """e^-90 is 8e-40, in code 0; times infinity that is infinite or NaN."""
    inputs = {"x": np.array([[-90.0]] * 2 + [[-80.0]], np.float32)}
    inputs["z"] = np.array([[np.inf], [1.0], [np.inf]], np.float32)
    stable = sensitivity([node("Exp", "x", "e"), node("Mul", "e z", "y")], inputs)[2]
    assert stable == [False, True, True]


def test_a_sigmoid_that_rounds_to_zero_beside_one_may_be_zero() -> None:
    """ONNX Runtime's is 0 below -18, and the sign of that 0."""
    inputs = {"x": np.array([[-19.0], [-16.0]], np.float32)}
    stable = sensitivity([node("Sigmoid", "x", "s"), node("Sign", "s", "y")], inputs)[2]
    assert stable == [False, True]


def test_which_of_two_zeros_is_the_larger_is_open() -> None:
    """Of 0 and -0; only 1/y shows it."""
    inputs = {"a": np.array([[0.0], [0.0], [-0.0], [1.0]], np.float32)}
    inputs["b"] = np.array([[-0.0], [0.0], [-0.0], [-0.0]], np.float32)
    for kind in ("Max", "Min"):
        nodes = [node(kind, "a b", "m"), node("Reciprocal", "m", "y")]
        assert sensitivity(nodes, inputs)[2] == [False, True, True, True]
    rows = {"x": np.stack([inputs["a"][:, 0], inputs["b"][:, 0]], axis=1)}
    nodes = [node("ReduceMax", "x", "m", axes=[0]), node("Reciprocal", "m", "y")]
    assert sensitivity(nodes, rows)[2] == [False, True, True, True]


def test_terms_may_be_added_in_any_order() -> None:
    """Of 1, 1e30, -1e30, 1 the sum is 0, 1 or 2; of many equal terms it drifts."""
    sums = [node("ReduceSum", "x", "y")]
    inputs = {"x": np.array([[1, 1e30, -1e30, 1], [1, 2, 3, 4]], np.float32)}
    assert sensitivity(sums, inputs)[2] == [False, True]
    inputs = {"x": np.full((1, 20_000), 0.1, np.float32)}
    exact, allowed, stable = sensitivity(sums, inputs)
    drift = abs(np.add.accumulate(inputs["x"][0])[-1] - exact["y"][0])
    assert stable[0] and allowed["y"][0] > drift > 1e-5 * exact["y"][0]


def test_factors_may_be_multiplied_in_any_order() -> None:
    """Of 1e30, 1e30, 1e-30, 1e-30 the product is 0, 1, infinite or NaN, of zeros with them NaN."""
    products = [node("ReduceProd", "x", "y")]
    x = [[1e-30, 1e-30, 1e30, 1e30], [1e-30, 1e30, 1e-30, 1e30], [1e-30, 0, 1e30, 1e30]]
    plain = [[1e-30, 2e30, 3, 4], [1e-30, 1e-30, 3, 4], [0, 0, 3, 1e30]]
    inputs = {"x": np.array(x + plain, np.float32)}
    assert sensitivity(products, inputs)[2] == [False] * 3 + [True] * 3
    assert sensitivity(products, {"x": inputs["x"][1:2]})[2] == [False]


def test_what_rounding_makes_an_integer_may_be_none() -> None:
    """Tanh 9 is 1 or the float below it, and -0.5 to the power of that -0.5 or NaN."""
    inputs = {"x": np.array([[8.9], [8.9], [1.0]], np.float32)}
    inputs["z"] = np.array([[-0.5], [0.5], [0.5]], np.float32)
    stable = sensitivity([node("Tanh", "x", "t"), node("Pow", "z t", "y")], inputs)[2]
    assert stable == [False, True, True]


@pytest.mark.peers
def test_onnxruntime_adds_products_of_bytes_exactly() -> None:
    from onnx import numpy_helper

    from tests.fuzz.cases import Case
    from tests.fuzz.oracles import onnxruntime_of

    pytest.importorskip("onnxruntime")
    weights = np.full((64, 3), 127, np.int8)
    made = model(
        [node("MatMulInteger", "a w", "y")], [info("a", [2, 64], "u8")], [info("y", None, "i32")]
    )
    made.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    ask = onnxruntime_of(Case("onnx", made.SerializeToString()))
    assert ask is not None
    given = np.full((2, 64), 255, np.uint8)
    np.testing.assert_array_equal(ask({"a": given})["y"], np.full((2, 3), 255 * 127 * 64))


def test_a_process_that_hangs_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.campaign.DEADLINE", 30.0)
    with Runner() as run:
        case = make_case("onnx-random", 3, 0)
        assert run(case).outcome == "accepted"
        monkeypatch.setattr("tests.fuzz.campaign.DEADLINE", 0.2)
        assert run.process is not None
        os.kill(run.process, signal.SIGSTOP)
        (failure,) = run(case).failures
        assert failure.kind == "hang"
        monkeypatch.setattr("tests.fuzz.campaign.DEADLINE", 30.0)
        assert run(case).outcome == "accepted"
