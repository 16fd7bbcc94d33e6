"""Architectures of the package transformers, small and random: `library_models.py OUTDIR`.

The code is that of the package, sizes and weights are ours; both of PyTorch's exporters write them.
Decoders take and give the keys and values of earlier tokens.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from transformers.cache_utils import DynamicCache

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all

VOCABULARY = 40
N = {0: "N"}


class Of(nn.Module):
    """A model of a library, its inputs by name, its tensors in their order."""

    def __init__(self, model: nn.Module, names: Iterable[str], **options: Any) -> None:
        super().__init__()
        self.model, self.names, self.options = model, tuple(names), options

    def forward(
        self, a: Tensor, b: Tensor | None = None, c: Tensor | None = None, d: Tensor | None = None
    ) -> Any:
        given = dict(zip(self.names, (a, b, c, d), strict=False))
        made: Any = self.model(**given, **self.options)
        return tuple(tensors_of(made.to_tuple() if hasattr(made, "to_tuple") else made))


def tensors_of(made: Any) -> list[Tensor]:
    """Those within tuples and lists."""
    if isinstance(made, Tensor):
        return [made]
    return [t for part in made for t in tensors_of(part)] if isinstance(made, (tuple, list)) else []


class Remembering(nn.Module):
    """A decoder of new tokens behind keys and values of earlier ones, one pair a layer."""

    def __init__(self, model: nn.Module, layers: int) -> None:
        super().__init__()
        self.model, self.layers = model, layers

    def forward(self, tokens: Tensor, keys: Tensor, values: Tensor) -> Any:
        cache = DynamicCache()
        for layer in range(self.layers):
            cache.update(keys[layer], values[layer], layer)
        made: Any = self.model(input_ids=tokens, past_key_values=cache, use_cache=True)
        pairs = [(layer.keys, layer.values) for layer in made.past_key_values.layers]
        return made[0], *(torch.stack(kind) for kind in zip(*pairs, strict=True))


class Listening(nn.Module):
    """A decoder of tokens that attends to what an encoder gave, behind keys of earlier tokens."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, heard: Tensor, keys: Tensor, values: Tensor) -> Any:
        cache = DynamicCache()
        cache.update(keys, values, 0)
        made: Any = self.model(
            input_ids=tokens, encoder_hidden_states=heard, past_key_values=cache, use_cache=True
        )
        layer = made.past_key_values.layers[0]
        return made[0], layer.keys, layer.values


SMALL: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
SEQ2SEQ: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}


def random_model(kind: str, config: str, options: dict[str, Any]) -> Any:
    """A model of transformers with random weights."""
    made = getattr(transformers, config)(**options)
    made._attn_implementation = "eager"
    return getattr(transformers, kind)(made)


def tokens(*shape: int) -> Tensor:
    return torch.randint(3, VOCABULARY, shape)


def _words(
    kind: str, config: str, options: dict[str, Any], name: str = "input_ids", **more: Any
) -> Exported:
    """A model of tokens [N, T]."""

    def made() -> nn.Module:
        return Of(random_model(kind, config, options), [name], **more)

    return Exported(made, {name: tokens(2, 6)}, {name: TN}, {name: (3, VOCABULARY - 1)})


def _remembering(kind: str, config: str, options: dict[str, Any], heads: int = 2) -> Exported:
    """A decoder behind keys and values [layers, N, heads, past, units]."""
    past = {1: "N", 3: "P"}
    return Exported(
        lambda: Remembering(random_model(kind, config, options), 2),
        {
            "tokens": tokens(2, 3),
            "keys": torch.randn(2, 2, heads, 5, 8),
            "values": torch.randn(2, 2, heads, 5, 8),
        },
        {"tokens": TN, "keys": past, "values": past},
        {"tokens": (3, VOCABULARY - 1)},
        outputs=3,
    )


def _listening(kind: str, config: str, options: dict[str, Any], cls: Any) -> Exported:
    past = {0: "N", 2: "P"}
    return Exported(
        lambda: Listening(cls(getattr(transformers, config)(**options))),
        {
            "tokens": tokens(2, 1),
            "heard": torch.randn(2, 7, 16),
            "keys": torch.randn(2, 2, 4, 8),
            "values": torch.randn(2, 2, 4, 8),
        },
        {"tokens": N, "heard": {0: "N", 1: "S"}, "keys": past, "values": past},
        {"tokens": (3, VOCABULARY - 1)},
        outputs=3,
    )


MODELS: dict[str, Exported] = {
    # state spaces and linear recurrences
    "mamba": _words(
        "MambaForCausalLM",
        "MambaConfig",
        {**SMALL, "state_size": 4, "time_step_rank": 2, "use_mambapy": False},
        use_cache=False,
    ),
    "falcon_mamba": _words(
        "FalconMambaForCausalLM",
        "FalconMambaConfig",
        {**SMALL, "state_size": 4, "time_step_rank": 2},
        use_cache=False,
    ),
    "mamba2": _words(
        "Mamba2ForCausalLM",
        "Mamba2Config",
        {**SMALL, "state_size": 4, "head_dim": 8, "num_heads": 4, "n_groups": 2, "chunk_size": 4},
        use_cache=False,
    ),
    "rwkv": _words(
        "RwkvForCausalLM",
        "RwkvConfig",
        {**SMALL, "attention_hidden_size": 16, "context_length": 64},
        use_cache=False,
    ),
    "xlstm": _words(
        "xLSTMForCausalLM",
        "xLSTMConfig",
        {
            "vocab_size": VOCABULARY,
            "hidden_size": 16,
            "num_blocks": 2,
            "num_heads": 2,
            "chunk_size": 4,
            "mode": "inference",
        },
        use_cache=False,
    ),
    "recurrent_gemma": _words(
        "RecurrentGemmaForCausalLM",
        "RecurrentGemmaConfig",
        {**SMALL, "lru_width": 16, "attention_window_size": 8, "head_dim": 8},
        use_cache=False,
    ),
    "jamba": _words(
        "JambaForCausalLM",
        "JambaConfig",
        {
            **SMALL,
            "num_key_value_heads": 1,
            "num_experts": 2,
            "num_experts_per_tok": 1,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "mamba_d_state": 4,
            "mamba_dt_rank": 2,
            "use_mamba_kernels": False,
        },
        use_cache=False,
    ),
    "lfm2": _words(
        "Lfm2ForCausalLM",
        "Lfm2Config",
        {**SMALL, "num_key_value_heads": 1, "layer_types": ["conv", "full_attention"]},
        use_cache=False,
    ),
    "qwen3_next": _words(
        "Qwen3NextForCausalLM",
        "Qwen3NextConfig",
        {
            **SMALL,
            "num_key_value_heads": 1,
            "head_dim": 8,
            "layer_types": ["linear_attention", "full_attention"],
            "linear_key_head_dim": 4,
            "linear_value_head_dim": 4,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "num_experts": 2,
            "num_experts_per_tok": 1,
            "moe_intermediate_size": 8,
            "shared_expert_intermediate_size": 8,
        },
        use_cache=False,
    ),
    # decoders with keys and values
    "gpt2": _remembering(
        "GPT2LMHeadModel",
        "GPT2Config",
        {"vocab_size": VOCABULARY, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64},
    ),
    "llama": _remembering(
        "LlamaForCausalLM", "LlamaConfig", {**SMALL, "num_key_value_heads": 1}, heads=1
    ),
    "mistral": _remembering(
        "MistralForCausalLM",
        "MistralConfig",
        {**SMALL, "num_key_value_heads": 1, "sliding_window": 4},
        heads=1,
    ),
    "qwen3": _remembering(
        "Qwen3ForCausalLM",
        "Qwen3Config",
        {**SMALL, "num_key_value_heads": 2, "head_dim": 8},
    ),
    "gpt_neox": _remembering("GPTNeoXForCausalLM", "GPTNeoXConfig", SMALL),
    "opt": _remembering(
        "OPTForCausalLM",
        "OPTConfig",
        {**SMALL, "ffn_dim": 32, "word_embed_proj_dim": 16},
    ),
    "bloom": _remembering(
        "BloomForCausalLM",
        "BloomConfig",
        {"vocab_size": VOCABULARY, "hidden_size": 16, "n_layer": 2, "n_head": 2},
    ),
    "whisper_decoder": _listening(
        "WhisperDecoder",
        "WhisperConfig",
        SEQ2SEQ,
        transformers.models.whisper.modeling_whisper.WhisperDecoder,
    ),
    "bart_decoder": _listening(
        "BartDecoder", "BartConfig", SEQ2SEQ, transformers.models.bart.modeling_bart.BartDecoder
    ),
    # texts and pictures
    "xlnet": _words(
        "XLNetLMHeadModel",
        "XLNetConfig",
        {"vocab_size": VOCABULARY, "d_model": 16, "n_layer": 1, "n_head": 2, "d_inner": 32},
    ),
    "fnet": _words("FNetForMaskedLM", "FNetConfig", {**SMALL, "max_position_embeddings": 64}),
    "deberta": _words(
        "DebertaV2ForTokenClassification",
        "DebertaV2Config",
        {
            **SMALL,
            "relative_attention": True,
            "pos_att_type": ["p2c", "c2p"],
            "conv_kernel_size": 3,
        },
    ),
    "albert": _words("AlbertModel", "AlbertConfig", {**SMALL, "embedding_size": 8}),
    "mpnet": _words("MPNetModel", "MPNetConfig", SMALL),
    "t5_encoder": _words(
        "T5EncoderModel",
        "T5Config",
        {
            "vocab_size": VOCABULARY,
            "d_model": 16,
            "d_kv": 8,
            "d_ff": 32,
            "num_layers": 1,
            "num_heads": 2,
        },
    ),
    "nystromformer": _words(
        "NystromformerModel",
        "NystromformerConfig",
        {**SMALL, "num_landmarks": 2, "segment_means_seq_len": 4, "max_position_embeddings": 64},
    ),
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    export_all(MODELS)
