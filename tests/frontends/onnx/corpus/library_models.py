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

from tests.frontends.onnx.corpus.torch_models import TN, Exported, export_all

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
WAVE: dict[str, Any] = {
    **SMALL,
    "conv_dim": (16, 16, 16),
    "conv_stride": (5, 2, 2),
    "conv_kernel": (10, 3, 3),
    "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 2,
}


def _of(kind: str, config: str, options: dict[str, Any]) -> Any:
    """A model of transformers with random weights."""
    made = getattr(transformers, config)(**options)
    made._attn_implementation = "eager"
    return getattr(transformers, kind)(made)


def _tokens(*shape: int) -> Tensor:
    return torch.randint(3, VOCABULARY, shape)


def _words(
    kind: str, config: str, options: dict[str, Any], name: str = "input_ids", **more: Any
) -> Exported:
    """A model of tokens [N, T]."""

    def made() -> nn.Module:
        return Of(_of(kind, config, options), [name], **more)

    return Exported(made, {name: _tokens(2, 6)}, {name: TN}, {name: (3, VOCABULARY - 1)})


def _remembering(kind: str, config: str, options: dict[str, Any], heads: int = 2) -> Exported:
    """A decoder behind keys and values [layers, N, heads, past, units]."""
    past = {1: "N", 3: "P"}
    return Exported(
        lambda: Remembering(_of(kind, config, options), 2),
        {
            "tokens": _tokens(2, 3),
            "keys": torch.randn(2, 2, heads, 5, 8),
            "values": torch.randn(2, 2, heads, 5, 8),
        },
        {"tokens": TN, "keys": past, "values": past},
        {"tokens": (3, VOCABULARY - 1)},
        outputs=3,
    )


def _heard(kind: str, config: str, options: dict[str, Any]) -> Exported:
    """A model of sound [N, samples]."""
    return Exported(
        lambda: Of(_of(kind, config, options), ["input_values"]),
        {"wave": torch.randn(2, 400)},
        {"wave": {0: "N", 1: "S"}},
    )


def _listening(kind: str, config: str, options: dict[str, Any], cls: Any) -> Exported:
    past = {0: "N", 2: "P"}
    return Exported(
        lambda: Listening(cls(getattr(transformers, config)(**options))),
        {
            "tokens": _tokens(2, 1),
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
    # encoders of sound
    "whisper_encoder": Exported(
        lambda: Of(
            transformers.models.whisper.modeling_whisper.WhisperEncoder(
                transformers.WhisperConfig(**SEQ2SEQ, num_mel_bins=8, max_source_positions=20)
            ),
            ["input_features"],
        ),
        {"x": torch.randn(2, 8, 40)},
        {"x": N},
    ),
    "wav2vec2": _heard("Wav2Vec2ForCTC", "Wav2Vec2Config", WAVE),
    "wav2vec2_stable": _heard(
        "Wav2Vec2ForCTC",
        "Wav2Vec2Config",
        {**WAVE, "do_stable_layer_norm": True, "feat_extract_norm": "layer"},
    ),
    "wav2vec2_conformer": _heard("Wav2Vec2ConformerForCTC", "Wav2Vec2ConformerConfig", WAVE),
    "wavlm": _heard("WavLMForCTC", "WavLMConfig", {**WAVE, "num_buckets": 8}),
    "xvectors": _heard(
        "WavLMForXVector",
        "WavLMConfig",
        {
            **WAVE,
            "num_buckets": 8,
            "tdnn_dim": (16, 16, 24),
            "tdnn_kernel": (5, 3, 1),
            "tdnn_dilation": (1, 2, 1),
            "xvector_output_dim": 16,
        },
    ),
    "hubert": _heard("HubertForCTC", "HubertConfig", WAVE),
    "sew": _heard("SEWForCTC", "SEWConfig", {**WAVE, "squeeze_factor": 2}),
    "unispeech_sat": _heard("UniSpeechSatForSequenceClassification", "UniSpeechSatConfig", WAVE),
    "speech_to_text": Exported(
        lambda: Of(
            _of(
                "Speech2TextForConditionalGeneration",
                "Speech2TextConfig",
                {**SEQ2SEQ, "input_feat_per_channel": 8, "conv_channels": 16},
            ),
            ["input_features", "decoder_input_ids"],
            use_cache=False,
        ),
        {"x": torch.randn(2, 24, 8), "tokens": _tokens(2, 4)},
        {"x": TN, "tokens": {0: "N", 1: "U"}},
        {"tokens": (3, VOCABULARY - 1)},
        outputs=2,
    ),
    "moonshine": Exported(
        lambda: Of(
            _of(
                "MoonshineForConditionalGeneration",
                "MoonshineConfig",
                {
                    **SMALL,
                    "encoder_num_hidden_layers": 1,
                    "decoder_num_hidden_layers": 1,
                    "encoder_num_attention_heads": 2,
                    "decoder_num_attention_heads": 2,
                },
            ),
            ["input_values", "decoder_input_ids"],
            use_cache=False,
        ),
        {"wave": torch.randn(2, 1600), "tokens": _tokens(2, 4)},
        {"wave": {0: "N", 1: "S"}, "tokens": {0: "N", 1: "U"}},
        {"tokens": (3, VOCABULARY - 1)},
        outputs=2,
    ),
    "spectrogram_transformer": Exported(
        lambda: Of(
            _of(
                "ASTForAudioClassification",
                "ASTConfig",
                {**SMALL, "max_length": 32, "num_mel_bins": 16, "patch_size": 8},
            ),
            ["input_values"],
        ),
        {"x": torch.randn(2, 32, 16)},
        {"x": N},
    ),
    # codecs and synthesis
    "encodec": Exported(
        lambda: Of(
            _of(
                "EncodecModel",
                "EncodecConfig",
                {
                    "num_filters": 4,
                    "hidden_size": 16,
                    "codebook_size": 16,
                    "codebook_dim": 16,
                    "upsampling_ratios": [4, 2],
                    "num_lstm_layers": 1,
                    "target_bandwidths": [1.5, 3.0],
                },
            ).encoder,
            ["hidden_states"],
        ),
        {"wave": torch.randn(2, 1, 320)},
        {"wave": {0: "N", 2: "S"}},
    ),
    "encodec_decoder": Exported(
        lambda: Of(
            _of(
                "EncodecModel",
                "EncodecConfig",
                {
                    "num_filters": 4,
                    "hidden_size": 16,
                    "codebook_dim": 16,
                    "upsampling_ratios": [4, 2],
                },
            ).decoder,
            ["hidden_states"],
        ),
        {"codes": torch.randn(2, 16, 12)},
        {"codes": {0: "N", 2: "T"}},
    ),
    "univnet": Exported(
        lambda: Of(
            _of(
                "UnivNetModel",
                "UnivNetConfig",
                {
                    "model_in_channels": 8,
                    "model_hidden_channels": 8,
                    "num_mel_bins": 8,
                    "resblock_stride_sizes": [2, 2],
                    "resblock_kernel_sizes": [3, 3],
                    "resblock_dilation_sizes": [[1, 3], [1, 3]],
                    "kernel_predictor_hidden_channels": 8,
                },
            ),
            ["input_features", "noise_sequence"],
        ),
        {"mel": torch.randn(2, 6, 8), "noise": torch.randn(2, 6, 8)},
        {"mel": TN, "noise": TN},
    ),
    # series
    "time_series": Exported(
        lambda: Of(
            _of(
                "TimeSeriesTransformerModel",
                "TimeSeriesTransformerConfig",
                {
                    **SEQ2SEQ,
                    "prediction_length": 4,
                    "context_length": 8,
                    "lags_sequence": [1, 2],
                    "num_time_features": 2,
                },
            ),
            ["past_values", "past_time_features", "past_observed_mask", "future_time_features"],
            use_cache=False,
        ),
        {
            "past": torch.randn(2, 10),
            "times": torch.randn(2, 10, 2),
            "seen": torch.ones(2, 10),
            "future": torch.randn(2, 4, 2),
        },
        {"past": N, "times": N, "seen": N, "future": N},
        outputs=4,
    ),
    "patch_tst": Exported(
        lambda: Of(
            _of(
                "PatchTSTForPrediction",
                "PatchTSTConfig",
                {
                    "num_input_channels": 3,
                    "context_length": 24,
                    "patch_length": 6,
                    "patch_stride": 3,
                    "d_model": 16,
                    "num_attention_heads": 2,
                    "num_hidden_layers": 1,
                    "ffn_dim": 16,
                    "prediction_length": 5,
                    "loss": "mse",
                },
            ),
            ["past_values"],
        ),
        {"past": torch.randn(2, 24, 3)},
        {"past": N},
        outputs=3,
    ),
    "patch_mixer": Exported(
        lambda: Of(
            _of(
                "PatchTSMixerForPrediction",
                "PatchTSMixerConfig",
                {
                    "num_input_channels": 3,
                    "context_length": 24,
                    "patch_length": 6,
                    "patch_stride": 6,
                    "d_model": 16,
                    "num_layers": 1,
                    "prediction_length": 5,
                    "loss": "mse",
                },
            ),
            ["past_values"],
        ),
        {"past": torch.randn(2, 24, 3)},
        {"past": N},
        outputs=4,
    ),
    "decision": Exported(
        lambda: Of(
            _of(
                "DecisionTransformerModel",
                "DecisionTransformerConfig",
                {
                    "state_dim": 5,
                    "act_dim": 3,
                    "hidden_size": 16,
                    "n_layer": 1,
                    "n_head": 2,
                    "max_ep_len": 32,
                },
            ),
            ["states", "actions", "returns_to_go", "timesteps"],
            rewards=None,
        ),
        {
            "states": torch.randn(2, 4, 5),
            "actions": torch.randn(2, 4, 3),
            "returns": torch.randn(2, 4, 1),
            "steps": torch.randint(0, 30, (2, 4)),
        },
        {"states": TN, "actions": TN, "returns": TN, "steps": TN},
        {"steps": (0, 31)},
        outputs=4,
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
    "sam_hiera": Exported(
        lambda: Of(
            _of(
                "HieraModel",
                "HieraConfig",
                {
                    "embed_dim": 8,
                    "image_size": [32, 32],
                    "depths": [1, 1],
                    "num_heads": [1, 2],
                    "num_query_pool": 1,
                    "masked_unit_size": [4, 4],
                },
            ),
            ["pixel_values"],
        ),
        {"image": torch.randn(2, 3, 32, 32)},
        {"image": N},
        outputs=2,
    ),
    "clip_of_pictures": Exported(
        lambda: Of(
            _of(
                "VideoMAEForVideoClassification",
                "VideoMAEConfig",
                {**SMALL, "image_size": 16, "patch_size": 8, "num_frames": 4},
            ),
            ["pixel_values"],
        ),
        {"clip": torch.randn(2, 4, 3, 16, 16)},
        {"clip": N},
    ),
    "reads_lines": Exported(
        lambda: Of(
            _of(
                "MgpstrForSceneTextRecognition",
                "MgpstrConfig",
                {
                    **SMALL,
                    "image_size": [16, 32],
                    "patch_size": 4,
                    "max_token_length": 5,
                    "num_character_labels": 12,
                    "num_bpe_labels": 9,
                    "num_wordpiece_labels": 8,
                },
            ),
            ["pixel_values"],
        ),
        {"image": torch.randn(2, 3, 16, 32)},
        {"image": N},
        outputs=3,
    ),
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    export_all(MODELS)
