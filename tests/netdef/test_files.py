"""Files in both forms, and what is no NetDef."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnncc.errors import CompileError
from rnncc.netdef import NetDef, load, save
from tests.frontends.caffe2.nets import net, op
from tests.golden import GOLDEN

SMALL = net([op("FC", "x w b", "y", axis=2, order="NCHW", ratio=0.5)], "x w b", "y")


@pytest.mark.parametrize("text", [False, True])
def test_a_file_comes_back_as_it_was_saved(tmp_path: Path, text: bool) -> None:
    save(SMALL, tmp_path / "net", text)
    assert load(tmp_path / "net") == SMALL
    assert load((tmp_path / "net").read_bytes()) == SMALL


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*/*/*.pb")), ids=lambda p: p.parent.name)
def test_a_round_trip_loses_no_byte(path: Path) -> None:
    assert load(path).SerializeToString() == path.read_bytes()


def test_fields_that_the_schema_does_not_name_survive() -> None:
    unknown = b"\xf2\x3f\x03abc"
    assert load(SMALL.SerializeToString() + unknown).SerializeToString().endswith(unknown)


def test_a_message_of_another_library_is_taken_by_its_bytes() -> None:
    class Foreign:
        def SerializeToString(self) -> bytes:  # noqa: N802
            return SMALL.SerializeToString()

    assert load(Foreign()) == SMALL
    assert load(SMALL) is SMALL


def _nested(count: int) -> bytes:
    """A net with so many arguments, in another one with as many."""
    arguments = [{"name": "a"}] * count
    return NetDef(
        op=[{"arg": [{"n": {"op": [{"arg": arguments}]}}, *arguments]}]
    ).SerializeToString()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"op {\n  type: 'FC'\n  wrong: 3\n}", 'line 3: Message type "OperatorDef" has no field'),
        (b"op {", "line 1: Expected"),
        (b"op " + b"{ arg { n { op " * 400, "nested more than 64 deep"),
        (SMALL.SerializeToString()[:-2], "is no NetDef"),
        (b"\x00\x01\x02\x03", "is no NetDef"),
        (b"\x0a\x02\xff\xfe", "is not UTF-8"),
        # two bytes each, of which none is looked at: Python would take a thousand for each
        (b"\x12\x00" * 100_001, "has 100001 operators; at most 100000 are read"),
        (NetDef(op=[{"input": [""] * 500_001}]).SerializeToString(), "more than 500000 names"),
        (NetDef(external_input=[""] * 500_001).SerializeToString(), "more than 500000 names"),
        (_nested(300_000), "more than 500000 names"),
    ],
)
def test_what_is_no_net_is_an_error(data: bytes, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        load(data)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="No such file"):
        load(tmp_path / "nothing.pb")
    with pytest.raises(CompileError, match="Is a directory"):
        load(tmp_path)
    with pytest.raises(CompileError, match=r"int is no net \(a path, bytes"):
        load(3)
    with pytest.raises(CompileError, match=r"function is no net \(rnncc.torch.compile"):
        load(lambda x, h: (h, h))
    assert isinstance(load(b'name: "only a name"'), NetDef)
