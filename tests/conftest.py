"""What several test folders share."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from rnncc.packaging.link import link_shared
from tests import draw, samples
from tests.golden import CASES, CONTROL, SHARED
from tests.quick_torch import quicken

os.environ["RNNCC_CACHE"] = "0"  # what is tested is this compiler, not what an earlier one made
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # so a shell starts what runs in the background; tests interrupt what they start
    signal.signal(signal.SIGINT, signal.default_int_handler)
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):  # the same programs in every run; others are for developers' machines
    settings.load_profile("ci")


def pytest_addoption(parser: pytest.Parser) -> None:
    draw.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--draw"):
        draw.draw_examples()
        config.pluginmanager.register(draw.Draw())
    if config.getoption("--record-seconds"):
        config.pluginmanager.register(draw.Record())


def pytest_report_header() -> str:
    which = "all of ../shared" if SHARED.is_dir() else "those of the repository, without ../shared"
    return f"golden nets: {len(CASES)}, and {len(CONTROL)} with control flow: {which}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not SHARED.is_dir():
        for item in items:
            if item.get_closest_marker("shared"):
                item.add_marker(pytest.mark.skip(reason="needs ../shared, which is not here"))


def pytest_collection_finish() -> None:
    """Look for garbage seldom: each look goes through all tests and what they keep compiled."""
    quicken()
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


@pytest.fixture
def one_in(pytestconfig: pytest.Config) -> Callable[[int], slice]:
    """For what one test does many times: with `--draw` one in so many, else all."""
    return lambda count: slice(None, None, count if pytestconfig.getoption("--draw") else 1)


@pytest.fixture(scope="session")
def twice_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The hand-made model of tests/samples.py as a shared library."""
    path = tmp_path_factory.mktemp("twice") / "libtwice.so"
    link_shared(samples.compiled().code, path, "twice", samples.TRIPLE)
    return path
