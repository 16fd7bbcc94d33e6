"""RTNeural: a layer of fixed size, compiled by the C++ compiler from its headers.

They are found in the folder that RTNEURAL_DIR names, or where headers are installed.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import cells
from rnncc.bench.cases import Case
from rnncc.bench.contenders import ALONE, Array, Setup, Workload, find_header

HEADER = "RTNeural/RTNeural.h"
SOURCE = """
#include <algorithm>
#include <vector>
#include <RTNeural/RTNeural.h>
using Layer = RTNeural::LAYER<float, UNITS, UNITS>;
static RTNeural::ModelT<float, UNITS, UNITS, Layer> model;
using Rows = std::vector<std::vector<float>>;
static Rows rows(const float *from, int count, int width) {
  Rows made;
  for (int i = 0; i < count; ++i) made.emplace_back(from + i * width, from + (i + 1) * width);
  return made;
}
extern "C" void load(const float *w, const float *u, const float *b) {
  auto &layer = model.get<0>();
  layer.setWVals(rows(w, UNITS, GATES * UNITS));
  layer.setUVals(rows(u, UNITS, GATES * UNITS));
#if GATES == 4
  layer.setBVals(std::vector<float>(b, b + GATES * UNITS));
#else
  layer.setBVals(rows(b, 2, GATES * UNITS));
#endif
  model.reset();
}
extern "C" void run(long count, const float *x, float *y) {
  alignas(64) float in[UNITS];
  std::copy(x, x + UNITS, in);
  for (long i = 0; i < count; ++i) model.forward(in);
  std::copy(model.getOutputs(), model.getOutputs() + UNITS, y);
}
extern "C" void reset() { model.reset(); }
"""


def make(case: Case, setup: Setup = ALONE) -> Workload | None:
    """One step of one sequence, called from C."""
    folder, compiler = find_header(HEADER), shutil.which(os.environ.get("CXX", "c++"))
    if folder is None or compiler is None:
        raise ImportError(f"{HEADER} or a C++ compiler is not found")
    if case.mode != "step" or case.cell not in ("lstm", "gru") or case.batch * setup.threads != 1:
        return None
    library = _compile(case, folder, compiler)
    library.load(*(array.ctypes.data_as(ctypes.c_void_p) for array in _weights(case)))
    x, y = cells.inputs(case)["x"], np.empty((1, 1, case.units), np.float32)
    places = [array.ctypes.data_as(ctypes.c_void_p) for array in (x, y)]

    def many(count: int) -> object:
        return library.run(ctypes.c_long(count), *places)

    def result() -> Array:
        library.reset()
        many(1)
        return y

    return Workload(lambda: many(1), result, many)


def _compile(case: Case, folder: Path, compiler: str) -> Any:
    """The library of a layer of this size; with Eigen where RTNeural's copy of it is there."""
    layer, gates = ("GRULayerT", 3) if case.cell == "gru" else ("LSTMLayerT", 4)
    defined = {"LAYER": layer, "UNITS": case.units, "GATES": gates}
    eigen = folder / "modules" / "Eigen"
    kind = "EIGEN" if eigen.is_dir() else "STL"
    # Its copy of Eigen takes maps of 32 bytes at most, and arrays on the stack without a limit.
    defined |= {f"RTNEURAL_USE_{kind}": 1, "RTNEURAL_DEFAULT_ALIGNMENT": 32}
    defined |= {"EIGEN_STACK_ALLOCATION_LIMIT": 0}
    with tempfile.TemporaryDirectory() as build_folder:
        source, code, library = (Path(build_folder) / f"layer.{end}" for end in ("cpp", "o", "so"))
        source.write_text(SOURCE)
        flags = ["-std=c++17", "-O3", "-march=native", "-ffast-math", "-fPIC"]
        flags += [f"-D{name}={value}" for name, value in defined.items()]
        flags += [f"-I{folder}", f"-I{eigen}"]
        _call([compiler, *flags, "-c", str(source), "-o", str(code)])
        # linked without -ffast-math, with which gcc has loading it change all arithmetic here
        _call([compiler, "-shared", str(code), "-o", str(library)])
        return ctypes.CDLL(str(library))


def _call(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.splitlines()
        error = next((line for line in lines if "error:" in line), done.stderr.strip()[:200])
        raise ImportError(f"RTNeural does not compile: {error}")


def _weights(case: Case) -> list[Array]:
    """W, U and b in Keras' order of gates: i, f, c, o of the LSTM, z, r, h of the GRU."""
    p, units = cells.parameters(case), case.units
    if case.cell == "lstm":
        return [p["W"], p["RW"], p["b"]]
    hidden = np.zeros_like(p["b"])
    hidden[2 * units :] = p["rb"]
    matrices = p["W"], p["RW"], np.stack([p["b"], hidden])
    cut = [np.split(array, 3, -1) for array in matrices]
    return [np.ascontiguousarray(np.concatenate([z, r, n], -1)) for r, z, n in cut]
