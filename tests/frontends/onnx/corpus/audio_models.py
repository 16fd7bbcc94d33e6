"""Architectures of the package torchaudio, small and random: `python audio_models.py OUTDIR`.

The code is that of the package, sizes and weights are ours; both of PyTorch's exporters write them.
"""

from __future__ import annotations

from typing import Any

import torch
import torchaudio
from torch import Tensor, nn

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all
from tests.frontends.onnx.corpus.library_models import VOCABULARY, N, Of, tensors_of

HIDDEN = 12


class Predicting(nn.Module):
    """The predictor of a transducer, one LSTM layer whose state goes in and out."""

    def __init__(self) -> None:
        super().__init__()
        self.model: Any = _transducer()

    def forward(self, tokens: Tensor, lengths: Tensor, h: Tensor, c: Tensor) -> Any:
        return tuple(tensors_of(self.model.predict(tokens, lengths, [[h, c]])))


class Joining(nn.Module):
    """The joint network of a transducer."""

    def __init__(self) -> None:
        super().__init__()
        self.model: Any = _transducer()

    def forward(self, x: Tensor, lengths: Tensor, y: Tensor, targets: Tensor) -> Any:
        return self.model.join(x, lengths, y, targets)


class Inferring(nn.Module):
    """A method other than `forward`."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model: Any = model

    def forward(self, x: Tensor, lengths: Tensor) -> Any:
        return tuple(tensors_of(self.model.infer(x, lengths)))


def _transducer() -> nn.Module:
    return torchaudio.models.rnnt.emformer_rnnt_model(
        input_dim=16,
        encoding_dim=16,
        num_symbols=VOCABULARY,
        segment_length=4,
        right_context_length=1,
        time_reduction_input_dim=8,
        time_reduction_stride=2,
        transformer_num_heads=2,
        transformer_ffn_dim=16,
        transformer_num_layers=1,
        transformer_dropout=0.0,
        transformer_activation="gelu",
        transformer_left_context_length=4,
        transformer_max_memory_size=0,
        transformer_weight_init_scale_strategy="depthwise",
        transformer_tanh_on_mem=True,
        symbol_embedding_dim=HIDDEN,
        num_lstm_layers=1,
        lstm_layer_norm=True,
        lstm_layer_norm_epsilon=1e-3,
        lstm_dropout=0.0,
    )


def _tokens(*shape: int) -> Tensor:
    return torch.randint(3, VOCABULARY, shape)


MODELS: dict[str, Exported] = {
    "predictor": Exported(
        Predicting,
        {
            "tokens": _tokens(2, 1),
            "lengths": torch.tensor([1, 1]),
            "h": torch.randn(2, HIDDEN),
            "c": torch.randn(2, HIDDEN),
        },
        {"tokens": N, "lengths": N, "h": N, "c": N},
        {"tokens": (3, VOCABULARY - 1), "lengths": (1, 1)},
        outputs=4,
    ),
    "joiner": Exported(
        Joining,
        {
            "x": torch.randn(2, 5, 16),
            "xl": torch.tensor([5, 5]),
            "y": torch.randn(2, 3, 16),
            "yl": torch.tensor([3, 3]),
        },
        {"x": TN, "xl": N, "y": {0: "N", 1: "U"}, "yl": N},
        outputs=3,
    ),
    "conformer": Exported(
        lambda: Of(torchaudio.models.Conformer(16, 2, 32, 1, 5), ["input", "lengths"]),
        {"x": torch.randn(2, 6, 16), "lengths": torch.tensor([6, 4])},
        {"x": TN, "lengths": N},
        {"lengths": ("T", "T")},
        outputs=2,
    ),
    "conv_tasnet": Exported(
        lambda: torchaudio.models.ConvTasNet(2, 16, 16, 3, 16, 16, 2, 1),
        {"wave": torch.randn(2, 1, 200)},
        {"wave": {0: "N", 2: "S"}},
    ),
    "wav2letter": Exported(
        lambda: torchaudio.models.Wav2Letter(10, "mfcc", 13),
        {"x": torch.randn(1, 13, 40)},
        {"x": {0: "N", 2: "T"}},
    ),
    "wave_rnn": Exported(
        lambda: torchaudio.models.WaveRNN([2, 2], 16, 4, 1, 16, 16, 3, 8, 16, 16),
        {"wave": torch.randn(2, 1, 24), "mel": torch.randn(2, 1, 8, 8)},
        {"wave": {0: "N"}, "mel": {0: "N"}},
    ),
    "squim": Exported(
        lambda: torchaudio.models.squim_objective_model(
            feat_dim=16,
            win_len=16,
            d_model=8,
            nhead=1,
            hidden_dim=8,
            num_blocks=1,
            rnn_type="LSTM",
            chunk_size=5,
        ),
        {"wave": torch.randn(2, 400)},
        {"wave": N},
        outputs=3,
    ),
    "tacotron": Exported(
        lambda: Inferring(
            torchaudio.models.Tacotron2(
                n_symbol=VOCABULARY,
                n_mels=8,
                symbol_embedding_dim=16,
                encoder_embedding_dim=16,
                encoder_n_convolution=1,
                decoder_rnn_dim=16,
                decoder_max_step=6,
                attention_rnn_dim=16,
                attention_hidden_dim=8,
                prenet_dim=8,
                postnet_n_convolution=2,
                postnet_embedding_dim=16,
            )
        ),
        {"tokens": _tokens(1, 6), "lengths": torch.tensor([6])},
        {"tokens": {1: "T"}},
        {"tokens": (3, VOCABULARY - 1), "lengths": ("T", "T")},
        outputs=3,
    ),
    "audio_wav2vec2": Exported(
        lambda: Of(
            torchaudio.models.wav2vec2_model(
                "group_norm",
                [(16, 10, 5), (16, 3, 2)],
                True,
                16,
                0.0,
                8,
                2,
                1,
                2,
                0.0,
                32,
                0.0,
                0.0,
                False,
                0.0,
                12,
            ),
            ["waveforms", "lengths"],
        ),
        {"wave": torch.randn(2, 400), "lengths": torch.tensor([400, 300])},
        {"wave": {0: "N", 1: "S"}, "lengths": N},
        {"lengths": (300, 300)},
        outputs=2,
    ),
}

if __name__ == "__main__":
    export_all(MODELS)
