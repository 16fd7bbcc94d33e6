# pyright: basic, reportMissingImports=false
"""Short-time Fourier transforms and their inverses, in parts that have translations.

PyTorch's own take views by strides, and look at the window's values.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn.functional import pad

_LEAST = 1e-11
"""Where squared windows add up to no more, there is no inverse."""


def stft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Any:
    """`torch.stft`."""
    if align_to_window is not None:
        raise NotImplementedError("stft with align_to_window is not supported")
    rows = input.reshape(-1, input.shape[-1])
    if center:
        half = n_fft // 2
        rows = pad(rows, (half, half), pad_mode)
    frames = rows.unfold(-1, n_fft, hop_length or n_fft // 4)
    frames = frames * _padded_window(input, window, n_fft, win_length)
    real = not frames.is_complex() if onesided is None else onesided
    norm = "ortho" if normalized else "backward"
    bins = (torch.fft.rfft if real else torch.fft.fft)(frames, n=n_fft, norm=norm).mT
    bins = bins.reshape(*input.shape[:-1], *bins.shape[1:])
    return torch.view_as_real(bins) if return_complex is False else bins


def istft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Any:
    """`torch.istft`; NaN where the windows add up to nothing, which there is an error."""
    hop, (bins, count) = hop_length or n_fft // 4, input.shape[-2:]
    spectra = input.reshape(-1, bins, count).mT
    norm = "ortho" if normalized else "backward"
    if return_complex:
        frames = torch.fft.ifft(spectra, n=n_fft, norm=norm)
    else:
        frames = torch.fft.irfft(spectra[..., : n_fft // 2 + 1], n=n_fft, norm=norm)
    taps = _padded_window(frames, window, n_fft, win_length)
    places = torch.arange(count)[:, None] * hop + torch.arange(n_fft)
    places = places.flatten().to(input.device)
    size = n_fft + hop * (count - 1)
    signal = frames.new_zeros(len(frames), size).index_add(1, places, (frames * taps).flatten(1))
    weights = (taps * taps).expand(count, n_fft).flatten()
    weight = weights.new_zeros(size).index_add(0, places, weights)
    start = n_fft // 2 if center else 0
    end = size - start if length is None else start + length
    signal, weight = signal[:, start:end], weight[start:end]
    result = torch.where(weight.abs() > _LEAST, signal / weight, math.nan)
    if end > size:
        result = pad(result, (0, end - size))
    return result.reshape(*input.shape[:-2], result.shape[-1])


def _padded_window(x: Any, window: Any, n_fft: int, win_length: int | None) -> Any:
    """The window, with zeros around it to the transform's length."""
    size = win_length or n_fft
    if window is None:
        window = torch.ones(size, dtype=x.dtype, device=x.device)
    left = (n_fft - size) // 2
    return window if size == n_fft else pad(window, (left, n_fft - size - left))
