"""The corpus of bad nets: each ends in its one-line error, quickly and without much memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from time import process_time

import pytest

from rnncc.errors import CompileError
from rnncc.frontends.caffe2 import import_net
from tests.frontends.caffe2.bad.cases import CASES, Case

LINES = (Path(__file__).parent / "bad" / "expected.txt").read_text().splitlines()
EXPECTED = dict(line.split(" = ", 1) for line in LINES)


@pytest.mark.parametrize("name", CASES)
def test_bad_net(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert _error(CASES[name]).startswith(EXPECTED[name].removesuffix("...)"))


def test_bad_nets_cost_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tracemalloc.start()
    for name, case in CASES.items():
        start = process_time()
        _error(case)
        assert process_time() - start < 2, name
    assert tracemalloc.get_traced_memory()[1] < 64 << 20
    tracemalloc.stop()


def test_each_case_has_its_error_beside_it() -> None:
    assert list(EXPECTED) == list(CASES)
    assert len(CASES) >= 60


def _error(case: Case) -> str:
    """The error of importing a case from files in the working directory."""
    init = None
    for name, net in (("net.pb", case.net), ("init.pb", case.init)):
        if net is not None:
            Path(name).write_bytes(net if isinstance(net, bytes) else net.SerializeToString())
            init = name
    with pytest.raises(CompileError) as caught:
        import_net("net.pb", None if case.init is None else init, case.shapes)
    assert "\n" not in str(caught.value)
    return str(caught.value)
