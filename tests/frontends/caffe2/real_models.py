"""Caffe2's own models as the real Caffe2 runs them: writes tests/data/caffe2_models.npz.

Run as real_operators.py, with networkx installed beside. Of each model the net, its inputs, its
parameters, what it computes, and of a net that trains the gradients: a translator that is trained
(with its optimiser in the net), the same as it searches with a beam, a conditional random field.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).parents[2] / "data" / "caffe2_models.npz"
RANDOM = np.random.RandomState(5)
WORDS = 12
BEAM = 3
LISTS = ("token", "prev_index", "score", "attention_weights")


def numbers(*shape: int) -> Any:
    """Words, none of them special."""
    return RANDOM.randint(3, WORDS, shape).astype(np.int32)


def translator(
    attention: str, encoder: list[int], decoder: list[int], both_ways: bool = False
) -> dict[str, Any]:
    """The parameters of one, as Caffe2's examples state them; units of each layer."""
    return {
        "attention": attention,
        "decoder_layer_configs": [{"num_units": units} for units in decoder],
        "encoder_type": {
            "encoder_layer_configs": [{"num_units": units} for units in encoder],
            "use_bidirectional_encoder": both_ways,
        },
        "encoder_embedding_size": 5,
        "decoder_embedding_size": 6,
        "decoder_softmax_size": 4,
    }


TRANSLATORS = {
    "plain": translator("none", [6], [6]),
    "attention": translator("regular", [7], [7]),
    "layers": translator("regular", [4, 5], [8, 5], both_ways=True),
}


def read_by(net: Any) -> Iterator[str]:
    """All names that a net and the nets inside it read."""
    for op in net.op:
        yield from op.input
        for arg in op.arg:
            if arg.HasField("n"):
                yield from read_by(arg.n)


def ran(net: Any, inputs: dict[str, Any], outputs: list[str], gradients: bool) -> dict[str, Any]:
    """All arrays of a model whose parameters are in the workspace."""
    from caffe2.python import workspace

    for name, array in inputs.items():
        workspace.FeedBlob(name, array)
    written = {name for op in net.Proto().op for name in op.output}
    declared = [*net.Proto().external_input, *read_by(net.Proto())]
    inner = {n for n in dict.fromkeys(declared) if n not in inputs and workspace.HasBlob(n)}
    held = {name: workspace.FetchBlob(name) for name in inner}
    params = {name: a.copy() for name, a in held.items() if isinstance(a, np.ndarray)}
    workspace.RunNetOnce(net)
    plain = net.Proto()
    plain.external_output.extend(o for o in outputs if o not in plain.external_output)
    found: dict[str, Any] = {"net": np.frombuffer(plain.SerializeToString(), np.uint8)}
    found.update({f"in:{name}": array for name, array in inputs.items()})
    # what the net writes before it reads it was left there by an earlier run
    own = {n for n in params if n not in written or n in plain.external_input}
    found.update({f"param:{name}": params[name] for name in own})
    found.update({f"out:{name}": workspace.FetchBlob(name) for name in outputs})
    for name in sorted(own | inputs.keys()) if gradients else ():
        if workspace.HasBlob(f"{name}_grad"):
            array = workspace.FetchBlob(f"{name}_grad")
            if isinstance(array, np.ndarray):
                found[f"grad:{name}_grad"] = array
    return found


def translators(name: str, params: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """One that trains, and the same as it translates sentences of two lengths."""
    from caffe2.python import workspace
    from caffe2.python.models.seq2seq.train import Seq2SeqModelCaffe2
    from caffe2.python.models.seq2seq.translate import Seq2SeqModelCaffe2EnsembleDecoder

    training: dict[str, Any] = dict(params, batch_size=2, optimizer_params={"learning_rate": 0.1})
    training["max_gradient_norm"] = 1.0
    workspace.ResetWorkspace()
    trained = Seq2SeqModelCaffe2(training, WORDS, WORDS, 0)
    trained.initialize_from_scratch()
    prefix = tempfile.mkdtemp() + "/model"
    saved = trained.save(checkpoint_path_prefix=prefix, current_step=0)
    inputs = {
        "encoder_inputs": numbers(5, 2),
        "encoder_lengths": np.array([5, 3], np.int32),
        "decoder_inputs": numbers(6, 2),
        "decoder_lengths": np.array([6, 4], np.int32),
        "targets": numbers(6, 2),
        "target_weights": RANDOM.rand(6, 2).astype(np.float32),
    }
    losses = ["total_loss_scalar", "total_loss_scalar_weighted"]
    yield f"train-{name}", ran(trained.model.net, inputs, losses, gradients=True)
    for length, steps in ((5, 7), (2, 3)):
        workspace.ResetWorkspace()
        words = {i: str(i) for i in range(WORDS)}
        model = {"source_vocab": words, "target_vocab": words, "model_params": params}
        searched = Seq2SeqModelCaffe2EnsembleDecoder(
            {
                "ensemble_models": [{**model, "model_file": saved}],
                "decoding_params": {"beam_size": BEAM, "word_reward": 0.1, "unk_reward": 0},
            }
        )
        searched.load_models()
        inputs = {
            "encoder_inputs": numbers(length, 1),
            "encoder_lengths": np.array([length], np.int32),
            "max_output_seq_len": np.array([steps]),
        }
        lists = [f"output_{kind}_beam_list" for kind in LISTS]
        yield f"beam-{name}-{length}", ran(searched.model.net, inputs, lists, gradients=False)


def random_field(length: int) -> dict[str, Any]:
    """The loss of a conditional random field, and its gradients."""
    from caffe2.python import crf, model_helper, workspace

    workspace.ResetWorkspace()
    model = model_helper.ModelHelper(name="crf")
    model.net.AddExternalInputs("scores", "labels")
    loss = crf.CRFWithLoss(model, 4).crf_loss("scores", "labels")
    model.AddGradientOperators([loss])
    workspace.RunNetOnce(model.param_init_net)
    inputs = {
        "scores": RANDOM.randn(length, 4).astype(np.float32),
        "labels": RANDOM.randint(0, 4, length).astype(np.int32),
    }
    return ran(model.net, inputs, [str(loss)], gradients=True)


def main() -> None:
    """Write the file."""
    arrays = dict[str, Any]()
    models = [model for name, p in TRANSLATORS.items() for model in translators(name, p)]
    models += [(f"crf-{length}", random_field(length)) for length in (6, 1)]
    for name, found in models:
        arrays.update({f"{name}/{member}": array for member, array in found.items()})
    np.savez_compressed(FILE, **arrays)


if __name__ == "__main__":
    main()
