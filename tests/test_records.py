"""Values that are told apart by their fields, as those of frozen dataclasses are."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field, replace
from typing import Any

from rnncc.records import record


@dataclass(frozen=True)
class Frozen:
    name: str
    sizes: tuple[int, ...] = ()
    note: str = field(default="", compare=False)
    secret: int = field(default=0, repr=False)


@record
class Record:
    name: str
    sizes: tuple[int, ...] = ()
    note: str = field(default="", compare=False)
    secret: int = field(default=0, repr=False)


@record
class More(Record):
    more: float = 0.0


@record
class Empty:
    pass


@record(eq=False)
class Own:
    name: str


@record
class Told:
    name: str

    def __repr__(self) -> str:
        return self.name


def test_a_record_is_what_a_frozen_dataclass_is():
    drawn: list[Any] = [
        ("a", (1, 2)),
        ("a", (1, 2), "n"),
        ("a", (1, 2), "", 1),
        ("a",),
        ("b", (1, 2)),
    ]
    frozen = [Frozen(*values) for values in drawn]
    records = [Record(*values) for values in drawn]
    for k, one in enumerate(frozen):
        assert repr(records[k]) == repr(one).replace("Frozen", "Record")
        assert [records[k] == other for other in records] == [one == other for other in frozen]
        assert hash(records[k]) == hash(one)


def test_classes_are_told_apart_and_fields_inherited():
    assert More("a", (1,), more=0.5) == More("a", (1,), "note", more=0.5)
    assert More("a", more=0.5) != More("a", more=1.5)
    assert More("a") != Record("a") != More("a")
    assert Record("a") != ("a", (), 0)
    assert Empty() == Empty() and hash(Empty()) == hash(Empty())
    assert replace(Record("a"), name="b") == Record("b")
    assert pickle.loads(pickle.dumps(Record("a", (3,)))) == Record("a", (3,))


def test_records_without_equality_are_each_their_own():
    assert Own("a") != Own("a")
    assert len({Own("a"), Own("a")}) == 2
    assert repr(Told("shown")) == "shown"
