"""The character model of examples/: it learns, each time alike, and goes on where it stopped."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[2] / "examples/train_char_rnn.py"
VERSE = "the wind that shakes the barley, the wind that turns the mill; "
SMALL = ["--units", "32", "--batch", "4", "--length", "16", "--rate", "0.01", "--write", "63"]

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def example() -> Any:
    spec = importlib.util.spec_from_file_location("train_char_rnn", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["train_char_rnn"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(VERSE * 16)
    return path


def test_it_learns_each_time_alike(example: Any, text: Path, capsys: Capture) -> None:
    """The text repeats itself: what remains is the loss before a part is recognised."""
    losses = example.main([str(text), *SMALL, "--updates", "300", "--temperature", "0.1"])
    printed = capsys.readouterr().out.splitlines()
    assert np.mean(losses[:5]) > 2.5
    assert np.mean(losses[-15:]) < 0.15
    assert printed[0].startswith("300 updates, loss ")
    words = printed[1].split()[1:-1]
    assert len(words) > 5
    assert set(words) <= set(VERSE.split())
    again = example.main([str(text), *SMALL, "--updates", "40"])
    assert losses[:40] == again


def test_it_goes_on_where_it_stopped(example: Any, text: Path, tmp_path: Path) -> None:
    saved = ["--checkpoint", str(tmp_path / "saved.npz")]
    whole = example.main([str(text), *SMALL, "--updates", "25"])
    part = example.main([str(text), *SMALL, *saved, "--updates", "11"])
    assert whole[:11] == part
    assert example.main([str(text), *SMALL, *saved, "--updates", "25"]) == whole
    assert {path.name for path in tmp_path.iterdir()} == {"text.txt", "saved.npz"}


def test_a_checkpoint_of_another_run_is_refused(example: Any, text: Path, tmp_path: Path) -> None:
    saved = ["--checkpoint", str(tmp_path / "saved.npz"), "--updates", "1"]
    example.main([str(text), *SMALL, *saved])
    with pytest.raises(SystemExit, match=r"saved.npz: is of another --units"):
        example.main([str(text), *SMALL, *saved, "--units", "31"])
    with pytest.raises(SystemExit, match=r"saved.npz: is of another text or --batch"):
        example.main([str(text), *SMALL, *saved, "--batch", "3"])


def test_the_curve_is_a_picture(example: Any, text: Path, tmp_path: Path) -> None:
    path = tmp_path / "loss.svg"
    losses = example.main([str(text), *SMALL, "--updates", "20", "--curve", str(path)])
    root = ElementTree.parse(path).getroot()
    lines = root.findall("{http://www.w3.org/2000/svg}polyline")
    heights = [float(point.split(",")[1]) for point in lines[0].attrib["points"].split()]
    assert len(heights) == len(losses)
    assert np.argsort(heights).tolist() == np.argsort(losses)[::-1].tolist()


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "No such file"), (b"\xff\xfe\xfd", "utf-8"), (b"short", "has 5 characters: too few")],
)
def test_texts_that_will_not_do(
    example: Any, tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "bad.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SystemExit, match=message):
        example.main([str(path), *SMALL])
