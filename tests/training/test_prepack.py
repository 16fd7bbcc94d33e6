"""Parameters that are packed once for several calls: the bits of those packed by every call."""

from __future__ import annotations

import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rnncc_runtime
from rnncc_runtime import ArrayError, Pool, TrainableModel
from rnncc_runtime.signatures import PACKED

import rnncc
from rnncc.codegen import targets
from rnncc.errors import CompileError
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.lowering.lower import lower
from rnncc.lowering.prepack import separate_packing
from tests.codegen.guarded import guards
from tests.golden import KINDS, Arrays
from tests.lowering.notation import show
from tests.passes.notation import shown_in
from tests.passes.program_examples import program_of
from tests.targets.running import compiled_for
from tests.training.models import assert_same_bits, draw, run_guarded, trainable

SIZES = {"T": 5, "N": 3}
X = np.random.default_rng(3).normal(size=(5, 3, 4)).astype(np.float32)
DY = np.random.default_rng(4).normal(size=(5, 3, 9)).astype(np.float32)


def layer() -> Any:
    return rnncc.cells.lstm(4, 9)


def model_of(**options: Any) -> TrainableModel:
    return rnncc.compile(layer(), train=True, outputs_with_grads=["y"], **options)


def passes(model: TrainableModel, **call: Any) -> tuple[Arrays, Arrays]:
    outputs, tape = model.forward({"x": X}, **call)
    return outputs, model.backward(tape, {"y": DY}, **call)


def same(one: TrainableModel, other: TrainableModel, **call: Any) -> None:
    for a, b in zip(passes(one), passes(other, **call), strict=True):
        assert_same_bits(a, b, "")


def test_the_program_that_packs_is_verified_as_others() -> None:
    model_of(prepack=True, verify_each=True)


@pytest.mark.parametrize("case", KINDS, ids=lambda path: path.name)
def test_golden_nets_keep_their_bits(case: Path) -> None:
    """Under guard pages; what is packed is as long as the library says, and aligned."""
    sizes, inputs, outer = draw(case, (4, 3, 2))
    results = []
    for options in ({}, {"prepack": True}):
        with guards(end=True) as memory:
            model = trainable(case, **options)
            results.append(run_guarded(model, inputs, outer, sizes, memory))
    for one, other in zip(*results, strict=True):
        assert_same_bits(one, other, case.name)


@pytest.mark.parametrize(
    "options",
    [
        {"order": 2},
        {"recompute": "all"},
        {"memory_budget": "64K", "plan_for": "40,3"},
        {"cpu": "x86-64-v2"},
    ],
    ids=str,
)
def test_other_options(options: dict[str, Any]) -> None:
    one, other = model_of(**options), model_of(**options, prepack=True)
    inputs = {"x": X, **({"grad_y": DY} if "order" in options else {})}
    results = [model.forward(inputs) for model in (one, other)]
    assert_same_bits(results[0][0], results[1][0], "")
    grads = [m.backward(tape, {}) for m, (_, tape) in zip((one, other), results, strict=True)]
    assert_same_bits(grads[0], grads[1], "")


@pytest.mark.parametrize("size", ["factor", "rows"])
def test_what_depends_on_sizes_is_computed_by_each_call(size: str) -> None:
    """Weights times T, or added up N times: their own sizes are fixed."""
    b = Builder.net("scaled")
    x, w = b.input("x", ["T", "N", 3]), b.param("w", [3, 4])
    if size == "factor":
        w = b.mul(w, b.broadcast(b.cast(b.size(Dim.parse("T")), "f32"), [3, 4], []))
    else:
        w = b.reduce("sum", b.broadcast(w, ["N", 3, 4], [1, 2]), [0])
    program = b.finish({"y": b.matmul(x, w)})
    program.arrays["w"] = np.ones((3, 4), np.float32)
    model = rnncc.compile(program, train=True, prepack=True)
    outputs, tape = model.forward({"x": np.ones((5, 2, 3), np.float32)})
    times = {"factor": 5, "rows": 2}[size]
    np.testing.assert_array_equal(outputs["y"], np.full((5, 2, 4), 3 * times))
    grads = model.backward(tape, {"y": np.ones((5, 2, 4), np.float32)})
    np.testing.assert_array_equal(grads["x"], np.full((5, 2, 3), 4 * times))


def test_no_call_need_be_of_no_steps() -> None:
    """Where sizes such as T - 1 forbid it: the workspace of any call does."""
    b = Builder.net("differences")
    x, w = b.input("x", ["T", 3]), b.param("w", [3, 20])
    less = Dim.parse("T") - 1
    rows = b.sub(b.slice(x, 0, 1, less), b.slice(x, 0, 0, less))
    program = b.finish({"y": b.matmul(rows, w)})
    program.arrays["w"] = np.ones((3, 20), np.float32)
    model = rnncc.compile(program, train=True, prepack=True)
    assert PACKED in model.metadata
    outputs, tape = model.forward({"x": np.arange(12, dtype=np.float32).reshape(4, 3)})
    np.testing.assert_array_equal(outputs["y"], np.full((3, 20), 9))
    grads = model.backward(tape, {"y": np.ones((3, 20), np.float32)})
    np.testing.assert_array_equal(grads["w"], np.full((3, 20), 9))


def test_several_threads_read_what_one_has_packed() -> None:
    model = model_of(prepack=True, threads=True)
    with Pool(2) as pool:
        same(model_of(), model, pool=pool)
    model.updated()
    with ThreadPoolExecutor(4) as callers:
        results = list(callers.map(lambda _: passes(model), range(8)))
    want = passes(model_of())
    for outputs, grads in results:
        assert_same_bits(want[0], outputs, "")
        assert_same_bits(want[1], grads, "")


def test_a_change_is_seen_once_it_is_told() -> None:
    plain, model = model_of(), model_of(prepack=True)
    same(plain, model)
    for each in (plain, model):
        for array in each.parameters.values():
            array *= 1.5
    before = passes(model)[0]["y"]
    model.updated()
    same(plain, model)
    assert (passes(model)[0]["y"] != before).any()


def test_other_arrays_are_packed_without_a_word() -> None:
    plain, model = model_of(), model_of(prepack=True)
    passes(model)
    for each in (plain, model):
        each.parameters |= {name: array * 2 for name, array in each.parameters.items()}
    same(plain, model)


def test_no_array_takes_the_place_of_a_packed_one() -> None:
    """One at the address of another, which is gone, would be taken for it."""
    model = model_of(prepack=True)
    passes(model)
    name, array = model.parameters.popitem()
    packed = weakref.ref(array)
    model.parameters[name] = array * 2
    del array
    assert packed() is not None
    passes(model)
    assert packed() is None


def test_backward_refuses_a_tape_of_other_parameters() -> None:
    model = model_of(prepack=True)
    tape = model.forward({"x": X})[1]
    model.updated()
    with pytest.raises(ArrayError, match="were updated since forward left the tape"):
        model.backward(tape, {"y": DY})
    plain = model_of()
    tape = plain.forward({"x": X})[1]
    plain.updated()  # packs nothing, so that it has nothing to forget
    plain.backward(tape, {"y": DY})


def test_a_library_for_several_cpus(tmp_path: Path) -> None:
    made = rnncc.build(
        layer(),
        out=tmp_path,
        name="net",
        train=True,
        prepack=True,
        outputs_with_grads=["y"],
        cpu="x86-64-v2,x86-64-v3",
        products=("so",),
    )
    assert made.library is not None
    model = rnncc_runtime.load(made.library, train=True)
    chosen = next(v for v in reversed(model.metadata["versions"]) if v["cpu"] == "x86-64-v3")
    assert model._functions["packed_bytes"]() == chosen["packed"] <= model.metadata["packed"]
    same(model_of(cpu="x86-64-v3"), model)


@pytest.mark.parametrize("name", ["c99", pytest.param("wasm32", marks=pytest.mark.slow)])
def test_other_targets(name: str) -> None:
    model = compiled_for(layer(), None, name, train=True, prepack=True, outputs_with_grads=["y"])
    assert isinstance(model, TrainableModel)
    for want, got in zip(passes(model_of()), passes(model), strict=True):
        for blob, array in want.items():
            np.testing.assert_allclose(got[blob], array, 1e-4, 1e-5, err_msg=blob)


def test_null_pointers_are_refused() -> None:
    model = model_of(prepack=True)
    pointers = np.zeros(16, np.int64)
    at = pointers.ctypes.data
    assert model._functions["pack_parameters"](0, at, at) == 1
    assert model._functions["pack_parameters"](at, 0, at) == 1
    assert model._functions["pack_parameters"](at, at, at) == 1  # each of the parameters
    assert model._functions["forward"](at, at, 0, at, at, at, 5, 3) == 1
    assert model._functions["backward"](at, at, 0, *[at] * 4, 5, 3) == 1


def test_where_it_is_refused() -> None:
    with pytest.raises(CompileError, match="prepack goes with train"):
        rnncc.compile(layer(), prepack=True)
    with pytest.raises(CompileError, match="--prepack: code for GPUs reads parameters"):
        rnncc.compile(layer(), train=True, prepack=True, target="nvptx")


def test_it_does_what_it_shows() -> None:
    def product(b: Builder) -> list[Any]:
        return [b.matmul(b.input("x", ["N", 3]), b.input("w", [3, 4]))]

    program = lower(program_of(product), targets.resolve("x86-64-v3"))
    before = show(program)
    packing = separate_packing({"forward": program}, ["w"])
    after = f"{show(packing)}\n{show(program)}"
    assert shown_in(separate_packing.__doc__) == [before, after]
