"""What several test folders share."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

from rnncc.packaging.link import link_shared
from tests import samples

os.environ["RNNCC_CACHE"] = "0"  # what is tested is this compiler, not what an earlier one made
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # so a shell starts what runs in the background; tests interrupt what they start
    signal.signal(signal.SIGINT, signal.default_int_handler)
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):  # the same programs in every run; others are for developers' machines
    settings.load_profile("ci")


@pytest.fixture(scope="session")
def twice_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The hand-made model of tests/samples.py as a shared library."""
    path = tmp_path_factory.mktemp("twice") / "libtwice.so"
    link_shared(samples.compiled().code, path, "twice", samples.TRIPLE)
    return path
