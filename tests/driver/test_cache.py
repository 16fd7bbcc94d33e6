"""The cache of models compiled in memory: what is found, what is not, and what may go wrong."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import rnncc
from rnncc import cells
from rnncc.codegen import targets
from rnncc.driver import cache
from rnncc.errors import CompileError, InternalError
from rnncc.frontends.onnx.external_data import external_files
from rnncc.ir.dims import Dim
from rnncc.ir.program import Program
from rnncc.options import Options
from rnncc.packaging.image import Image
from rnncc.stages import reading
from rnncc.stages.reading import import_source
from tests.driver.cached import WIDTH, X, entries, init, net, never, result
from tests.frontends.onnx.bad_models import external


def test_found_without_compiling(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = rnncc.compile(net(), init())
    assert len(entries(folder)) == 1
    monkeypatch.setattr(reading, "import_source", never)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))  # what fails leaves its IR there
    again = rnncc.compile(net(), init())
    assert result(again) == result(first)
    assert list(again.inputs.values()) == list(first.inputs.values())
    assert list(again.outputs.values()) == list(first.outputs.values())
    with pytest.raises(InternalError, match="step 'read' failed"):
        rnncc.compile(net(), init(2.0))


def test_files_count_by_content(folder: Path, tmp_path: Path) -> None:
    for name in ("one.pb", "two.pb"):
        (tmp_path / name).write_bytes(net().SerializeToString())
        rnncc.compile(tmp_path / name, init(), name="same")
    assert len(entries(folder)) == 1
    (tmp_path / "two.pb").write_bytes(net("Sigmoid").SerializeToString())
    changed = rnncc.compile(tmp_path / "two.pb", init(), name="same")
    assert len(entries(folder)) == 2
    assert result(changed) == result(rnncc.compile(net("Sigmoid"), init()))


@pytest.mark.parametrize("kind", ["dense", "values", "indices", "constant"])
def test_external_data_counts_by_content(folder: Path, tmp_path: Path, kind: str) -> None:
    """Weights that are trained again have the same size, and `tar` may give them the same time."""
    weights = external("w.bin").graph.initializer[0]
    indices = numpy_helper.from_array(np.arange(4), "i")
    if kind == "indices":
        indices.ClearField("raw_data")
        indices.data_location = weights.data_location
        weights = numpy_helper.from_array(np.arange(4, dtype=np.float32) + 1, "w")
        indices.external_data.add(key="location", value="w.bin")
    sparse = helper.make_sparse_tensor(weights, indices, [8 if kind == "indices" else 4])
    model = external("w.bin")
    if kind != "dense":
        del model.graph.initializer[:]
    if kind == "constant":
        model.graph.node.insert(0, helper.make_node("Constant", [], ["w"], sparse_value=sparse))
    elif kind != "dense":
        model.graph.sparse_initializer.append(sparse)
    if kind == "indices":
        model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 8
    onnx.save(model, tmp_path / "made.onnx")
    results, file = set[bytes](), tmp_path / "w.bin"
    for values in ([1, 2, 3, 4], [4, 5, 6, 7]):
        file.write_bytes(np.array(values, np.int64 if kind == "indices" else np.float32).tobytes())
        os.utime(file, (1e9, 1e9))
        compiled = rnncc.compile(tmp_path / "made.onnx")
        x = np.zeros((1, 8 if kind == "indices" else 4), np.float32)
        results.add(compiled.run({"x": x})["y"].tobytes())
    assert len(results) == len(entries(folder)) == 2


def test_only_files_in_the_models_folder_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(16))
    (tmp_path / "inside").mkdir()
    for location in ("../w.bin", str(tmp_path / "w.bin"), "none.bin", "."):
        assert external_files(external(location), tmp_path / "inside") == []
    assert external_files(external("w.bin"), tmp_path) == [tmp_path / "w.bin"]


@pytest.mark.parametrize(
    "options",
    [
        {"shapes": {"x": ("N", WIDTH)}},
        {"name": "other"},
        {"cpu": "x86-64-v2" if os.uname().machine == "x86_64" else "generic"},
        {"seed": 1},
        {"precision": "bf16"},
        {"threads": True},
        {"train": True},
    ],
)
def test_options_are_told_apart(folder: Path, options: dict[str, Any]) -> None:
    rnncc.compile(net(), init())
    rnncc.compile(net(), init(), **options)
    assert len(entries(folder)) == 2


def test_another_rnncc_finds_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rnncc.compile(net(), init())
    monkeypatch.setattr(cache, "_sources", lambda: "another")
    rnncc.compile(net(), init())
    assert len(entries(folder)) == 2


def test_training(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = rnncc.compile(net(), init(), train=True)
    monkeypatch.setattr(reading, "import_source", never)
    again = rnncc.compile(net(), init(), train=True)
    found: list[dict[str, bytes]] = []
    for model in (first, again):
        parameters = model.parameters.items()
        outputs, tape = model.forward({"x": X})
        grads = model.backward(tape, {"y": np.ones_like(outputs["y"])})
        arrays = {**outputs, **{f"{name} grad": grad for name, grad in grads.items()}}
        found.append({n: np.asarray(a).tobytes() for n, a in [*parameters, *arrays.items()]})
    assert found[0] == found[1]
    assert len(found[0]) > 4


def test_nets_built_in_python(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = {"x": X.reshape(3, 1, WIDTH)}
    first = rnncc.compile(cells.elman(WIDTH, 4, seed=1))
    for other in (cells.elman(WIDTH, 4, seed=2), cells.elman(WIDTH, 4, seed=1, activation="relu")):
        rnncc.compile(other)
    assert len(entries(folder)) == 3
    monkeypatch.setattr(reading, "import_source", never)
    again = rnncc.compile(cells.elman(WIDTH, 4, seed=1))
    assert again.run(x)["y"].tobytes() == first.run(x)["y"].tobytes()


OTHER_FACTS: dict[str, Any] = {
    "name": "other",
    "recompute": frozenset("h"),
    "zeros": frozenset("h"),
    "fixed": frozenset("w"),
    "bounds": (Dim.parse("T - 5"),),
    "counts": {"y": (("n", 0),)},
    "texts": ("yes", "no"),
}


def test_all_that_a_program_says_counts(folder: Path) -> None:
    """Compiled code checks bounds, and cuts rows, that its module says nothing of."""
    shown = {f.name for f in fields(Program)} - {"module", "arrays", "source"}
    assert OTHER_FACTS.keys() == shown
    program = import_source(net(), init(), Options())
    programs = [program, *(replace(program, **{n: v}) for n, v in OTHER_FACTS.items())]
    target = targets.resolve(None, None)
    keys = [cache.key_of(p, None, Options(), target) for p in programs]
    assert None not in keys and len(set(keys)) == len(programs)


@pytest.mark.parametrize("off", ["0", "Off"])
def test_off(folder: Path, monkeypatch: pytest.MonkeyPatch, off: str) -> None:
    monkeypatch.setenv("RNNCC_CACHE", off)
    rnncc.compile(net(), init())
    assert not folder.exists()


def test_a_folder_in_the_place_of_the_switch(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RNNCC_CACHE", str(folder))
    with pytest.raises(CompileError, match=r"is neither 0 nor 1 \(the folder is RNNCC_CACHE_DIR\)"):
        rnncc.compile(net(), init())


def test_least_recently_used_go(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Path] = []
    for age in range(3):
        rnncc.compile(net(), init(1.0 + age))
        made += (entry for entry in entries(folder) if entry not in made)
        os.utime(made[age], (age, age))
    oldest = made[0]
    stopped = oldest.parent / f".rnncc-{16 * '0'}"  # what a writer that was killed leaves
    stopped.write_bytes(bytes(10))
    os.utime(stopped, (0, 0))
    rnncc.compile(net(), init(1.0))  # used: now the youngest
    size = max(entry.stat().st_size for entry in entries(folder))
    monkeypatch.setenv("RNNCC_CACHE_BYTES", str(3 * size))
    rnncc.compile(net(), init(4.0))
    assert len(entries(folder)) == 3
    assert oldest.exists()
    assert not stopped.exists()
    monkeypatch.setattr(reading, "import_source", never)
    for scale in (1.0, 3.0, 4.0):
        rnncc.compile(net(), init(scale))


def test_what_is_too_large_is_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RNNCC_CACHE_BYTES", "1K")
    key_of, asked = cache.key_of, list[object]()
    monkeypatch.setattr(cache, "key_of", lambda *of: asked.append(of) or key_of(*of))
    rnncc.compile(net(), init())
    assert not folder.exists()
    assert len(asked) == 1  # a second one would read large files again
    monkeypatch.setenv("RNNCC_CACHE_BYTES", "many")
    monkeypatch.setattr(reading, "import_source", never)  # it is told before the work
    with pytest.raises(CompileError, match="RNNCC_CACHE_BYTES: 'many' is not a number of bytes"):
        rnncc.compile(net(), init())


def test_no_folder_is_no_error(tmp_path: Path, folder: Path, monkeypatch: Any) -> None:
    expected = result(rnncc.compile(net(), init()))
    (tmp_path / "file").write_text("")
    for place in ("/proc/nothing/here", str(tmp_path / "file"), str(tmp_path / "file" / "inside")):
        monkeypatch.setenv("RNNCC_CACHE_DIR", place)
        assert result(rnncc.compile(net(), init())) == expected


def test_full_disk_is_no_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, target: object) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    rnncc.compile(net(), init())
    assert list((folder / cache.FOLDER).iterdir()) == []


def test_entries_of_a_disk_that_is_read_only_now(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = rnncc.compile(net(), init())

    def refuse(*arguments: object, **options: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "utime", refuse)
    monkeypatch.setattr(reading, "import_source", never)
    assert result(rnncc.compile(net(), init())) == result(first)


def test_writers_at_once(folder: Path) -> None:
    results: list[bytes] = []

    def work(scale: float) -> None:
        results.append(result(rnncc.compile(net(), init(scale))))

    threads = [threading.Thread(target=work, args=(1.0 + i % 2,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 6
    assert len(set(results)) == 2
    assert len(list((folder / cache.FOLDER).iterdir())) == len(entries(folder)) == 2


def test_errors_are_not_kept(folder: Path) -> None:
    for _ in range(2):
        with pytest.raises(CompileError, match="Tanch"):
            rnncc.compile(net("Tanch"), init())
    assert not folder.exists()


def test_weights_are_kept_without_a_copy() -> None:
    """Of large models each copy is most of what compiling takes."""
    weights = np.zeros(64, np.uint8)
    image = Image({}, {}, b"code", weights)
    assert np.shares_memory(np.frombuffer(image.parts()[-1], np.uint8), weights)
    assert image.to_bytes().endswith(b"code" + bytes(64))


def test_what_is_found_needs_no_compiler(folder: Path, tmp_path: Path) -> None:
    """A process that finds its model on disk imports neither xDSL nor the pipeline."""
    (tmp_path / "net.pb").write_bytes(net().SerializeToString())
    (tmp_path / "init.pb").write_bytes(init().SerializeToString())
    code = (
        "import rnncc, sys; rnncc.compile('net.pb', 'init.pb');"
        "print({'xdsl', 'rnncc.pipeline'} & sys.modules.keys())"
    )
    printed = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    ]
    assert printed[0] != "set()\n" and printed[1] == "set()\n"
