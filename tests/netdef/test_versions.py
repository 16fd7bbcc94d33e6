"""SSA versions, by the rules of Caffe2's get_ssa."""

from __future__ import annotations

from rnncc.netdef import ssa
from tests.frontends.caffe2.nets import net, op


def test_in_place_writing_makes_a_new_version() -> None:
    ops, versions = ssa(net([op("Relu", "x", "x"), op("Sum", "x w", "y")], "x w", "y"))
    assert ops == [
        ([("x", 0)], [("x", 1)]),
        ([("x", 1), ("w", 0)], [("y", 1)]),
    ]
    assert versions == {"x": 1, "w": 0, "y": 1}


def test_an_undeclared_input_counts_only_without_declared_ones() -> None:
    assert ssa(net([op("Relu", "a", "b")], "x", "b"))[1] == {"x": 0, "b": 1}
    assert ssa(net([op("Relu", "a", "b")], "", "b"))[1] == {"a": 0, "b": 1}


def test_an_output_named_twice_steps_twice() -> None:
    ops, versions = ssa(net([op("Split", "x", "y y")], "x", "y"))
    assert ops[0][1] == [("y", 2), ("y", 2)]
    assert versions["y"] == 2


def test_given_versions_go_on_and_stay_as_they_are() -> None:
    versions = {"x": 4}
    ops, last = ssa(net([op("Relu", "x", "x")], "x", "x"), versions)
    assert ops == [([("x", 4)], [("x", 5)])]
    assert (versions, last) == ({"x": 4}, {"x": 5})
