"""Architectures of transformers for speech and sound: `library_audio_models.py OUTDIR`.

As those of `library_models.py`, small and random.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all
from tests.frontends.onnx.corpus.library_models import (
    SEQ2SEQ,
    SMALL,
    VOCABULARY,
    N,
    Of,
    random_model,
    tokens,
)

WAVE: dict[str, Any] = {
    **SMALL,
    "conv_dim": (16, 16, 16),
    "conv_stride": (5, 2, 2),
    "conv_kernel": (10, 3, 3),
    "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 2,
}


def _heard(kind: str, config: str, options: dict[str, Any]) -> Exported:
    """A model of sound [N, samples]."""
    return Exported(
        lambda: Of(random_model(kind, config, options), ["input_values"]),
        {"wave": torch.randn(2, 400)},
        {"wave": {0: "N", 1: "S"}},
    )


MODELS: dict[str, Exported] = {
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
            random_model(
                "Speech2TextForConditionalGeneration",
                "Speech2TextConfig",
                {**SEQ2SEQ, "input_feat_per_channel": 8, "conv_channels": 16},
            ),
            ["input_features", "decoder_input_ids"],
            use_cache=False,
        ),
        {"x": torch.randn(2, 24, 8), "tokens": tokens(2, 4)},
        {"x": TN, "tokens": {0: "N", 1: "U"}},
        {"tokens": (3, VOCABULARY - 1)},
        outputs=2,
    ),
    "moonshine": Exported(
        lambda: Of(
            random_model(
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
        {"wave": torch.randn(2, 1600), "tokens": tokens(2, 4)},
        {"wave": {0: "N", 1: "S"}, "tokens": {0: "N", 1: "U"}},
        {"tokens": (3, VOCABULARY - 1)},
        outputs=2,
    ),
    "spectrogram_transformer": Exported(
        lambda: Of(
            random_model(
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
            random_model(
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
            random_model(
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
            random_model(
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
}


if __name__ == "__main__":
    export_all(MODELS)
