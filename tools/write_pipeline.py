"""Writes docs/pipeline.md from the lists of rnncc/pipeline.py: python -m tools.write_pipeline"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path

from rnncc import pipeline
from rnncc.ir.rewriting import NetPass
from rnncc.stages.compilation import Step
from tools.wrapping import wrap

PATH = Path(__file__).parents[1] / "docs" / "pipeline.md"
HEAD = """# The pipeline

Written by `tools/write_pipeline.py` from the lists of `rnncc/pipeline.py`; do not edit.

`rnncc compile` runs the steps of import, then those of streaming and inference, or with `--train`
those of training, then lowering and code. `--stop-after STEP` with `--emit rnn` or `--emit kern`
shows what a step leaves, `--dump-ir DIR` writes it for each, `--time-passes` times each,
`--verify-each` checks each. What is shown is what is compiled: all programs in one module that
stock `xdsl-opt` parses, with what else the steps that follow need as its attribute `rnncc`.
`--emit rnn -o NET.rnn.mlir` writes the parameters beside it, as `NET.npz`; from both,
`rnncc compile NET.rnn.mlir --params NET.npz` goes on where the text says that it stands. The text
states the options that the steps behind it read, such as `--precision`, `--max-steps` or
`--flush-denormals`; it names no machine, so `--target`, `--cpu` and `--gpu` are chosen then.

A step that is a pass on `rnn` runs on every net there is; `xdsl-opt -p NAME` runs it on any file.
"""
LISTS = {
    "Import": pipeline.IMPORT,
    "Streaming": pipeline.STREAMING,
    "Inference": pipeline.INFERENCE,
    "Training": pipeline.TRAINING,
    "Lowering": pipeline.LOWERING,
    "Code": pipeline.CODE,
}


def page() -> str:
    """The whole page."""
    return wrap(HEAD + "".join(_table(title, steps) for title, steps in LISTS.items()))


def _table(title: str, steps: Sequence[Step]) -> str:
    rows = "".join(f"| `{s.name}` | {_pass(s)} | {_what(s)} | {s.why} |\n" for s in steps)
    columns = "| step | pass | what it does | why it stands there |\n|---|---|---|---|\n"
    return f"\n## {title}\n{columns}{rows}"


def _pass(step: Step) -> str:
    return f"`{step.action.name}`" if isinstance(step.action, NetPass) else ""


def _what(step: Step) -> str:
    """The first sentence of the docstring."""
    action = step.action
    text = inspect.getdoc(type(action) if isinstance(action, NetPass) else action) or ""
    return text.split("\n\n")[0].replace("\n", " ").split(". ")[0].rstrip(".")


if __name__ == "__main__":
    PATH.write_text(page())
