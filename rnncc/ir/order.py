"""Walks along what depends on what that need no recursion, so that no net is too long for them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def post_order(start: T, needs: Callable[[T], Iterable[T]]) -> Iterator[T]:
    """`start` and all that it needs, directly or not: each once, behind what it needs itself.

    The order is that of a recursion which computes what is needed first. `needs` is called once
    for each, before any of what it names is yielded; what is known already it leaves out.
    """
    seen, path = {start}, [(start, iter(needs(start)))]
    while path:
        node, needed = path[-1]
        following = next((other for other in needed if other not in seen), None)
        if following is None:
            path.pop()
            yield node
        else:
            seen.add(following)
            path.append((following, iter(needs(following))))
