"""A budget of memory on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rnncc.cli import main
from rnncc.errors import CompileError
from rnncc.sizes import all_sizes, parse_bytes

ROOT = Path(__file__).parents[2]
NET = [str(ROOT / "examples/lstm.pbtxt"), "--init", str(ROOT / "examples/lstm_init.pbtxt")]
AT = ["--plan-for", "2000,8"]

Capture = pytest.CaptureFixture[str]


def test_plan_tells_the_checkpoints(capsys: Capture) -> None:
    taken: list[int] = []
    for budget in ([], ["--memory-budget", "32M"]):
        assert main(["plan", *NET, "--train", *budget, *AT, "--json"]) == 0
        report = json.loads(capsys.readouterr().out)
        taken.append(report["peak"] + report["shared"][0]["bytes"])
    assert taken[0] > 2**25 >= taken[1]
    assert f"of {2**25} bytes" in report["checkpoints"]
    assert main(["plan", *NET, "--train", "--memory-budget", "32M", *AT]) == 0
    assert report["checkpoints"] in capsys.readouterr().out.splitlines()


def test_compile_tells_the_checkpoints(tmp_path: Path, capsys: Capture) -> None:
    words = ["--train", "--memory-budget", "32M", *AT, "-v", "-o", str(tmp_path)]
    assert main(["compile", *NET, *words, "--products", "o,h"]) == 0
    assert "\ncheckpoints every " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--train", "--memory-budget", "1K", *AT], "1024 bytes cannot be met at T=2000, N=8: the"),
        (["--train", "--memory-budget", "1K"], "a budget of memory needs a value for T, N"),
        (["--train", "--memory-budget", "lots", *AT], "'lots' is not a number of bytes"),
        (["--memory-budget", "1K", *AT], "memory_budget goes with train"),
    ],
)
def test_errors(words: list[str], message: str, capsys: Capture) -> None:
    assert main(["plan", *NET, *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "count"), [(7, 7), ("12", 12), ("3K", 3072), ("2M", 2**21), ("1G", 2**30)]
)
def test_bytes(text: str | int, count: int) -> None:
    assert parse_bytes(text, "memory_budget") == count


@pytest.mark.parametrize("text", ["", "K", "1.5M", "-3", "2 M", "1T"])
def test_what_is_no_number_of_bytes(text: str) -> None:
    with pytest.raises(CompileError, match="is not a number of bytes"):
        parse_bytes(text, "memory_budget")


@pytest.mark.parametrize("given", ["5,4", "N=4,T=5", (5, 4), {"T": 5, "N": 4}])
def test_sizes(given: object) -> None:
    assert all_sizes(given, ["T", "N"], ["T"], "a budget") == {"T": 5, "N": 4}  # type: ignore[arg-type]
