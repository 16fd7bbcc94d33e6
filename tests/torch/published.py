"""Cells of published packages, compiled by `scan` and as loops in Python.

`python -m tests.torch.published [NAME...]` prints a table, of those packages that are installed:
torch, snntorch, spikingjelly, norse, ncps, torchrecurrent, tracetorch, sinabs, xlstm, mambapy,
minGRU_pytorch, torchrl and pytorch_forecasting.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from statistics import median
from typing import Any

from rnncc import CompileError
from tests.torch.cells import loop, nn, torch

T, N, WIDTH, UNITS = 100, 16, 16, 32


@dataclass
class Case:
    """A cell with what belongs to it.

    Attributes:
        module: whose parameters it has.
        cell: (x, state) -> (y, state).
        state: what it starts from.
        reset: makes what it keeps what that was.
    """

    module: Any
    cell: Callable[[Any, Any], Any]
    state: Any = ()
    reset: Callable[[], Any] = lambda: None


class Around(nn.Module):
    """A neuron behind a linear layer, and a readout."""

    def __init__(self, neuron: Any, width: int = UNITS) -> None:
        super().__init__()
        self.first, self.neuron, self.last = nn.Linear(WIDTH, width), neuron, nn.Linear(UNITS, 4)

    def forward(self, x: Any) -> Any:
        return self.last(self.neuron(self.first(x)))

    def with_state(self, x: Any, state: Any) -> Any:
        spikes, state = self.neuron(self.first(x), state)
        return self.last(spikes), state


def snntorch_case(name: str, surrogate: str = "atan", count: int = 0, **options: Any) -> Case:
    """A neuron of snntorch; it keeps its state, or is given a `count` of tensors."""
    snn, surrogates = import_module("snntorch"), import_module("snntorch.surrogate")
    spikes = getattr(surrogates, surrogate)()
    neuron = getattr(snn, name)(spike_grad=spikes, init_hidden=not count, **options)
    net = Around(neuron)
    if count:
        return Case(net, partial(_spelled_out, net), (torch.zeros(N, UNITS),) * count)
    start = dict(neuron.named_buffers())
    start = {key: x for key, x in start.items() if key.startswith(("mem", "syn", "spk"))}
    return Case(net, lambda x, s: (net(x), s), (), partial(_restore, neuron, start))


def _spelled_out(net: Any, x: Any, state: Any) -> Any:
    spikes, *state = net.neuron(net.first(x), *state)
    return net.last(spikes), tuple(state)


def _restore(neuron: Any, start: dict[str, Any]) -> None:
    for key, value in start.items():
        setattr(neuron, key, value)


def spikingjelly_case(name: str, surrogate: str = "Sigmoid", **options: Any) -> Case:
    neurons = import_module("spikingjelly.activation_based.neuron")
    surrogates = import_module("spikingjelly.activation_based.surrogate")
    functional = import_module("spikingjelly.activation_based.functional")
    neuron = getattr(neurons, name)(surrogate_function=getattr(surrogates, surrogate)(), **options)
    net = Around(neuron)
    return Case(net, lambda x, s: (net(x), s), (), lambda: functional.reset_net(net))


def norse_case(name: str, **options: Any) -> Case:
    """A cell of norse, which makes its first state of None."""
    module = import_module("norse.torch")
    own = (UNITS, UNITS) if "Recurrent" in name or name == "LILinearCell" else ()
    net = Around(getattr(module, name)(*own, **options))
    return Case(net, net.with_state, None)


def ncps_case(name: str) -> Case:
    cells, wirings = import_module("ncps.torch"), import_module("ncps.wirings")
    if name == "LTCCell":
        neuron = cells.LTCCell(wirings.FullyConnected(UNITS, UNITS), UNITS)
    else:
        neuron = cells.CfCCell(UNITS, UNITS)
    net = Around(neuron)
    if name == "LTCCell":
        return Case(net, net.with_state, torch.zeros(N, UNITS))
    return Case(net, lambda x, h: _timed(net, x, h), torch.zeros(N, UNITS))


def _timed(net: Any, x: Any, h: Any) -> Any:
    y, h = net.neuron(net.first(x), h, 1.0)
    return net.last(y), h


def torchrecurrent_case(name: str) -> Case:
    """A cell that gives its next state, or first what goes out and then the state."""
    net = Around(getattr(import_module("torchrecurrent"), f"{name}Cell")(UNITS, UNITS))
    with torch.no_grad():
        made = net.neuron(torch.zeros(N, UNITS))
    nested = isinstance(made, tuple) and isinstance(made[1], tuple)
    start = torch.utils._pytree.tree_map(torch.zeros_like, made[1] if nested else made)

    def cell(x: Any, state: Any) -> Any:
        y = state = net.neuron(net.first(x), state)
        if nested:
            y, state = y
        return net.last(y[0] if isinstance(y, tuple) else y), state

    return Case(net, cell, start)


def tracetorch_case(kind: str, name: str) -> Case:
    """A layer that keeps its state."""
    sizes = (UNITS,) if kind == "snn" else (UNITS, UNITS)
    net = Around(getattr(import_module(f"tracetorch.{kind}"), name)(*sizes))
    return Case(net, lambda x, s: (net(x), s), (), net.neuron.zero_states)


def sinabs_case(name: str, **options: Any) -> Case:
    """A layer that keeps its state; here a sequence of one step."""
    layers = import_module("sinabs.layers")
    if "Recurrent" in name:
        options["rec_connect"] = nn.Linear(UNITS, UNITS)
    net = Around(getattr(layers, name)(**options))

    def cell(x: Any, state: Any) -> Any:
        return net.last(net.neuron(net.first(x)[:, None])[:, 0]), state

    return Case(net, cell, (), lambda: net.neuron.reset_states(randomize=False))


def xlstm_case() -> Case:
    """An sLSTM layer's step without its convolution, whose step changes what autograd has saved."""
    layer = import_module("xlstm.blocks.slstm.layer")
    config = layer.sLSTMLayerConfig(
        embedding_dim=UNITS,
        num_heads=2,
        conv1d_kernel_size=0,
        backend="vanilla",
        dtype="float32",
        enable_automatic_mixed_precision=False,
    )
    net = Around(layer.sLSTMLayer(config))

    def cell(x: Any, state: Any) -> Any:
        y, made = net.neuron.step(net.first(x)[:, None], slstm_state=state)
        return net.last(y[:, 0]), made["slstm_state"]

    with torch.no_grad():
        made = cell(torch.zeros(N, WIDTH), None)[1]
    return Case(net, cell, torch.zeros_like(made))


def mambapy_case() -> Case:
    """A block's step, whose state is that of the recurrence, and the rows of the convolution."""
    mamba = import_module("mambapy.mamba")
    config = mamba.MambaConfig(d_model=UNITS, n_layers=1)
    net = Around(mamba.MambaBlock(config))
    width = config.d_inner
    start = torch.zeros(N, width, config.d_state), torch.zeros(N, width, config.d_conv - 1)

    def cell(x: Any, state: Any) -> Any:
        y, state = net.neuron.step(net.first(x), state)
        return net.last(y), state

    return Case(net, cell, start)


def mingru_case(name: str) -> Case:
    """A layer that computes a sequence of one step as a step."""
    net = Around(getattr(import_module(f"minGRU_pytorch.{name}"), name)(UNITS))

    def cell(x: Any, h: Any) -> Any:
        y, h = net.neuron(net.first(x)[:, None], h, return_next_prev_hidden=True)
        return net.last(y[:, 0]), h

    return Case(net, cell, torch.zeros(N, 1, UNITS))


def torchrl_case(name: str) -> Case:
    """A cell that is called as PyTorch's are; DreamerV3's has its units in blocks."""
    cells = import_module("torchrl.modules")
    options = {"num_blocks": 4} if name.startswith("Dreamer") else {}
    net = Around(getattr(cells, name)(UNITS, UNITS, **options))
    start = torch.zeros(N, UNITS)
    state = (start, start) if name == "LSTMCell" else start
    return Case(net, lambda x, state: _with_first(net, x, state), state)


def pytorch_forecasting_case(name: str) -> Case:
    """A cell of h and c: the next ones."""
    part = import_module(f"pytorch_forecasting.layers._recurrent._{name.lower()}.cell")
    net = Around(getattr(part, f"{name}Cell")(UNITS, UNITS, dropout=0.0))
    start = torch.zeros(N, UNITS)

    def cell(x: Any, state: Any) -> Any:
        state = net.neuron(net.first(x), *state)
        return net.last(state[0]), state

    return Case(net, cell, (start, start))


def torch_case(name: str) -> Case:
    """A cell of PyTorch itself: its output is its state, or the first of two."""
    net = Around(getattr(nn, name)(UNITS, UNITS))
    start = torch.zeros(N, UNITS)
    state = (start, start) if name == "LSTMCell" else start
    return Case(net, lambda x, state: _with_first(net, x, state), state)


def _with_first(net: Any, x: Any, state: Any) -> Any:
    state = net.neuron(net.first(x), state)
    return net.last(state if isinstance(state, torch.Tensor) else state[0]), state


SURROGATES = ("fast_sigmoid", "sigmoid", "triangular", "spike_rate_escape", "SFS")
CASES: dict[str, Callable[[], Case]] = {
    "snntorch Leaky": partial(snntorch_case, "Leaky", beta=0.9, learn_beta=True),
    "snntorch Leaky, to zero": partial(
        snntorch_case, "Leaky", beta=0.9, reset_mechanism="zero", learn_threshold=True
    ),
    "snntorch Leaky, at once": partial(snntorch_case, "Leaky", beta=0.9, reset_delay=False),
    "snntorch Leaky, given": partial(snntorch_case, "Leaky", count=1, beta=0.9, learn_beta=True),
    "snntorch Synaptic": partial(snntorch_case, "Synaptic", alpha=0.8, beta=0.9),
    "snntorch Synaptic, given": partial(
        snntorch_case, "Synaptic", count=2, alpha=0.8, beta=0.9, learn_alpha=True
    ),
    "snntorch Alpha": partial(snntorch_case, "Alpha", alpha=0.9, beta=0.8),
    "snntorch Lapicque": partial(snntorch_case, "Lapicque", beta=0.9),
    "snntorch RLeaky": partial(snntorch_case, "RLeaky", beta=0.9, linear_features=UNITS),
    "snntorch RSynaptic": partial(
        snntorch_case, "RSynaptic", alpha=0.8, beta=0.9, linear_features=UNITS
    ),
    "snntorch SLSTM": partial(snntorch_case, "SLSTM", input_size=UNITS, hidden_size=UNITS),
    **{f"snntorch {name}": partial(snntorch_case, "Leaky", name, beta=0.9) for name in SURROGATES},
    **{
        f"spikingjelly {name}": partial(spikingjelly_case, name)
        for name in (
            *("IFNode", "LIFNode", "ParametricLIFNode", "QIFNode", "EIFNode", "IzhikevichNode"),
            *("KLIFNode", "CUBALIFNode", "ComplementaryLIFNode", "TernaryLIFNode"),
        )
    },
    "spikingjelly LIFNode, detached": partial(spikingjelly_case, "LIFNode", detach_reset=True),
    **{
        f"spikingjelly {name}": partial(spikingjelly_case, "LIFNode", name)
        for name in ("ATan", "PiecewiseQuadratic", "SoftSign", "Erf", "LeakyKReLU", "SuperSpike")
    },
    **{
        f"norse {name}": partial(norse_case, name)
        for name in (
            *("LIFCell", "LIFRecurrentCell", "LSNNCell", "LSNNRecurrentCell", "LIFAdExCell"),
            *("LIFAdExRecurrentCell", "LIFRefracCell", "LIFRefracRecurrentCell", "IAFCell"),
            *("LICell", "LIFBoxCell", "LIFExCell", "LILinearCell", "LIFExRecurrentCell"),
        )
    },
    **{f"torch {name}": partial(torch_case, name) for name in ("LSTMCell", "GRUCell", "RNNCell")},
    "ncps CfCCell": partial(ncps_case, "CfCCell"),
    "ncps LTCCell": partial(ncps_case, "LTCCell"),
    **{
        f"torchrecurrent {name}": partial(torchrecurrent_case, name)
        for name in (
            *("ATR", "BR", "CFN", "FastGRNN", "IndRNN", "JANET", "LEM", "LiGRU", "MCLSTM", "MGU"),
            *("MinimalRNN", "MultiplicativeLSTM", "NAS", "PeepholeLSTM", "RAN", "SCRN", "UGRNN"),
            *("UnICORNN", "coRNN", "tauGRU"),
        )
    },
    **{
        f"tracetorch {kind}.{name}": partial(tracetorch_case, kind, name)
        for kind, names in {
            "snn": ("DSRLITS", "LIB", "RLIT", "SLITS"),
            "ssm": ("Mamba", "S4", "S5", "S6"),
        }.items()
        for name in names
    },
    **{
        f"sinabs {name}": partial(sinabs_case, name, **options)
        for name, options in {
            "IAF": {},
            "IAFRecurrent": {},
            "LIF": {"tau_mem": 20.0, "tau_syn": 10.0, "train_alphas": True},
            "LIFRecurrent": {"tau_mem": 20.0},
            "ALIF": {"tau_mem": 20.0, "tau_adapt": 20.0, "tau_syn": 10.0},
            "ALIFRecurrent": {"tau_mem": 20.0, "tau_adapt": 20.0},
            "ExpLeak": {"tau_mem": 20.0},
        }.items()
    },
    "xlstm sLSTM": xlstm_case,
    "pytorch_forecasting sLSTM": partial(pytorch_forecasting_case, "sLSTM"),
    **{
        f"torchrl {name}": partial(torchrl_case, name)
        for name in ("LSTMCell", "GRUCell", "DreamerV3BlockGRUCell")
    },
    "mambapy MambaBlock": mambapy_case,
    **{f"minGRU_pytorch {name}": partial(mingru_case, name) for name in ("minGRU", "minLSTM")},
}


def is_installed(name: str) -> bool:
    """Whether the package of a case is there."""
    return find_spec(name.partition(" ")[0]) is not None


def results(case: Case, run: Callable[..., Any], xs: Any) -> list[Any]:
    """The ys, the last state, and all gradients of a weighted sum."""
    case.reset()
    case.module.zero_grad()
    xs = xs.clone().requires_grad_()
    ys, last = run(case.cell, xs, case.state)
    weights = torch.linspace(-1, 2, ys.numel()).view(ys.shape)
    (ys * weights).sum().backward()
    grads = [x.grad for x in (xs, *case.module.parameters())]
    states = [x.detach() for x in torch.utils._pytree.tree_leaves(last) if x is not None]
    return [ys.detach(), *states, *(g for g in grads if g is not None)]


def inputs(steps: int) -> Any:
    torch.manual_seed(0)
    return torch.randn(steps, N, WIDTH) * 2


def difference(ours: list[Any], theirs: list[Any]) -> float:
    """The largest, in parts of each tensor's largest number."""
    assert len(ours) == len(theirs)
    pairs = zip(ours, theirs, strict=True)
    return max(float((a - b).abs().max() / b.abs().max().clamp(min=1e-6)) for a, b in pairs)


def _row(name: str) -> str:
    scan: Any = import_module("rnncc.torch").scan
    torch.manual_seed(1)
    case, xs = CASES[name](), inputs(T)
    theirs = results(case, loop, xs)
    try:
        start = time.perf_counter()
        ours = results(case, scan, xs)
        reading = time.perf_counter() - start
    except CompileError as error:
        reason = error.what.partition(":")[0]
        return f"| {name} | no: {reason} | | | | | |"
    times: dict[Any, list[float]] = {scan: [], loop: []}
    for _ in range(5):
        for run, taken in times.items():
            start = time.perf_counter()
            results(case, run, xs)
            taken.append(time.perf_counter() - start)
    fast, slow = median(times[scan]), median(times[loop])
    told = f"{difference(ours, theirs):.0e} | {1e3 * slow:.1f} | {1e3 * fast:.1f}"
    return f"| {name} | yes | {told} | {slow / fast:.1f} | {reading:.1f} |"


if __name__ == "__main__":
    torch.set_num_threads(1)
    print("| cell | compiled | differs | loop, ms | scan, ms | times | reading, s |")
    print("|---|---|---|---|---|---|---|")
    for case_name in sys.argv[1:] or [name for name in CASES if is_installed(name)]:
        print(_row(case_name), flush=True)
