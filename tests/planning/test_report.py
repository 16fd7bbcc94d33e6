from __future__ import annotations

import json

import pytest

from rnncc.planning.report import plan_report
from tests.kern_samples import Kern, N, lstm, row_major


def test_report_of_an_lstm() -> None:
    report = plan_report(lstm(64, 40, panel=16, chunk=32), {"T": 20, "N": 5})
    rows = {row.name: row for row in report.rows}
    assert list(rows) == ["x", "h0", "c0", "w", "u", "hidden_all", "hidden_last", "cell", "gates"]
    assert (rows["x"].role, rows["x"].size, rows["x"].offset) == ("input", "160*T*N", "")
    assert (rows["u"].role, rows["u"].offset) == ("param", "40960")
    assert (rows["gates"].size, rows["gates"].offset) == ("1024*N + 32768", "768*N")
    assert (
        rows["cell"].live[0] < rows["gates"].live[0] < rows["gates"].live[1] <= rows["cell"].live[1]
    )
    assert report.workspace == "1792*N + 32768"
    assert report.sizes == {"T": 20, "N": 5}
    assert report.peak == report.bound == 1792 * 5 + 32768


def test_report_as_json() -> None:
    report = plan_report(lstm(6, 5))
    again = json.loads(json.dumps(report.to_dict()))
    assert again["weights"] == 4 * 4 * 6 * (5 + 6) + 32
    assert again["ratio"] == report.peak / report.bound
    assert again["rows"][0]["name"] == "x"


def test_a_shared_place_names_the_buffer_it_came_from() -> None:
    k = Kern()
    x, a, b, y = (
        k.buffer(name, role, N * 16)
        for name, role in [("x", "input"), ("a", "scratch"), ("b", "scratch"), ("y", "output")]
    )
    for source, target in [(x, a), (a, b), (b, y)]:
        k.map(
            [N * 16],
            [(source, row_major([N * 16]))],
            [(target, row_major([N * 16]))],
            lambda _, v: [v],
        )
    report = plan_report(k.program())
    assert [row.shares for row in report.rows] == ["", "", "a", ""]
    assert report.ratio == 1


def test_a_net_without_workspace() -> None:
    report = plan_report(Kern().program())
    assert (report.workspace, report.peak, report.ratio) == ("0", 0, pytest.approx(1))
