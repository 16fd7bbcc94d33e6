"""What `functools.lru_cache` remembers, and how single results are forgotten."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, cast

REMEMBERING: Any = type(lru_cache(lambda: None))
"""What `lru_cache` and `cache` make of functions."""


def results_of(function: Any) -> Iterator[Any]:
    """The results, in an order that stays where a result is asked for again."""
    _, results = _known(function)
    return (results[key] for key in sorted(results, key=lambda key: id(results[key])))


def forget(function: Any, is_wrong: Callable[[Any], bool]) -> None:
    """Forget wrong results, and keep the others: some may be of random numbers, or be changed in
    place."""
    entries, results = _known(function)
    wrong = [key for key, result in results.items() if is_wrong(result)]
    if len(wrong) == len(entries) and wrong:
        function.cache_clear()
    for key in wrong:
        entries.pop(key, None)  # a link of the list may stay: Python copes with those without key


def _known(function: Any) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Its own dict, and the results by key.

    Where all results are kept, the dict holds them. Else it holds links of a list, whose keys and
    results Python's collector meets in turn, the latest last, before it meets the dict.
    """
    parts: list[Any] = gc.get_referents(function)
    own = cast("dict[str, Any]", vars(function))
    at = next(n for n, x in enumerate(parts) if type(x) is dict and x is not own)
    entries: dict[Any, Any] = parts[at]
    if function.cache_parameters()["maxsize"] is None:
        return entries, dict(entries)
    kinds = set(map(id, map(type, (function, *entries.values()))))
    listed = [x for x in parts[:at] if id(x) not in kinds]
    pairs = zip(listed[::2], listed[1::2], strict=False)
    return entries, {key: result for key, result in pairs if key in entries}
