"""Recurrent language models: `taskset -c 1 python -m benchmarks.language_models [NAME...]`

Those of the package transformers (5.24 here), of a few small layers with random weights, as
`rnncc.torch.compile` compiles them: a whole model, from tokens to the last hidden states, forward
and backward. It prints the table of docs/published.md.

Both sides compute a batch in turn, on one thread; times are medians of processor time.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from importlib import import_module
from statistics import median
from time import process_time
from typing import Any

import torch

N, T, WORDS, UNITS = 4, 32, 256, 64
ROUNDS = 9
LAYERS = {"vocab_size": WORDS, "hidden_size": UNITS, "num_hidden_layers": 2}
ATTENTION = {
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "max_position_embeddings": 128,
}
MAMBA2 = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 16, "mamba_chunk_size": 16}
MODELS: dict[str, Mapping[str, Any]] = {
    "Mamba": {**LAYERS, "state_size": 16},
    "FalconMamba": {**LAYERS, "state_size": 16},
    "Mamba2": {**LAYERS, "num_heads": 8, "head_dim": 16, "state_size": 16, "n_groups": 1}
    | {"chunk_size": 16},
    "Rwkv": {**LAYERS, "context_length": 64},
    "RecurrentGemma": {**LAYERS, "num_hidden_layers": 3, "num_attention_heads": 4, "head_dim": 16}
    | {"intermediate_size": 192, "lru_width": UNITS, "attention_window_size": 16},
    "xLSTM": {"vocab_size": WORDS, "hidden_size": UNITS, "num_blocks": 2, "num_heads": 2}
    | {"chunk_size": 16},
    "Lfm2": {**LAYERS, **ATTENTION, "layer_types": ["conv", "full_attention"]},
    "Jamba": {**LAYERS, **ATTENTION, "num_experts": 1, "num_experts_per_tok": 1}
    | {"use_mamba_kernels": False, "attn_layer_period": 2, "attn_layer_offset": 1},
    "Bamba": {**LAYERS, **ATTENTION, **MAMBA2, "attn_layer_indices": [1]},
    "FalconH1": {**LAYERS, **ATTENTION, **MAMBA2, "mamba_d_ssm": 128},
}
"""By the first part of the classes' names: what their configurations are made of."""


class Hidden(torch.nn.Module):
    """A model from tokens to its last hidden states."""

    def __init__(self, name: str) -> None:
        super().__init__()
        transformers: Any = import_module("transformers")
        config = getattr(transformers, f"{name}Config")(**MODELS[name])
        self.model = getattr(transformers, f"{name}Model")(config)

    def forward(self, tokens: torch.Tensor) -> Any:
        """Their hidden states."""
        return self.model(input_ids=tokens, use_cache=False).last_hidden_state


def gradients(run: Any, net: Hidden, tokens: torch.Tensor) -> list[Any]:
    """The hidden states, and the gradients of all parameters that have some."""
    net.zero_grad()
    y = run(tokens)
    # Not their squares, whose sum is what the last layer normalises.
    (y @ torch.linspace(-1, 1, UNITS)).square().mean().backward()
    return [y.detach(), *(p.grad.clone() for p in net.parameters() if p.grad is not None)]


def difference(ours: list[Any], theirs: list[Any]) -> float:
    """The largest one, in parts of each tensor's largest number."""
    assert len(ours) == len(theirs), "other parameters have gradients"
    pairs = zip(ours, theirs, strict=True)
    return max(float((a - b).abs().max() / b.abs().max().clamp(min=1e-9)) for a, b in pairs)


def row(name: str) -> str:
    """A row of the table."""
    rnncc: Any = import_module("rnncc.torch")
    torch.manual_seed(0)
    net, tokens = Hidden(name).eval(), torch.randint(WORDS, (N, T))
    expected = gradients(net, net, tokens)  # before: a first call may settle how weights are kept
    begun = process_time()
    compiled = rnncc.compile(net, (tokens,), train=True)
    made = gradients(compiled, net, tokens)
    first, times = process_time() - begun, {run: list[float]() for run in (net, compiled)}
    for _ in range(ROUNDS):
        for run, kept in times.items():
            begun = process_time()
            gradients(run, net, tokens)
            kept.append(1000 * (process_time() - begun))
    eager, ours = map(median, times.values())
    worst = difference(made, expected)
    return f"| {name} | {worst:.0e} | {eager:.1f} | {ours:.1f} | {eager / ours:.1f} | {first:.1f} |"


def main() -> None:
    """The table."""
    warnings.simplefilter("ignore")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    torch.set_num_threads(1)
    print(
        "| model | differs | eager, ms | rnncc, ms | times | first, s |\n|---|---|---|---|---|---|"
    )
    for name in sys.argv[1:] or MODELS:
        print(row(name), flush=True)


if __name__ == "__main__":
    main()
