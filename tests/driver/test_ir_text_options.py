"""Options beside a text of half-compiled models: those that it states, and those too late."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncc import cells
from rnncc.driver import compiling
from rnncc.errors import CompileError
from rnncc.ir.builder import Builder
from rnncc.options import Options
from rnncc.sources import Content
from tests.driver.ir_texts import TARGET, code_of, emitted

LATER: list[dict[str, Any]] = [
    {"precision": "bf16"},
    {"max_steps": 3},
    {"flush_denormals": True},
    {"threads": True},
    {"train": True, "prepack": True},
    {"train": True, "order": 2, "outputs_with_grads": ["y"]},
    {"train": True, "recompute": "all"},
    {"train": True, "memory_budget": 10_000, "plan_for": {"T": 50, "N": 1}},
]
"""Options that steps behind `read` look at."""


@pytest.mark.parametrize("last", ["read", None])
@pytest.mark.parametrize("options", LATER, ids=lambda options: list(options)[-1])
def test_a_text_states_the_options_that_its_next_steps_read(
    options: dict[str, Any], last: str | None, tmp_path: Path
) -> None:
    net = cells.elman(2, 3)
    files = emitted(net, None, tmp_path, stop_after=last, **options)
    assert code_of(*files) == code_of(net, None, **options)


def test_versions_for_several_cpus_have_the_options_of_a_text(tmp_path: Path) -> None:
    chosen: dict[str, Any] = {"train": True, "prepack": True}
    files = emitted(cells.elman(2, 3), None, tmp_path, **chosen)
    cpus: dict[str, Any] = {**TARGET, "cpu": "x86-64-v2,x86-64-v3"}
    made = [
        compiling.compile_object(*net, Options(**cpus, **options)).metadata["packed"]
        for net, options in ((files, {}), ((cells.elman(2, 3), None), chosen))
    ]
    assert made[0] == made[1]


def test_a_text_states_which_inputs_keep_outputs(tmp_path: Path) -> None:
    b = Builder.net("net")
    net = b.finish({"next": b.tanh(b.add(b.input("h", ["N", 3]), b.input("x", ["N", 3])))})
    files = emitted(net, None, tmp_path, stop_after="read", state={"h": "next"})
    assert code_of(*files) == code_of(net, None, state={"h": "next"})
    files = emitted(net, None, tmp_path)
    with pytest.raises(CompileError, match="state given for a net that is past split-stream"):
        code_of(*files, state={"h": "next"})


def test_options_that_contradict_those_of_a_text(tmp_path: Path) -> None:
    files = emitted(cells.elman(2, 3), None, tmp_path, precision="bf16")
    assert code_of(*files, precision="bf16") == code_of(*files)
    with pytest.raises(CompileError, match="precision 'int8' given for a net that has 'bf16'"):
        code_of(*files, precision="int8")
    damaged = files[0].read_text().replace("precision =", "frob =")
    with pytest.raises(CompileError, match="attributes are not as rnncc writes them"):
        code_of(Content(damaged.encode(), "net.mlir"), files[1])


@pytest.mark.parametrize(
    ("option", "what"),
    [
        ({"order": 2}, "order given for a net that is past add-gradients"),
        ({"recompute": "all"}, "recompute given for a net that is past checkpoint"),
        ({"precision": "bf16"}, "training in bf16 is for NVIDIA GPUs"),
    ],
)
def test_options_of_training_that_come_too_late(
    option: dict[str, Any], what: str, tmp_path: Path
) -> None:
    files = emitted(cells.elman(2, 3), None, tmp_path, train=True)
    with pytest.raises(CompileError, match=what):
        code_of(*files, train=True, **option)


@pytest.mark.parametrize("option", [{"shapes": {"x": "T,N,2"}}, {"bind": {"x": 1}}, {"seed": 1}])
def test_options_that_come_too_late(option: dict[str, Any], tmp_path: Path) -> None:
    text, params = emitted(cells.elman(2, 3), None, tmp_path)
    with pytest.raises(CompileError, match="given for a net that has its own"):
        code_of(text, params, **option)


def test_training_is_not_made_of_inference(tmp_path: Path) -> None:
    text, params = emitted(cells.elman(2, 3), None, tmp_path)
    with pytest.raises(CompileError, match="holds a net for inference"):
        code_of(text, params, train=True)
