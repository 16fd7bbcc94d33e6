"""Architectures of transformers for series, episodes, pictures: `library_series_models.py OUTDIR`.

As those of `library_models.py`, small and random.
"""

from __future__ import annotations

import torch

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all
from tests.frontends.onnx.corpus.library_models import SEQ2SEQ, SMALL, N, Of, random_model

MODELS: dict[str, Exported] = {
    # series
    "time_series": Exported(
        lambda: Of(
            random_model(
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
            random_model(
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
            random_model(
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
            random_model(
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
    "sam_hiera": Exported(
        lambda: Of(
            random_model(
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
            random_model(
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
            random_model(
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
    export_all(MODELS)
