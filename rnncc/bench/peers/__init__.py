"""What rnncc is measured against; and rnncc itself, in the same form.

Each module here has `make(case, setup) -> Call | None`: a call that computes the case, None
where it cannot; `ImportError` where what it needs is not installed. Its inputs and parameters are
those of `rnncc.bench.nets`, and `Call.result()` is the output y, for tests.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from rnncc.errors import CompileError
from rnncc.options import PRECISIONS

Array = np.ndarray[Any, Any]

HEADERS = ("/usr/local/include", "/usr/include")


@dataclass(frozen=True)
class Workload:
    """A way to compute a case.

    Attributes:
        run: once.
        result: y [T, N, H] as `run` computes it; None where nothing is to be compared.
        many: so many times, from C, where a call from Python would cost more than the work.
        wait: until what was run is done, where a call returns before.
    """

    run: Callable[[], object]
    result: Callable[[], Array] | None = None
    many: Callable[[int], object] | None = None
    wait: Callable[[], object] | None = None

    def repeat(self, count: int) -> None:
        """Compute the case so many times."""
        if self.many is not None:
            self.many(count)
            return
        run = self.run
        for _ in range(count):
            run()
        if self.wait is not None:
            self.wait()


@dataclass(frozen=True)
class Setup:
    """How a case is computed: the precision of the weights, and how many threads do it."""

    precision: str = "fp32"
    threads: int = 1


ALONE = Setup()


@dataclass(frozen=True)
class Contender:
    """Who computes.

    Attributes:
        name: as tables call it.
        module: of this package.
        needs: the Python package, or the C++ header, that must be there.
        precision: of the weights.
        threads: that compute together.
        slow: takes minutes to prepare a case, so that it runs only if asked for.
        device: cpu or cuda.
    """

    name: str
    module: str
    needs: str
    precision: str = "fp32"
    threads: int = 1
    slow: bool = False
    device: str = "cpu"

    def on(self, threads: int) -> Contender:
        """The same with so many threads."""
        name = self.name if threads == 1 else f"{self.name}, {threads} threads"
        return replace(self, name=name, threads=threads)

    @property
    def own(self) -> bool:
        """Whether it is rnncc."""
        return self.module in ("own", "own_full", "own_cuda")

    @property
    def installed(self) -> bool:
        """Whether what it needs is there."""
        if self.needs.endswith(".h"):
            return find_header(self.needs) is not None
        return find_spec(self.needs) is not None


def find_header(name: str) -> Path | None:
    """The folder of C++ headers that has it: RTNEURAL_DIR, or where they are installed."""
    places = [Path(place) for place in (os.environ.get("RTNEURAL_DIR"), *HEADERS) if place]
    return next((place for place in places if (place / name).is_file()), None)


def own_contenders(precisions: str, device: str = "cpu") -> list[Contender]:
    """Rnncc in each precision named, with commas between them, or all that it offers.

    Raises:
        CompileError: it does not offer one.
    """
    words = [word.strip() for word in precisions.split(",") if word.strip()]
    chosen = list(PRECISIONS) if words == ["all"] else words
    if not chosen or not set(chosen) <= set(PRECISIONS):
        hint = ", ".join((*PRECISIONS, "all"))
        raise CompileError("--precision", f"{precisions!r} names what there is not", hint)
    module = "own" if device == "cpu" else f"own_{device}"
    names = ["rnncc" if p == "fp32" else f"rnncc {p}" for p in chosen]
    several = zip(names, chosen, strict=True)
    return [Contender(name, module, "rnncc", p, device=device) for name, p in several]


def padded(several: Sequence[Contender]) -> list[Contender]:
    """Ours again, for sequences that are padded to the longest."""
    return [replace(one, name=f"{one.name} padded", module="own_full") for one in several]


PEERS = [
    Contender("ONNX Runtime", "onnx_runtime", "onnxruntime"),
    Contender("OpenVINO", "openvino_runtime", "openvino"),
    Contender("PyTorch", "torch_eager", "torch"),
    Contender("PyTorch bf16", "torch_eager", "torch", "bf16"),
    Contender("PyTorch compiled", "torch_compiled", "torch", slow=True),
    Contender("JAX", "jax_scan", "jax"),
    Contender("IREE", "iree_scan", "iree"),
    Contender("RTNeural", "rtneural", "RTNeural/RTNeural.h"),
    Contender("PyTorch", "torch_cuda", "torch", device="cuda"),
    Contender("PyTorch bf16", "torch_cuda", "torch", "bf16", device="cuda"),
    Contender("JAX", "jax_cuda", "jax", device="cuda"),
]


def chosen(
    names: str | None, precisions: Sequence[str] = ("fp32",), device: str = "cpu"
) -> list[Contender]:
    """The peers on a device that a user names, with commas between them.

    Without names those that are installed, not slow, and of fp32 or the same precisions.

    Raises:
        CompileError: a name is none of them, or not installed.
    """
    several = [peer for peer in PEERS if peer.device == device]
    if names is None:
        kinds = {"fp32", *precisions}
        quick = [peer for peer in several if peer.precision in kinds and not peer.slow]
        return [peer for peer in quick if peer.installed]
    if names.strip() == "all":
        return [peer for peer in several if peer.installed]
    known = {peer.name.lower(): peer for peer in several}
    words = [word for word in map(str.strip, names.split(",")) if word not in ("", "none")]
    for word in words:
        if word.lower() not in known:
            hint = ", ".join(peer.name for peer in several) + ", all, none"
            raise CompileError("--peers", f"no peer is named {word!r}", hint)
    contenders = [known[word.lower()] for word in words]
    for peer in contenders:
        if not peer.installed:
            raise CompileError("--peers", f"{peer.name} is not installed")
    return contenders
