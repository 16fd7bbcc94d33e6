"""FunASR's recognisers as its exporter writes them: `python funasr_models.py OUTDIR [NAME...]`.

Paraformer predicts how many tokens there are, as the floor of a sum; its embeddings are put
together at the frames where a running sum passes a whole number, by masks or by a loop. It needs
the packages funasr, onnxscript and what these import. Each becomes `funasr_NAME.onnx`.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from funasr.models.bicif_paraformer.cif_predictor import CifPredictorV3, CifPredictorV3Export
from funasr.models.ct_transformer_streaming.encoder import SANMVadEncoder, SANMVadEncoderExport
from funasr.models.fsmn_vad_streaming.encoder import FSMN, FSMNExport
from funasr.models.paraformer.cif_predictor import CifPredictorV2, CifPredictorV2Export
from funasr.models.paraformer.decoder import (
    ParaformerSANMDecoder,
    ParaformerSANMDecoderExport,
    ParaformerSANMDecoderOnlineExport,
)
from funasr.models.sanm.encoder import SANMEncoder, SANMEncoderExport
from funasr.utils.torch_function import sequence_mask
from torch import Tensor, nn

BANDS, UNITS, LONGEST, TOKENS = 20, 16, 512, 21
LAYERS = {"attention_heads": 2, "linear_units": 24, "num_blocks": 2, "kernel_size": 5}
ENCODER = {"output_size": UNITS, "input_layer": "pe", **LAYERS}
PREDICTOR = {"idim": UNITS, "l_order": 1, "r_order": 1, "threshold": 1.0, "tail_threshold": 0.45}
UPSAMPLED = {"upsample_times": 3, "upsample_type": "cnn_blstm", "use_cif1_cnn": False}


def encoder() -> nn.Module:
    return SANMEncoderExport(SANMEncoder(input_size=BANDS, **ENCODER), onnx=True)


def decoder(kind: Callable[..., nn.Module]) -> nn.Module:
    made = ParaformerSANMDecoder(
        vocab_size=TOKENS, encoder_output_size=UNITS, att_layer_num=2, **LAYERS
    )
    return kind(made, onnx=True)


class Paraformer(nn.Module):
    """Encoder, predictor, decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder(), decoder(ParaformerSANMDecoderExport)
        self.mask = sequence_mask(LONGEST, flip=False)
        self.predictor = CifPredictorV2Export(CifPredictorV2(**PREDICTOR))

    def forward(self, speech: Tensor, lengths: Tensor) -> Any:
        heard, count = self.encoder(speech, lengths)
        embeddings, tokens, *_ = self.predictor(heard, self.mask(count)[:, None, :])
        tokens = tokens.floor().to(torch.int32)
        return torch.log_softmax(self.decoder(heard, count, embeddings, tokens)[0], -1), tokens


class WithTimes(Paraformer):
    """BiCif: embeddings by a loop over frames, one over the batch, and times of tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.predictor = CifPredictorV3Export(CifPredictorV3(**PREDICTOR, **UPSAMPLED))

    def forward(self, speech: Tensor, lengths: Tensor) -> Any:
        heard, count = self.encoder(speech, lengths)
        mask = self.mask(count)[:, None, :]
        embeddings, tokens, *_ = self.predictor(heard, mask)
        tokens = tokens.round().to(torch.int32)
        made = torch.log_softmax(self.decoder(heard, count, embeddings, tokens)[0], -1)
        return made, tokens, *self.predictor.get_upsample_timestmap(heard, mask, tokens)


class Chunk(nn.Module):
    """The decoder of a chunk behind caches of its convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.decoder = decoder(ParaformerSANMDecoderOnlineExport)

    def forward(self, heard: Tensor, count: Tensor, x: Tensor, n: Tensor, *caches: Tensor) -> Any:
        made, kept = self.decoder(heard, count, x, n, *caches)
        return made, made.argmax(-1), *kept


class Punctuation(nn.Module):
    """Marks between words, with masks as inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(TOKENS, UNITS), nn.Linear(UNITS, 6)
        self.encoder = SANMVadEncoderExport(SANMVadEncoder(input_size=UNITS, **ENCODER), onnx=True)

    def forward(self, words: Tensor, count: Tensor, vad: Tensor, sub: Tensor) -> Tensor:
        return self.out(self.encoder(self.embed(words), count, vad, sub)[0])


class Voice(nn.Module):
    """A voice detector of memory blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = FSMNExport(FSMN(BANDS, 8, 2, 12, 6, 4, 0, 1, 1, 8, 5))

    def forward(self, speech: Tensor, *caches: Tensor) -> Any:
        scores, kept = self.encoder(speech, *caches)
        return scores, *kept


def _count(*numbers: int) -> Tensor:
    return torch.tensor(numbers, dtype=torch.int32)


NT, SQUARE = {0: "N", 1: "T"}, {2: "T", 3: "T"}
SPEECH = {"speech": (torch.randn(2, 30, BANDS), NT), "lengths": (_count(20, 30), {0: "N"})}
ALL = {"lengths": ("T", "T")}
BOUND = {"max_iterations": "T+1", "draws": [[1, 30], [3, 41], [2, 17]]}
CHUNK = {
    "heard": (torch.randn(2, 12, UNITS), NT),
    "heard_length": (_count(12, 12), {0: "N"}),
    "tokens": (torch.randn(2, 5, UNITS), {0: "N", 1: "U"}),
    "token_length": (_count(5, 4), {0: "N"}),
    **{f"cache{at}": (torch.randn(2, UNITS, 4), {0: "N"}) for at in range(2)},
}
WORDS = {
    "words": (torch.randint(0, TOKENS, (1, 12)).int(), {1: "T"}),
    "count": (_count(12), {}),
    **{name: (torch.ones(1, 1, 12, 12), SQUARE) for name in ("vad", "sub")},
}
FRAMES = {
    "speech": (torch.randn(1, 9, BANDS), {1: "T"}),
    **{f"cache{at}": (torch.randn(1, 6, 3, 1), {}) for at in range(2)},
}
Case = tuple[Callable[[], nn.Module], dict[str, Any], dict[str, Any], dict[str, Any]]
"""A module; inputs and their open sizes by name; how integers are drawn; what else is told."""
MODELS: dict[str, Case] = {
    "paraformer": (Paraformer, SPEECH, ALL, BOUND),
    "bicif": (WithTimes, SPEECH, ALL, BOUND),
    "chunk": (Chunk, CHUNK, {"heard_length": ("T", "T"), "token_length": ("U", "U")}, {}),
    "punctuation": (Punctuation, WORDS, {"words": (0, TOKENS - 1), "count": ("T", "T")}, {}),
    "voice": (Voice, FRAMES, {}, {}),
}


def write(name: str, folder: Path) -> None:
    """A model with random weights, by the first exporter, as FunASR has it."""
    torch.manual_seed(0)
    make, inputs, integers, told = MODELS[name]
    module, path = make().eval(), folder / f"funasr_{name}.onnx"
    for parameter in module.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.2)
    torch.onnx.export(
        module,
        tuple(example for example, _ in inputs.values()),
        str(path),
        input_names=list(inputs),
        dynamic_axes={name: axes for name, (_, axes) in inputs.items()},
        opset_version=17,
        dynamo=False,
    )
    path.with_suffix(".json").write_text(json.dumps({"integers": integers, **told}))


def main() -> None:
    folder, *names = sys.argv[1:]
    warnings.simplefilter("ignore")
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name in names or MODELS:
        write(name, Path(folder))
        print(name, flush=True)


if __name__ == "__main__":
    main()
