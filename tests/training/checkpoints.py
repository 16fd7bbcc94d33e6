"""Nets compiled for training with checkpoints at a given distance."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rnncc_runtime import TrainableModel

from rnncc.driver.compiling import load_library
from rnncc.ir.ops.chunks import Chunks
from rnncc.ir.program import Program
from rnncc.options import Options
from rnncc.passes.gradients.checkpointing.checkpoint import checkpoint
from rnncc.passes.gradients.split_phases import Phases
from rnncc.stages.reading import import_source
from rnncc.stages.training import numbered
from tests.compiling import trained_library, training_of
from tests.golden import arrays_of

BEFORE = "simplify-packed"
"""The last step before that of checkpoints."""


def phases_of(program: Program, chunks: tuple[int, ...], **options: Any) -> tuple[Phases, Phases]:
    """Both halves without checkpoints and with them, where loops can be cut."""
    c = training_of(program, Options.of(program, {"train": True, **options}), BEFORE)
    assert c.phases is not None
    whole = c.phases
    cut = checkpoint(whole, chunks) or whole
    whole, cut = numbered(whole, c.trip_counts), numbered(cut, c.trip_counts)
    for half in (cut.forward, cut.backward):
        half.module.verify()
    return whole, cut


def compiled(
    program: Program, chunks: tuple[int, ...], **options: Any
) -> tuple[TrainableModel, TrainableModel]:
    """The same, in memory."""
    chosen = Options.of(program, {"train": True, **options})
    made = (
        load_library(trained_library(training_of(program, chosen), phases), chosen)
        for phases in phases_of(program, chunks, **options)
    )
    whole, cut = made
    assert isinstance(whole, TrainableModel) and isinstance(cut, TrainableModel)
    return whole, cut


@cache
def cut_model(case: Path, chunks: tuple[int, ...]) -> TrainableModel:
    """A golden net in memory."""
    wanted = list(arrays_of(case, "weight:"))
    options = Options.of(case / "net.pb", {"train": True, "outputs_with_grads": wanted})
    program = import_source(case / "net.pb", case / "init.pb", options)
    c = training_of(program, options)
    assert c.phases is not None
    cut = checkpoint(c.phases, chunks)
    assert (cut is None) == ("unrolled" in case.name), "a net with loops has checkpoints"
    model = load_library(trained_library(c, cut or c.phases), options)
    assert isinstance(model, TrainableModel)
    return model


def bodies(phases: Phases) -> list[Chunks]:
    """The loops over runs of both halves, inner ones behind outer ones."""
    halves = (phases.forward, phases.backward)
    return [op for half in halves for op in half.net.walk() if isinstance(op, Chunks)]


def taken(model: TrainableModel, sizes: Mapping[str, int]) -> int:
    """Bytes of tape and workspace that the library asks for."""
    symbols = [sizes[name] for name in model.metadata["symbols"]]
    functions = model._functions
    return functions["tape_bytes"](*symbols) + functions["workspace_bytes"](*symbols)
