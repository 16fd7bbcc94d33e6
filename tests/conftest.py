"""What several test folders share."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnncc.packaging.link import link_shared
from tests import samples


@pytest.fixture(scope="session")
def twice_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The hand-made model of tests/samples.py as a shared library."""
    path = tmp_path_factory.mktemp("twice") / "libtwice.so"
    link_shared(samples.compiled().object_code, path, "twice", samples.TRIPLE)
    return path
