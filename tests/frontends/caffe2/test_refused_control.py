"""Forms of control operators that are refused: each with its message."""

from __future__ import annotations

import pytest

from rnncc.errors import CompileError
from rnncc.frontends.caffe2 import import_net
from rnncc.frontends.caffe2.reference import entries
from rnncc.netdef import parse_text

BRANCH = """op {{ input: "{c}" input: "x" output: "y" type: "If"
  arg {{ name: "then_net" n {{ op {{ input: "x" output: "y" type: "Cast"
    arg {{ name: "to" i: 1 }} }} }} }}
  arg {{ name: "else_net" n {{ op {{ input: "x" output: "y" type: "Cast"
    arg {{ name: "to" i: {to} }} }} }} }} }}
external_input: "c" external_input: "x" external_output: "y" """
TO_INT = 'op { input: "c" output: "i" type: "Cast" arg { name: "to" i: 2 } } '
DO = """op {{ {scope} output: "s" type: "{kind}" }}
op {{ input: "x" input: "s" output: "y" output: "s" type: "Do"
  arg {{ name: "net" n {{ op {{ input: "x" output: "y" type: "Relu" }} }} }}
  arg {{ name: "inner_blobs" strings: "x" strings: "y" }}
  arg {{ name: "outer_blobs_idx" ints: 0 ints: 1 }} }}
external_input: "x" external_output: "y" """
CONTROL = [
    ("a condition that is not one bool", BRANCH.format(c="c", to=1), "of shape [2], not one bool"),
    (
        "a condition that is not one bool",
        'op { output: "s" type: "CreateScope" } ' + BRANCH.format(c="s", to=1),
        "is a scope, not a tensor",
    ),
    ("a condition that is not one bool", TO_INT + BRANCH.format(c="i", to=1), "i32, not bool"),
    (
        "branches that leave a blob in several shapes or types",
        BRANCH.format(c="c", to=2),
        "differs between the branches",
    ),
    (
        "a scope that no CreateScope has written",
        DO.format(kind="Copy", scope='input: "x"'),
        "which is no scope",
    ),
]


@pytest.mark.parametrize(("form", "text", "told"), CONTROL)
def test_control_is_refused(form: str, text: str, told: str) -> None:
    stated = {form for entry in entries()["Control"] for form in entry.refused}
    assert form in stated
    shapes = {"x": (2, 3), **({"c": (2,)} if "shape [2]" in told else {})}
    with pytest.raises(CompileError) as caught:
        import_net(parse_text(text, ""), shapes=shapes)
    assert told in str(caught.value)


def test_control_is_taken_otherwise() -> None:
    for text in (BRANCH.format(c="c", to=1), DO.format(kind="CreateScope", scope="")):
        import_net(parse_text(text, ""), shapes={"x": (2, 3)})
