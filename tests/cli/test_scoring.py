"""`rnncc run` on tables: Parquet in batches of rows, text with commas."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from rnncc_runtime import Model, TensorSpec

import rnncc
from rnncc.cli import main
from rnncc.commands.run.arrays import fitted, read_arrays, read_csv, scoring_of
from rnncc.commands.run.parquet import batches, opened
from rnncc.commands.run.scoring import Scoring, batch_of, rows_of
from rnncc.errors import CompileError
from rnncc.sources import limited

ROOT = Path(__file__).parents[2]
NET = [str(ROOT / "examples/lstm.pbtxt"), str(ROOT / "examples/lstm_init.pbtxt")]
HOW = Scoring(Path("t.parquet"), "", {"h0": 0.0, "c0": 0.0}, 4, 1, "seq_lengths")
PLAIN = replace(HOW, lengths="")

READING = """
import sys
from pathlib import Path
from rnncc.commands.run.parquet import batches, opened
from rnncc.errors import CompileError
from rnncc.sources import limited

source = Path(sys.argv[1])
try:
    with limited(8 << 20):
        list(batches(opened(source), source, 256))
except CompileError as error:
    print(error)
with limited(1 << 30):
    assert sum(table.num_rows for table in batches(opened(source), source, 256)) == 20_001
"""
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def model() -> Model:
    return rnncc.compile(*NET)


def sequences(lengths: list[int]) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=(length, 64)).astype(np.float32) for length in lengths]


def alone(model: Model, x: np.ndarray[Any, Any]) -> dict[str, Any]:
    zeros = np.zeros((1, 1, 128), np.float32)
    lengths = np.array([len(x)], np.int32)
    return model.run({"x": x[:, None], "seq_lengths": lengths, "h0": zeros, "c0": zeros})


def test_each_row_has_the_bits_that_it_has_alone(model: Model) -> None:
    rows = sequences([3, 1, 5])
    inputs, lengths = batch_of(model.inputs, {"x": rows}, HOW)
    assert inputs["x"].shape == (5, 3, 64) and lengths == [3, 1, 5]
    found = rows_of(model.outputs, model.run(inputs), lengths)
    for place, row in enumerate(rows):
        expected = alone(model, row)
        for name in ("probabilities", "hidden_last"):
            axis = model.outputs[name].shape.index("N")
            assert np.array_equal(found[name][place], expected[name].take(0, axis))


def test_flat_rows_are_cut_at_the_width(model: Model) -> None:
    rows = sequences([3, 2])
    flat, _ = batch_of(model.inputs, {"x": [row.ravel() for row in rows]}, HOW)
    whole, _ = batch_of(model.inputs, {"x": rows}, HOW)
    assert np.array_equal(flat["x"], whole["x"])


def test_rows_that_do_not_fit_are_refused(model: Model) -> None:
    with pytest.raises(CompileError, match=r"x has a row of shape \[3, 5\], expected \[T, 64\]"):
        batch_of(model.inputs, {"x": [np.zeros((3, 5), np.float32)]}, HOW)
    plain = rnncc.compile(rnncc.cells.lstm(2, 3))
    ragged = [np.zeros((3, 2), np.float32), np.zeros((2, 2), np.float32)]
    for specs, rows in ((plain.inputs, ragged), (model.inputs, sequences([3, 2]))):
        with pytest.raises(CompileError, match="different lengths, and no input is named"):
            batch_of(specs, {"x": rows}, PLAIN)


def test_rows_that_make_no_batch_are_refused() -> None:
    read = TensorSpec.read
    specs = {"x": read({"name": "x", "shape": ["N", "S", 4], "dtype": "f32"})}
    other = [np.zeros((size, 4), np.float32) for size in (2, 3, 2)]
    with pytest.raises(CompileError, match=r"x has rows of shapes \[2, 4\], \[3, 4\]"):
        batch_of(specs, {"x": other}, PLAIN)
    specs = {"x": read({"name": "x", "shape": ["T", "N", 4], "dtype": "f32"})}
    one_long = [np.zeros((size, 4), np.float32) for size in (1, 1 << 15, *[1] * 30)]
    with limited(1 << 20), pytest.raises(CompileError, match="x of 32 rows of 32768 steps: holds"):
        batch_of(specs, {"x": one_long}, PLAIN)


def test_numbers_beside_a_table() -> None:
    how = scoring_of(["t.parquet", "h0=0", "c0=1.5"], 4, 2)
    assert how is not None and how.constants == {"h0": 0.0, "c0": 1.5}
    assert scoring_of(["x=a.npy"], None, 2) is None
    with pytest.raises(CompileError, match="beside a table an input is a number"):
        scoring_of(["t.parquet", "h0=h.npy"], 4, 2)


def test_parquet_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(CompileError, match=r"needs pyarrow \(pip install 'rnncc\[parquet\]'\)"):
        opened(Path("t.parquet"))


def test_parquet(model: Model, tmp_path: Path, capsys: Capture) -> None:
    pyarrow: Any = pytest.importorskip("pyarrow")
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    rows = sequences([3, 1, 5, 4, 2, 7])
    table = pyarrow.table(
        {"id": list("abcdef"), "when": range(6), "x": [row.tolist() for row in rows]}
    )
    source, out = tmp_path / "t.parquet", tmp_path / "y.parquet"
    parquet.write_table(table, source)
    words = ["run", *NET, "-i", str(source), "-i", "h0=0", "-i", "c0=0", "--batch", "4"]
    words += ["--lengths", "seq_lengths"]
    assert main([*words, "-o", str(out)]) == 0
    found = parquet.read_table(out)
    assert found["id"].to_pylist() == list("abcdef")
    for place, row in enumerate(rows):
        got = np.array(found["probabilities"][place].as_py(), np.float32)
        assert np.array_equal(got, alone(model, row)["probabilities"][:, 0])
    assert main(words) == 0
    printed = capsys.readouterr()
    assert "hidden_last" in printed.out and "6 rows" in printed.err
    assert main([*words, "-o", str(tmp_path / "y.npz")]) == 2
    assert "probabilities has rows of different shapes" in capsys.readouterr().err
    assert main(["run", *NET, "-i", str(source)]) == 2
    assert "has no column for seq_lengths, h0, c0" in capsys.readouterr().err
    numbered = tmp_path / "numbered.parquet"
    parquet.write_table(table.drop_columns("id"), numbered)
    assert main(["run", *NET, "-i", str(numbered), *words[5:9]]) == 2  # `when` are no lengths
    assert "has no column for seq_lengths" in capsys.readouterr().err
    assert main(["run", *NET, "-i", str(source), "--lengths", "x"]) == 2
    assert "--lengths: x is no input of integers [N]" in capsys.readouterr().err
    for option in (["--lengths", "x"], ["--batch", "7"]):
        assert main(["run", *NET, "-i", str(ROOT / "examples/lstm.npz"), *option]) == 2
        assert f"{option[0]}: goes with a table" in capsys.readouterr().err
    source.write_text("none")
    assert main(words) == 2
    assert "is no table in Parquet" in capsys.readouterr().err


def test_columns_that_do_not_fit(model: Model, tmp_path: Path, capsys: Capture) -> None:
    pyarrow: Any = pytest.importorskip("pyarrow")
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    x, source = [row.tolist() for row in sequences([3, 3])], tmp_path / "t.parquet"
    words = ["run", *NET, "-i", str(source), "-i", "h0=0", "-i", "c0=0"]
    for columns, told in (
        ({"x": x, "seq_lengths": [3, 2.5]}, "seq_lengths is int32, and is given other numbers"),
        ({"x": x, "seq_lengths": [3, 2**40]}, "seq_lengths is int32, and is given other numbers"),
        ({"x": x, "seq_lengths": ["3", "3"]}, "column seq_lengths: is of string, expected numbers"),
        ({"x": x, "seq_lengths": [3, None]}, "column seq_lengths: holds null, 1 times"),
    ):
        parquet.write_table(pyarrow.table(columns), source)
        assert main(words) == 2
        assert f"{source}: {told}" in capsys.readouterr().err
    parquet.write_table(pyarrow.table([x, x], ["x", "x"]), source)
    assert main(words) == 2
    assert f"{source}: has two columns named x" in capsys.readouterr().err


def test_tables_that_unpack_to_too_much_are_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyarrow: Any = pytest.importorskip("pyarrow")
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    source = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.table({"x": [[0.0] * 100_000] * 9}), source)
    assert source.stat().st_size < 10_000
    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", None)
    with (
        limited(1 << 20),
        pytest.raises(CompileError, match=r"2 rows \(--batch\): holds"),
    ):
        next(batches(opened(source), source, 2))


@pytest.mark.skipif(sys.platform != "linux", reason="the system bounds memory")
def test_a_row_larger_than_the_others_is_not_unpacked(tmp_path: Path) -> None:
    """Batches are small on average; a few hundred bytes of the file stand for the large row."""
    pyarrow: Any = pytest.importorskip("pyarrow")
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    source, small, large = tmp_path / "t.parquet", 20_000, 50_000_000
    ends = np.array([*range(small + 1), small + large], np.int32)
    rows = pyarrow.ListArray.from_arrays(ends, pyarrow.array(np.zeros(ends[-1], np.float32)))
    parquet.write_table(pyarrow.table({"x": rows}), source)
    del rows
    assert source.stat().st_size < 2000
    command = [sys.executable, "-c", READING, str(source)]  # whose memory holds nothing yet
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    # After decoding, the error would name the 33 rows of the last batch.
    assert "256 rows (--batch): holds more than 8388608 bytes" in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-i", "zz=0"], "--input: zz is no input (inputs: x, seq_lengths, h0, c0)"),
        (["-i", "h0=1"], "--input: 'h0=1': h0 has a number already"),
        (["-i", "seq_lengths=2"], "--lengths: seq_lengths gets a number already"),
        (["-i", "zz={table}"], "--input: zz is no input that a column could be (inputs: x)"),
        (["-i", "{table}", "-o", "{out}"], "column hidden_last has the name of an output"),
        (["-i", "{table}", "--max-input", "9999"], "2 rows (--batch): holds more than 9999 bytes"),
    ],
)
def test_what_a_table_would_leave_unread(
    words: list[str], told: str, model: Model, tmp_path: Path, capsys: Capture
) -> None:
    """Each was ignored in silence."""
    pyarrow: Any = pytest.importorskip("pyarrow")
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    table, out = tmp_path / "t.parquet", tmp_path / "y.parquet"
    rows = [row.tolist() for row in sequences([20, 30])]
    parquet.write_table(pyarrow.table({"hidden_last": [1, 2], "x": rows}), table)
    words = [word.format(table=table, out=out) for word in words]
    if not any(str(table) in word for word in words):
        words = ["-i", str(table), *words]
    others = ["-i", "h0=0", "-i", "c0=0", "--lengths", "seq_lengths"]
    assert main(["run", *NET, *others, *words]) == 2
    assert told in capsys.readouterr().err and not out.exists()


def test_a_table_without_rows(model: Model, tmp_path: Path) -> None:
    """The outputs are a table, or arrays, without rows; the file was empty."""
    pyarrow: Any = pytest.importorskip("pyarrow")
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    source, table, arrays = (tmp_path / name for name in ("t.parquet", "y.parquet", "y.npz"))
    rows = [row.tolist() for row in sequences([2])]
    parquet.write_table(pyarrow.table({"id": [1], "x": rows}).slice(0, 0), source)
    words = ["run", *NET, "-i", str(source), "-i", "h0=0", "-i", "c0=0", "--lengths", "seq_lengths"]
    assert main([*words, "-o", str(table)]) == 0
    written = parquet.read_table(table)
    assert written.num_rows == 0 and written.column_names[:2] == ["id", "probabilities"]
    assert main([*words, "-o", str(arrays)]) == 0
    assert np.load(arrays)["probabilities"].shape == (0, 0, 64)


def test_text_with_commas(model: Model, tmp_path: Path) -> None:
    (row,) = sequences([4])
    lines = [",".join(map(repr, step)) for step in row.astype(float).tolist()]
    for name, head in (("a.csv", []), ("b.csv", [",".join(f"c{i}" for i in range(64))])):
        path = tmp_path / name
        path.write_text("\n".join([*head, *lines]) + "\n")
        found = fitted({"x": read_csv(path)}, model)["x"]
        assert found.dtype == np.float32 and np.array_equal(found, row[:, None])


def test_numbers(model: Model, tmp_path: Path) -> None:
    """`NAME=0` is for all elements; the sizes are those of the other inputs."""
    np.save(tmp_path / "x.npy", np.zeros((5, 3, 64), np.float32))
    given = read_arrays([f"x={tmp_path}/x.npy", "seq_lengths=5", "h0=0.5", "c0=0"])
    found = fitted(given, model)
    assert np.array_equal(found["seq_lengths"], np.full(3, 5, np.int32))
    assert found["h0"].shape == (1, 3, 128) and (found["h0"] == 0.5).all()
    (tmp_path / "half.csv").write_text("2.5")
    (tmp_path / "x.csv").write_text("\n".join([",".join(["1"] * 64)] * 5))
    assert fitted(read_arrays([f"x={tmp_path}/x.csv", "c0=0"]), model)["c0"].shape == (1, 1, 128)
    for texts, told in (
        (["c0=0"], r"no other input tells the size N \(missing: x, seq_lengths, h0\)"),
        (
            [f"x={tmp_path}/x.csv", "seq_lengths=0.5"],
            "seq_lengths is int32, and is given other numbers",
        ),
        (
            [f"x={tmp_path}/x.csv", "seq_lengths=nan"],
            "seq_lengths is int32, and is given other numbers",
        ),
        ([f"x={tmp_path}/x.csv", "c0=zero"], "zero: No such file"),
        ([f"x={tmp_path}/x.csv", "c0=1e300"], "c0 is float32, and is given larger numbers"),
        (
            [f"x={tmp_path}/x.csv", f"seq_lengths={tmp_path}/half.csv"],
            "seq_lengths is int32, and is given other numbers",
        ),
        (["x="], "--input: 'x=' names no file"),
        ([f"x={ROOT}/examples/lstm.npz"], "its arrays have names of their own .give it without x="),
    ):
        with pytest.raises(CompileError, match=told):
            fitted(read_arrays(texts), model)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a,b\n1,2\n1\n", "line 3 has 1 numbers, those before 2"),
        ("1,2\nx,y\n", "line 2 is not of numbers"),
        ("a,b\n", "holds no numbers"),
        ("", "holds no numbers"),
    ],
)
def test_damaged_text(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(CompileError, match=told):
        read_csv(path)


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    """A model whose outputs are texts."""
    encode = onnx.helper.make_node(
        "LabelEncoder",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        keys_int64s=[1, 2],
        values_strings=["größer", "b"],
        default_string="none",
    )
    graph = onnx.helper.make_graph(
        [encode],
        "labels",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.INT64, ["N"])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.STRING, ["N"])],
    )
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx"
    )
    return tmp_path / "m.onnx"


def test_texts_are_shown(labels: Path, tmp_path: Path, capsys: Capture) -> None:
    """They have no mean."""
    np.savez(tmp_path / "x.npz", x=np.array([1, 2, 3]))
    assert main(["run", str(labels), "-i", str(tmp_path / "x.npz")]) == 0
    assert capsys.readouterr().out.split()[-5:] == ["y", "text", "[3]", "b", "none"]
    np.savez(tmp_path / "x.npz", x=np.zeros(0, np.int64))
    assert main(["run", str(labels), "-i", str(tmp_path / "x.npz")]) == 0
    assert capsys.readouterr().out.split()[-3:] == ["y", "text", "[0]"]


def test_texts_become_columns(labels: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow = sys.modules["pyarrow"]
    parquet.write_table(pyarrow.table({"x": [2, 1, 7]}), tmp_path / "x.parquet")
    words = ["run", str(labels), "-i", str(tmp_path / "x.parquet"), "-o"]
    assert main([*words, str(tmp_path / "y.parquet")]) == 0
    found = parquet.read_table(tmp_path / "y.parquet")
    assert found.column("y").to_pylist() == ["b", "größer", "none"]
