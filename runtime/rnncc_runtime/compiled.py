"""What models, streams and training share: metadata, sizes, refusals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, Protocol, TypeVar

from rnncc_runtime.arrays import Array, Specs, read_specs
from rnncc_runtime.errors import CODES, ArrayError, LoadError, RunError
from rnncc_runtime.pool import Parallel
from rnncc_runtime.sizes import TIME, Size, solve
from rnncc_runtime.texts import words_of

Arrays = list[Array | None]
Shape = tuple[int, ...]

FORMAT = 2
"""The version of the metadata that this package reads."""

_REMEMBERED = 256
"""Combinations of shapes whose sizes are kept; beyond that, all are found anew."""
_BAD_SIZE = 2
_LARGEST = 2**62


class Shaped(Protocol):
    """An array, wherever it lies."""

    @property
    def shape(self) -> Shape: ...


Shapeds = Sequence[Shaped | None]
"""Arrays in the order of their specs; None for one that is not there."""

Origin = Callable[[], tuple[Callable[..., object], tuple[object, ...]]]
"""What loads code again, and what it is given: bytes, no addresses."""

_K = TypeVar("_K")
_V = TypeVar("_V")


def check_format(metadata: Mapping[str, Any], whose: str = "") -> None:
    """Raise `LoadError` for metadata of another format, `TypeError` for anything but a mapping.

    Args:
        whose: what the message begins with, such as a file and a colon.
    """
    if not hasattr(metadata, "get"):
        raise TypeError(f"metadata is of type {type(metadata).__name__}, expected a mapping")
    if metadata.get("format") != FORMAT:
        raise LoadError(f"{whose}metadata of format {metadata.get('format')!r}, expected {FORMAT}")


class Compiled:
    """Compiled code with the names, dtypes and shapes of its arrays.

    Args:
        metadata: what `NAME_metadata` tells, as a dict (docs/abi.md).
        functions: the exported functions by name, such as
            `run`: (inputs, outputs, workspace, *symbols) -> code, addresses as ints, and
            `workspace_bytes`: (*symbols) -> bytes that a call with these sizes needs.
        keep: whatever must live as long as the code is called.
        origin: where the code comes from, for copies and pickles; without it there are none.

    Attributes:
        inputs, outputs: name -> `TensorSpec`.

    Raises:
        LoadError: the metadata is of another format.
        TypeError: it is no mapping.
    """

    def __init__(
        self,
        metadata: Mapping[str, Any],
        functions: Mapping[str, Callable[..., int]],
        keep: object = None,
        origin: Origin | None = None,
    ) -> None:
        check_format(metadata)
        self.metadata = dict(metadata)
        self.name: str = metadata["name"]
        self.inputs = read_specs(metadata["inputs"])
        self.outputs = read_specs(metadata["outputs"])
        self._symbols: tuple[str, ...] = tuple(metadata["symbols"])
        self._functions, self._keep, self._origin = functions, keep, origin
        self._words = words_of(metadata)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._origin is None:
            raise TypeError(f"{self.name}: what it was loaded from is not known")
        return self._origin()

    def _solved(
        self,
        arguments: Shapeds,
        results: Shapeds,
        needed: Sequence[str],
    ) -> dict[str, int]:
        """Every symbol's value, as arrays tell it; 1 for one that is not needed.

        Raises:
            ArrayError: a shape is wrong, two arrays disagree, or a symbol stays open.
        """
        labels = [*self.inputs, *(f"output {name}" for name in self.outputs)]
        specs = (*self.inputs.values(), *self.outputs.values())
        shapes = [
            (label, spec.sizes, array.shape)
            for label, spec, array in zip(labels, specs, [*arguments, *results], strict=True)
            if array is not None
        ]
        values = solve(shapes, needed)
        return {symbol: values.get(symbol, 1) for symbol in self._symbols}

    def _bytes(self, name: str, symbols: Mapping[str, int]) -> int:
        """What a function such as `workspace_bytes` tells; raises `RunError` if it refuses."""
        size = self._functions[name](*symbols.values())
        if not 0 <= size < _LARGEST:
            self._refuse(_BAD_SIZE, symbols)
        return size

    def _compute(
        self, name: str, places: Sequence[int], symbols: Shape, pool: Parallel | None
    ) -> None:
        """Call a function with the addresses that it takes, in as many threads as are worth it."""
        threads = 1 if pool is None else self._threads(pool, symbols)
        if pool is None or threads == 1:
            code = self._functions[name](*places, *symbols)
        else:
            part = self._functions[f"{name}_part"]
            code = pool.run(lambda at: part(*places, at, *symbols), threads)
        if code:
            self._refuse(code, dict(zip(self._symbols, symbols, strict=True)))

    def _threads(self, pool: Parallel, symbols: Shape) -> int:
        """How many of a pool's threads are worth it."""
        if not hasattr(pool, "threads"):
            raise ArrayError(f"pool is of type {type(pool).__name__}, expected a Pool")
        if pool.threads == 1:
            return 1
        worth = self._functions.get("threads")
        if worth is None:
            what = f"{self.name} was compiled for one thread"
            raise LoadError(f"{what}, without --threads (in Python threads=True)")
        return min(pool.threads, worth(*symbols))

    def _refuse(self, code: int, symbols: Mapping[str, int]) -> NoReturn:
        values = ", ".join(f"{symbol} = {value}" for symbol, value in symbols.items())
        most = self.metadata.get("max_steps")
        if code == _BAD_SIZE and most is not None and symbols.get(TIME, 0) > most:
            raise ArrayError(
                f"{self.name}: a call takes at most {most} steps (--max-steps; {values})"
            )
        for text in self.metadata.get("bounds", ()) if code == _BAD_SIZE else ():
            size = Size.parse(text).evaluate(symbols)
            if size < 0:
                note = "; quotients are rounded up" if "/" in text else ""
                raise ArrayError(f"{self.name}: a size {text} would be {size} ({values}{note})")
        raise RunError(f"{self.name}: {CODES.get(code, f'unknown error {code}')} ({values})", code)

    def _repr_html_(self) -> str:
        """For notebooks."""
        from rnncc_runtime.html import page

        groups = {"inputs": list(self.inputs.values()), "outputs": list(self.outputs.values())}
        return page(type(self).__name__, self.metadata, groups)

    def __repr__(self) -> str:
        kind = type(self).__name__
        return f"<{kind} {self.name}: {', '.join(self.inputs)} -> {', '.join(self.outputs)}>"


def given_shapes(arrays: Shapeds) -> tuple[Shape | None, ...]:
    """The shapes of arrays; None for one that is not there."""
    return tuple([None if array is None else array.shape for array in arrays])


def shapes_of(specs: Specs, symbols: Mapping[str, int]) -> list[Shape]:
    """The shapes of arrays that are to be made; raises `ArrayError` for a size below 0."""
    return [shape_of(name, spec.sizes, symbols) for name, spec in specs.items()]


def shape_of(name: str, sizes: Sequence[Size], symbols: Mapping[str, int]) -> Shape:
    """As `shapes_of`, for one array."""
    shape = tuple(size.evaluate(symbols) for size in sizes)
    if min(shape, default=0) < 0:
        raise ArrayError(f"output {name} would have shape {list(shape)}")
    return shape


def remember(known: dict[_K, _V], key: _K, value: _V) -> _V:
    """Keep a value, and not too many of them."""
    if len(known) >= _REMEMBERED:
        known.clear()
    known[key] = value
    return value
