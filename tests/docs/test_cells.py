"""docs/cells.md: its tables know every builder and option."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from rnncc import cells
from rnncc.cells.settings import LayerSettings

TEXT = (Path(__file__).parents[2] / "docs" / "cells.md").read_text()


def test_tables() -> None:
    named = set(re.findall(r"`(\w+)`", TEXT))
    builders = {name for name in cells.__all__ if name.islower()}
    missing = {*builders, *(field.name for field in fields(LayerSettings))} - {"name"} - named
    assert not missing
