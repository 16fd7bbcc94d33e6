"""Loads compiled code into this process."""

from __future__ import annotations

import ctypes
from typing import Any

from rnncc_runtime import LoadError, Model, TrainableModel
from rnncc_runtime.library import bind, on_gpu

from rnncc.codegen import targets
from rnncc.codegen.target import Target
from rnncc.errors import CompileError
from rnncc.packaging.image import Image, ImageError


def load(
    image: Image, target: Target | None = None, device: int | None = None
) -> Model | TrainableModel:
    """A model whose functions live as long as it does, on the GPU of a number where it is for one.

    Args:
        target: the machine that it was compiled for; without it there are no copies of the model.

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

    origin = None if target is None else lambda: (load_again, (image.to_bytes(), target))
    return kind(image.metadata, functions, (engine, weights), origin)


def load_again(data: bytes, target: Target) -> Model | TrainableModel:
    """The model of an image's bytes, as a pickle has it.

    Raises:
        LoadError: the bytes are damaged, or this machine lacks what the code needs.
    """
    try:
        target.check_runs_here()
        return load(Image.from_bytes(data), target)
    except (CompileError, ImageError) as error:
        raise LoadError(str(error)) from error


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
