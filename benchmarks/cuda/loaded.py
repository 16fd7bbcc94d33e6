"""How long a library takes to load: `python -m benchmarks.cuda.loaded LIBRARY` in a fresh process.

The driver's own start, which every program pays, is told apart.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from pathlib import Path

import numpy as np


def main() -> None:
    """Print the seconds of each part as JSON."""
    times: dict[str, float] = {}
    begun = time.perf_counter()

    def lap(name: str) -> None:
        nonlocal begun
        now = time.perf_counter()
        times[name], begun = now - begun, now

    import rnncc_runtime

    lap("import")
    start_driver()
    lap("driver")
    model = rnncc_runtime.load(Path(sys.argv[1]))
    lap("load")
    units = model.inputs["x"].sizes[2].evaluate({})
    x = np.random.default_rng(0).standard_normal((20, 1, units)).astype(np.float32)
    model.run({"x": x})
    lap("first")
    model.run({"x": x})
    lap("second")
    print(json.dumps(times))


def start_driver() -> None:
    """The context that all of this process shares."""
    cuda = ctypes.CDLL(os.environ.get("RNNCC_LIBCUDA", "libcuda.so.1"))
    context, device = ctypes.c_void_p(), ctypes.c_int()
    codes = [
        cuda.cuInit(0),
        cuda.cuDeviceGet(ctypes.byref(device), 0),
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
    ]
    if any(codes):
        sys.exit(f"the driver does not start: {codes}")


if __name__ == "__main__":
    main()
