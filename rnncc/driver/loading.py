"""Loads compiled code into this process."""

from __future__ import annotations

import ctypes
from typing import Any

from rnncc_runtime import Model, TrainableModel
from rnncc_runtime.library import bind, on_gpu

from rnncc.codegen import targets
from rnncc.packaging.image import Image


def load(image: Image, device: int | None = None) -> Model | TrainableModel:
    """A model whose functions live as long as it does, on the GPU of a number where it is for one.

    Raises:
        LoadError: there is no such GPU.
    """
    engine, weights = targets.load(image.metadata["target"], image.code), image.weights
    if image.metadata.get("device") == "cuda":
        return _load_cuda(image, engine, device)
    functions = {
        name: bind(image.metadata, name, engine.get_function_address(symbol), weights.ctypes.data)
        for name, symbol in image.symbols.items()
    }
    kind = TrainableModel if "trained" in image.metadata else Model
    return kind(image.metadata, functions, keep=(engine, weights))


def _load_cuda(image: Image, engine: Any, device: int | None) -> Model | TrainableModel:
    """The host's functions are here, the kernels go to the GPU."""
    functions = {
        name: bind(image.metadata, name, engine.get_function_address(symbol))
        for name, symbol in image.symbols.items()
        if name != "cuda_image"
    }
    tell = ctypes.CFUNCTYPE(ctypes.c_void_p)(
        engine.get_function_address(image.symbols["cuda_image"])
    )
    keep, weights = (engine, image.weights), image.weights.ctypes.data
    return on_gpu(image.metadata, functions, tell() or 0, keep, weights, device)
