"""Loads compiled code into this process."""

from __future__ import annotations

from rnncc_runtime import Model, TrainableModel
from rnncc_runtime.library import bind

from rnncc.codegen import targets
from rnncc.packaging.image import Image


def load(image: Image) -> Model | TrainableModel:
    """A model whose functions live as long as it does."""
    engine, weights = targets.load(image.metadata["target"], image.code), image.weights
    functions = {
        name: bind(image.metadata, name, engine.get_function_address(symbol), weights.ctypes.data)
        for name, symbol in image.symbols.items()
    }
    kind = TrainableModel if "trained" in image.metadata else Model
    return kind(image.metadata, functions, keep=(engine, weights))
