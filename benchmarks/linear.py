# pyright: basic, reportMissingImports=false
"""Linear recurrences beside PyTorch and JAX: `taskset -c 1 python -m benchmarks.linear`

Each cell is one function of rows and state over a namespace of elementary functions, so that
PyTorch's loop, rnncc, JAX's scans and the float64 oracle all run the same lines. A case is timed
against `touch`: an elementwise kernel of rnncc that reads and writes as many bytes of sequences.

    --only NAME,...    some of the cases
    --rounds K         rounds in which all contenders take turns; the least times are printed
    --no-eager         leave out PyTorch's loop, which takes seconds a call
    --json FILE        write the figures
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import process_time, thread_time
from typing import Any

import numpy as np

T = 1000
Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Case:
    """A cell and its sizes.

    Attributes:
        cell: `(f, params, rows, state) -> (y, state)`; f has exp, sigmoid, softplus, sqrt, maximum.
        rows: of sequences, without T.
        state, params: shapes by name.
        affine: `(f, params, rows) -> (a, b)` and `(f, params, rows, h) -> y`, for
            `associative_scan`; None where the state is no elementwise affine one.
        draw: how a parameter or sequence is drawn, where it is not normal.
    """

    name: str
    cell: Callable[..., Any]
    rows: Shapes
    state: Shapes
    params: Shapes
    affine: tuple[Callable[..., Any], Callable[..., Any]] | None = None
    draw: dict[str, Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]] | None = None


def affine_cell(coefficients: Callable[..., Any], output: Callable[..., Any]) -> Any:
    """h = a h + b, y = output(h)."""

    def cell(f: Any, p: Any, x: Any, state: Any) -> Any:
        a, b = coefficients(f, p, x)
        h = a * state["h"] + b
        return output(f, p, x, h), {"h": h}

    return cell


def _state(f: Any, p: Any, x: Any, h: Any) -> Any:
    return h


def _mingru(f: Any, p: Any, x: Any) -> Any:
    z = f.sigmoid(x["z"])
    return 1 - z, z * x["c"]


def _rglru(f: Any, p: Any, x: Any) -> Any:
    a = f.exp(-8.0 * f.softplus(p["lam"]) * f.sigmoid(x["r"]))
    return a, f.sqrt(1 - a * a) * (f.sigmoid(x["i"]) * x["x"])


def _average(f: Any, p: Any, x: Any) -> Any:
    a = f.sigmoid(p["a"])
    return a, (1 - a) * x["x"]


def _mamba(f: Any, p: Any, x: Any) -> Any:
    delta = f.softplus(x["dt"] + p["bias"])[..., None]
    a = f.exp(-f.exp(p["log_a"]) * delta)
    return a, delta * x["x"][..., None] * x["B"][..., None, :]


def _mamba_out(f: Any, p: Any, x: Any, h: Any) -> Any:
    y = (h * x["C"][..., None, :]).sum(-1) + p["d"] * x["x"]
    return y * (x["z"] * f.sigmoid(x["z"]))


def _lru(f: Any, p: Any, x: Any, state: Any) -> Any:
    size = f.exp(-f.exp(p["nu"]))
    re, im = size * f.cos(p["theta"]), size * f.sin(p["theta"])
    gain = f.sqrt(1 - size * size)
    a = re * state["re"] - im * state["im"] + gain * x["re"]
    b = re * state["im"] + im * state["re"] + gain * x["im"]
    return p["c"] * a - p["s"] * b, {"re": a, "im": b}


def _s4d(f: Any, p: Any, x: Any, state: Any) -> Any:
    size = f.exp(-f.exp(p["nu"]))
    re, im = size * f.cos(p["theta"]), size * f.sin(p["theta"])
    a = re * state["re"] - im * state["im"] + p["b_re"] * x["x"][..., None]
    b = re * state["im"] + im * state["re"] + p["b_im"] * x["x"][..., None]
    return (p["c_re"] * a - p["c_im"] * b).sum(-1) + p["d"] * x["x"], {"re": a, "im": b}


def _iir(f: Any, p: Any, x: Any, state: Any) -> Any:
    y = p["b0"] * x["x"] + state["s1"]
    s1 = p["b1"] * x["x"] - p["a1"] * y + state["s2"]
    return y, {"s1": s1, "s2": p["b2"] * x["x"] - p["a2"] * y}


def _rwkv4(f: Any, p: Any, x: Any, state: Any) -> Any:
    k, v, a, b, m = x["k"], x["v"], state["a"], state["b"], state["m"]
    top = f.maximum(m, p["u"] + k)
    old, new = f.exp(m - top), f.exp(p["u"] + k - top)
    y = f.sigmoid(x["r"]) * (old * a + new * v) / (old * b + new)
    following = f.maximum(m - f.exp(p["w"]), k)
    old, new = f.exp(m - f.exp(p["w"]) - following), f.exp(k - following)
    return y, {"a": old * a + new * v, "b": old * b + new, "m": following}


def _rwkv6(f: Any, p: Any, x: Any, state: Any) -> Any:
    decay = f.exp(-f.exp(x["w"]))
    kv = x["k"][..., :, None] * x["v"][..., None, :]
    s = state["s"]
    y = (x["r"][..., :, None] * (s + p["u"][..., None] * kv)).sum(-2)
    return y, {"s": decay[..., :, None] * s + kv}


def _delta(f: Any, p: Any, x: Any, state: Any) -> Any:
    k, s = x["k"], state["s"] * f.exp(-f.softplus(x["g"]))[..., None, None]
    error = f.sigmoid(x["beta"])[..., None] * (x["v"] - (s * k[..., :, None]).sum(-2))
    s = s + k[..., :, None] * error[..., None, :]
    return (s * x["q"][..., :, None]).sum(-2), {"s": s}


N, D, S, HEADS, HEAD = 8, 512, 16, 4, 64


def _wide(*names: str) -> Shapes:
    return dict.fromkeys(names, (N, D))


def _vectors(*names: str) -> Shapes:
    return dict.fromkeys(names, (D,))


def _heads(*names: str) -> Shapes:
    return dict.fromkeys(names, (1, HEADS, HEAD))


def _diagonal(name: str, parts: Any, rows: Shapes, state: Any, params: Shapes) -> Case:
    return Case(name, affine_cell(*parts), rows, {"h": state}, params, parts)


UNIT: dict[str, Any] = {"k": lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True)}
STABLE = {f"a{i}": partial(lambda scale, x: scale * np.tanh(x), s) for i, s in ((1, 0.5), (2, 0.4))}
CASES = [
    _diagonal("average", (_average, _state), _wide("x"), (N, D), _vectors("a")),
    _diagonal("minGRU", (_mingru, _state), _wide("z", "c"), (N, D), {}),
    _diagonal("RG-LRU", (_rglru, _state), _wide("x", "r", "i"), (N, D), _vectors("lam")),
    Case("LRU", _lru, _wide("re", "im"), _wide("re", "im"), _vectors("nu", "theta", "c", "s")),
    Case(
        "IIR",
        _iir,
        _wide("x"),
        _wide("s1", "s2"),
        _vectors("a1", "a2", "b0", "b1", "b2"),
        draw=STABLE,
    ),
    _diagonal(
        "Mamba",
        (_mamba, _mamba_out),
        {**dict.fromkeys(("dt", "x", "z"), (2, D)), "B": (2, S), "C": (2, S)},
        (2, D, S),
        {"log_a": (D, S), **_vectors("bias", "d")},
    ),
    Case(
        "S4D",
        _s4d,
        {"x": (2, D)},
        dict.fromkeys(("re", "im"), (2, D, S)),
        {**dict.fromkeys(("nu", "theta", "b_re", "b_im", "c_re", "c_im"), (D, S)), "d": (D,)},
    ),
    Case("RWKV-4", _rwkv4, _wide("k", "v", "r"), _wide("a", "b", "m"), _vectors("u", "w")),
    Case(
        "RWKV-6",
        _rwkv6,
        _heads("k", "v", "r", "w"),
        {"s": (1, HEADS, HEAD, HEAD)},
        {"u": (HEADS, HEAD)},
    ),
    Case(
        "gated delta",
        _delta,
        {**_heads("k", "v", "q"), "g": (1, HEADS), "beta": (1, HEADS)},
        {"s": (1, HEADS, HEAD, HEAD)},
        {},
        draw=UNIT,
    ),
]


def arrays(case: Case, steps: int = T) -> tuple[Any, Any, Any]:
    """Parameters, sequences and the state before the first step, as float32."""
    rng = np.random.default_rng(0)

    def draw(name: str, shape: tuple[int, ...]) -> Any:
        change = (case.draw or {}).get(name, lambda x: x)
        return change(rng.standard_normal(shape)).astype(np.float32)

    params = {name: draw(name, shape) for name, shape in case.params.items()}
    rows = {name: draw(name, (steps, *shape)) for name, shape in case.rows.items()}
    state = {name: np.zeros(shape, np.float32) for name, shape in case.state.items()}
    return params, rows, state


class TorchFunctions:
    """Elementary functions of tensors."""

    def __init__(self) -> None:
        import torch

        self.exp, self.sigmoid, self.sqrt, self.maximum = (
            torch.exp,
            torch.sigmoid,
            torch.sqrt,
            torch.maximum,
        )
        self.cos, self.sin = torch.cos, torch.sin
        self.softplus = torch.nn.functional.softplus


def tensors(parts: Any, dtype: Any, grad: bool) -> Any:
    """Arrays by name as tensors."""
    import torch

    return [
        {name: torch.tensor(a, dtype=dtype).requires_grad_(grad) for name, a in part.items()}
        for part in parts
    ]


def eager(cell: Any, xs: Any, state: Any) -> Any:
    """PyTorch's loop."""
    import torch

    ys = []
    rows = {name: x.unbind(0) for name, x in xs.items()}
    for t in range(len(next(iter(xs.values())))):
        y, state = cell({name: row[t] for name, row in rows.items()}, state)
        ys.append(y)
    return torch.stack(ys), state


def torch_call(case: Case, run: Any, parts: Any, train: bool, dtype: Any = None) -> Any:
    """A call of forward, or of forward and backward; it gives y and the gradients."""
    import torch

    f = TorchFunctions()
    params, xs, state = tensors(parts, dtype or torch.float32, train)

    def cell(x: Any, state: Any) -> Any:
        return case.cell(f, params, x, state)

    leaves = [*xs.values(), *params.values()]
    seed: list[Any] = []

    def forward() -> Any:
        with torch.no_grad():
            return [run(cell, xs, state)[0]]

    def both() -> Any:
        y, _ = run(cell, xs, state)
        if not seed:
            direction = np.random.default_rng(1).standard_normal(y.shape).astype(np.float32)
            seed.append(torch.tensor(direction, dtype=y.dtype))
        return [y.detach(), *torch.autograd.grad(y, leaves, seed[0])]

    return both if train else forward


def touch(case: Case, y_shape: tuple[int, ...], train: bool) -> Any:
    """Read the sequences and write the outputs once: elementwise, as many bytes.

    Backward reads what forward read and the output's gradient, and writes a gradient of each.
    """
    import torch

    import rnncc

    sizes = [int(np.prod((T, *shape))) for shape in case.rows.values()]
    xs = [torch.randn(size) for size in sizes]
    out = int(np.prod(y_shape))
    wide = max(*sizes, out)
    big = [x for x in xs if len(x) == wide]

    class Read(torch.nn.Module):
        def forward(self, *xs: Any) -> Any:
            return sum(xs[1:], xs[0] * 0.5)

    class Write(torch.nn.Module):
        def forward(self, *xs: Any) -> Any:
            y = sum(xs[1:], xs[0] * 0.5)
            return tuple(y * (i + 2.0) for i in range(len(xs) - 1))

    read = rnncc.torch.compile(Read().eval(), tuple(big))
    if not train:
        return lambda: read(*big)
    more = (*big, torch.randn(wide))
    write = rnncc.torch.compile(Write().eval(), more)
    return lambda: (read(*big), write(*more))


def jax_calls(case: Case, parts: Any, train: bool) -> dict[str, Any]:
    """JAX's loop, and its associative scan where the case has one."""
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        return {}

    class F:
        exp, sqrt, maximum, cos, sin = jnp.exp, jnp.sqrt, jnp.maximum, jnp.cos, jnp.sin
        sigmoid, softplus = jax.nn.sigmoid, jax.nn.softplus

    params, xs, state = jax.tree.map(jnp.asarray, parts)

    def loop(params: Any, xs: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            y, state = case.cell(F, params, x, state)
            return state, y

        return jax.lax.scan(step, state, xs)[1]

    def associative(params: Any, xs: Any) -> Any:
        assert case.affine is not None
        coefficients, output = case.affine
        a, b = coefficients(F, params, xs)
        a = jnp.broadcast_to(a, b.shape)
        _, h = jax.lax.associative_scan(
            lambda one, two: (two[0] * one[0], two[0] * one[1] + two[1]), (a, b)
        )
        return output(F, params, xs, h)

    forms = {"jax scan": loop} | ({"jax assoc": associative} if case.affine else {})
    calls = {}
    for name, form in forms.items():
        if train:
            shape = jax.eval_shape(form, params, xs).shape
            seed = jnp.asarray(np.random.default_rng(1).standard_normal(shape).astype(np.float32))

            def both(params: Any, xs: Any, form: Any = form, seed: Any = seed) -> Any:
                y, back = jax.vjp(form, params, xs)
                return y, back(seed)

            form = both
        jitted = jax.jit(form)
        calls[name] = lambda jitted=jitted: jax.block_until_ready(jitted(params, xs))
    return calls


def worst(ours: Any, exact: Any) -> float:
    """The largest error, by the largest element of each result."""
    return max(
        float((a.double() - e).abs().max() / e.abs().max().clamp_min(1e-30))
        for a, e in zip(ours, exact, strict=True)
    )


def seconds(calls: dict[str, Any], rounds: int) -> dict[str, float]:
    """The least time of rounds in which all take turns; what takes long takes part in few.

    It is the processor's time: what else runs on the machine takes none of it. JAX computes in
    threads of its own, which go on to free its results while others are timed; these compute in
    the thread that calls them.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for number in range(rounds):
        for name, call in calls.items():
            if times[name] and sum(times[name]) > 4 and number > 1:
                continue
            clock = process_time if name.startswith("jax") else thread_time
            start = clock()
            call()
            times[name].append(clock() - start)
    return {name: min(spent) for name, spent in times.items()}


def measure(case: Case, train: bool, rounds: int, with_eager: bool) -> dict[str, Any]:
    """Seconds of each contender, and the error of ours."""
    import torch

    import rnncc.torch

    parts = arrays(case)
    calls = {"rnncc": torch_call(case, rnncc.torch.scan, parts, train)}
    ours = calls["rnncc"]()
    exact = None
    if with_eager:
        calls["eager"] = torch_call(case, eager, parts, train)
        exact = torch_call(case, eager, parts, train, torch.float64)()
    calls["touch"] = touch(case, tuple(ours[0].shape), train)
    calls |= jax_calls(case, parts, train)
    found: dict[str, Any] = seconds(calls, rounds)
    found["error"] = worst(ours, exact) if exact is not None else None
    return found


def main() -> None:
    """Measure all."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--only", default="")
    reader.add_argument("--rounds", type=int, default=15)
    reader.add_argument("--no-eager", action="store_true")
    reader.add_argument("--json", default="")
    options = reader.parse_args()
    _keep_memory()
    import torch

    torch.set_num_threads(1)
    only = [name for name in options.only.split(",") if name]
    figures: dict[str, Any] = {}
    for case in CASES:
        if only and case.name not in only:
            continue
        for train in (False, True):
            found = measure(case, train, options.rounds, not options.no_eager)
            title = f"{case.name}{' training' if train else ''}"
            figures[title] = found
            base = found["rnncc"]
            text = [f"{title:<22} rnncc {base * 1e3:8.2f} ms"]
            for name in ("touch", "eager", "jax scan", "jax assoc"):
                if name in found:
                    text.append(f"{name} x{found[name] / base:.2f}")
            if found["error"] is not None:
                text.append(f"error {found['error']:.1e}")
            print("  ".join(text), flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=1))


def _keep_memory() -> None:
    """Start again with an allocator that keeps pages: results are new tensors in each call."""
    variables = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "8589934592"}
    variables |= {"MALLOC_TOP_PAD_": "67108864", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
    if any(os.environ.get(name) != text for name, text in variables.items()):
        os.environ |= variables
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks.linear", *sys.argv[1:]])


if __name__ == "__main__":
    main()
