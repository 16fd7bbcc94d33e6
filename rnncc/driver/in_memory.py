"""Models that run in this process, kept on disk from one process to the next."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rnncc.codegen import targets
from rnncc.driver import cache
from rnncc.driver.loading import load
from rnncc.options import Options
from rnncc.packaging.image import Image, ImageError

if TYPE_CHECKING:
    from rnncc_runtime import Model, TrainableModel


def compile_in_memory(
    net: Any, init: Any, options: Options, device: int | None = None
) -> Model | TrainableModel:
    """A model that runs in this process; from the cache on disk if it was compiled before.

    Args:
        device: the number of a GPU, where it computes on one.

    Raises:
        CompileError: the net has what rnncc does not support, or is for another machine.
        LoadError: there is no such GPU.
    """
    if options.tune:
        from rnncc.driver.compiling import with_tuning

        options = with_tuning(net, init, options)
    target = targets.resolve(options.target, options.cpu, options.tuning)
    target.check_runs_here()
    if target.device == "cuda":
        from rnncc_runtime.cuda import Device

        device = Device.at(device).number
    key = cache.key_of(net, init, options, target)
    entry = cache.find(key)
    if entry is not None:
        with suppress(ImageError):  # what is no image is made anew
            return load(Image.from_bytes(entry), target, device)
    # half a second that a model found again need not wait for
    from rnncc.driver.compiling import make_image
    from rnncc.stages.compilation import Compilation

    image = make_image(Compilation(options, net, init, in_memory=True))
    parts = image.parts()
    fits = key is not None and cache.fits(parts)  # else large files would be read again for nothing
    if fits and key == cache.key_of(net, init, options, target):  # no file was replaced meanwhile
        cache.keep(key, parts)
    return load(image, target, device)
