"""The page of the pipeline is as its tool writes it."""

from __future__ import annotations

from rnncc import pipeline
from tools.write_pipeline import LISTS, PATH, page


def test_page_is_current() -> None:
    assert PATH.read_text() == page(), "run python -m tools.write_pipeline"


def test_every_step_is_on_it() -> None:
    lists = [
        value
        for name, value in vars(pipeline).items()
        if name.isupper() and isinstance(value, list)
    ]
    shown = {id(step) for steps in LISTS.values() for step in steps}
    assert len(lists) >= len(LISTS)
    assert shown >= {id(step) for steps in lists for step in steps}
