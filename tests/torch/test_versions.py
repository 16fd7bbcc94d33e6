"""What PyTorch 2.11 lacks: the ways around it give the same with what is installed here."""

from __future__ import annotations

import re
import tomllib
import warnings
from importlib import metadata
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pytest

import rnncc
from tests.torch.cells import torch

rt: Any = pytest.importorskip("rnncc.torch")
tracing: Any = pytest.importorskip("rnncc.torch.tracing")
supported: Any = pytest.importorskip("rnncc.torch.supported")
watch: Any = pytest.importorskip("rnncc.frontends.torch.watching.reading")
versions: Any = pytest.importorskip("rnncc.torch.versions")
pytestmark = pytest.mark.peers
READINGS = 12


@pytest.mark.parametrize("version", ["2.11.0", "2.12.1+cu130", "2.14.1+cpu", "2.15.0"])
def test_versions(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(metadata, "version", lambda _: version)
    assert supported.refusal() is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with supported.trying():
            pass


@pytest.mark.parametrize("version", ["2.10.1", "1.13.1"])
def test_old_versions(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(metadata, "version", lambda _: version)
    assert f"PyTorch 2.11 or later, and this is {version}: pip" in supported.refusal()


@pytest.mark.parametrize("version", ["2.16.0.dev20260101+cu130", "3.0"])
def test_unknown_versions(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(metadata, "version", lambda _: version)
    known = rf"tested with PyTorch 2.11 to 2.15, and this is {re.escape(version)}"
    assert supported.refusal() is None
    with pytest.warns(UserWarning, match=known), supported.trying():
        pass
    differs = rf"{known}, which differs \(AttributeError: no such attribute\): pip install"
    with (
        pytest.warns(UserWarning),
        pytest.raises(ImportError, match=differs),
        supported.trying(),
    ):
        raise AttributeError("no such attribute")


def test_that_functions_are_read_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """A later PyTorch whose `apply` asks a class for other things would lose gradients."""
    watch.prove_watching()
    monkeypatch.setattr(watch, "watch_functions", lambda _: None)
    with pytest.raises(RuntimeError, match=r"backward of a .* cannot be read"):
        watch.prove_watching()


def test_no_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> str:
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "version", missing)
    assert "PyTorch 2.11 or later: pip install" in supported.refusal()


def test_what_is_installed_by_the_extra() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    [wanted] = project["optional-dependencies"]["torch"]
    (major, oldest), (_, newest) = supported.OLDEST, supported.NEWEST
    assert wanted == f"torch>={major}.{oldest},<{major}.{newest + 1}"


def most_readings(monkeypatch: pytest.MonkeyPatch, has_limits: bool) -> int:
    """How often a cell is read in 24 calls with 12 values of what it depends on."""
    monkeypatch.setattr(versions, "HAS_LIMITS", has_limits)
    monkeypatch.setattr(tracing, "_readers", WeakKeyDictionary())
    factor, count = [0.0], [0]

    def cell(x: Any, h: Any) -> Any:
        seen()
        return h, h + factor[0]

    @torch.compiler.assume_constant_result
    def seen() -> int:
        count[0] += 1
        return 0

    for number in [*range(READINGS), *range(READINGS)]:
        factor[0] = float(number)
        assert rt.scan(cell, torch.zeros(2, 3), torch.zeros(3))[1].tolist() == [2.0 * number] * 3
    return count[0]


@pytest.mark.parametrize("has_limits", [versions.HAS_LIMITS, False])
def test_readings_are_kept(monkeypatch: pytest.MonkeyPatch, has_limits: bool) -> None:
    """All of them, though there are more than TorchDynamo's limit for one function."""
    assert torch._dynamo.config.recompile_limit < READINGS
    assert most_readings(monkeypatch, has_limits) == READINGS


def doubled(x: Any, h: Any) -> Any:
    return h, h + 2 * x


@pytest.mark.parametrize("stance", ["force_eager", "eager_on_recompile", "fail_on_recompile"])
def test_cells_are_read_whatever_the_stance(stance: str) -> None:
    torch._dynamo.reset()
    for batch in (1, 3):  # one sequence has a loop of its own
        with torch.compiler.set_stance(stance):
            last = rt.scan(doubled, torch.ones(2, batch, 1), torch.zeros(batch, 1))[1]
            assert torch._dynamo.eval_frame._stance.stance == stance
        assert last.tolist() == [[4.0]] * batch


@pytest.mark.parametrize(
    ("name", "value"), [("verify_correctness", True), ("assume_static_by_default", False)]
)
def test_cells_are_read_whatever_the_settings(name: str, value: bool) -> None:
    torch._dynamo.reset()
    with torch._dynamo.config.patch(name, value):
        for batch in (2, 3):
            last = rt.scan(doubled, torch.ones(2, batch, 1), torch.zeros(batch, 1))[1]
            assert last.tolist() == [[4.0]] * batch
        assert getattr(torch._dynamo.config, name) is value


def test_disabled_reading_is_refused() -> None:
    torch._dynamo.reset()
    refusal = pytest.raises(rnncc.CompileError, match="doubled: TorchDynamo is disabled")
    with torch._dynamo.config.patch(disable=True), refusal:
        rt.scan(doubled, torch.ones(2, 2, 1), torch.zeros(2, 1))
    last = rt.scan(doubled, torch.ones(2, 2, 1), torch.zeros(2, 1))[1]  # is read after all
    assert last.tolist() == [[4.0], [4.0]]


def test_a_cell_without_anything_to_compute() -> None:
    assert rt.scan(lambda x, state: (None, state), torch.ones(2, 3), ()) == (None, ())


def test_the_limit_of_other_functions_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "HAS_LIMITS", False)
    rt.scan(lambda x, h: (h, h + x), torch.zeros(2, 3), torch.zeros(3))
    terms = list[float]()
    function = torch.compile(lambda x: x + sum(terms), backend="eager", fullgraph=True)
    with pytest.raises(torch._dynamo.exc.FailOnRecompileLimitHit):
        for number in range(READINGS):
            terms.append(float(number))
            function(torch.zeros(2))
