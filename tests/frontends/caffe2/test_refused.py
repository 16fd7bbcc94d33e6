"""The forms that docs/operators.md calls refused are: each is fed to the importer."""

from __future__ import annotations

from typing import Any

import pytest

from rnncc.errors import CompileError
from rnncc.frontends.caffe2 import REFUSED, import_net
from rnncc.frontends.caffe2.reference import OperatorGroup, entries
from tests.frontends.caffe2.refused_forms import FORMS
from tests.frontends.caffe2.refused_nets import Maker, one

PLAIN = [
    entry
    for family, operators in entries().items()
    if family not in ("Control", "Gradients of control")
    for entry in operators
]


def feeds() -> list[Any]:
    """(operator, how, message), for each operator and each form that it refuses."""
    return [
        pytest.param(kind, make, told, id=f"{kind}-{form[:40]}")
        for entry in PLAIN
        for form in entry.refused
        for kinds, make, told in FORMS.get(form, ())
        for kind in entry.kinds
        if kinds == "*" or kind in kinds.split()
    ]


@pytest.mark.parametrize(("kind", "make", "told"), feeds())
def test_it_is_refused(kind: str, make: Maker, told: str) -> None:
    made, shapes = make(kind)
    with pytest.raises(CompileError) as caught:
        import_net(made, shapes=dict(shapes))
    assert any(text in str(caught.value) for text in told.split("|"))


def test_all_forms_have_a_case() -> None:
    stated = {form for entry in PLAIN for form in entry.refused}
    assert stated == set(FORMS)


@pytest.mark.parametrize("entry", PLAIN, ids=lambda entry: entry.kinds[0])
def test_every_operator_says_what_it_does(entry: OperatorGroup) -> None:
    assert entry.about.endswith(".")
    assert not any(form.endswith(".") for form in entry.refused)


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_refused_altogether(kind: str) -> None:
    made, shapes = one("x n")(kind)
    with pytest.raises(CompileError, match="is not supported"):
        import_net(made, shapes=dict(shapes))
