"""`rnncc.elementwise`: what a user writes, and what the compiler asks of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from rnncc.errors import CompileError
from rnncc.records import record

if TYPE_CHECKING:
    from rnncc.scalar.code import FunctionCode

Array = np.ndarray[Any, Any]
Numbers = Callable[..., Any]


@record(eq=False)
class Scalar:
    """A function of one or several numbers that is applied element by element.

    Call it with a `Builder` and values, as an activation of `rnncc.cells` is called.
    `scalar(array)` computes it by NumPy, in float64.

    Attributes:
        function: what the user wrote; docs/elementwise.md says what it may use.
        derivative: of the same arguments: the derivative with respect to each, as a tuple where
            there are several; None: it follows from the function's operations.
        along: the argument with respect to which this is the derivative of `function`.
        item: which of the numbers that `function` gives this is, if it gives a tuple.
    """

    function: Numbers
    derivative: Numbers | None = None
    along: int | None = None
    item: int | None = None

    @property
    def name(self) -> str:
        """The Python function's."""
        return self.function.__name__

    @cached_property
    def count(self) -> int:
        """How many arguments it takes; raises `CompileError` unless all are positional."""
        kinds = [p.kind for p in inspect.signature(self.function).parameters.values()]
        plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        if not kinds or any(kind not in plain for kind in kinds):
            raise CompileError(f"function {self.name!r}", "takes other than positional arguments")
        return len(kinds)

    def partial(self, argument: int) -> Scalar:
        """The derivative with respect to one argument; the same one each time.

        Raises:
            CompileError: this is a derivative that follows from a function's operations itself.
        """
        if argument not in self._partials:
            self._partials[argument] = self._partial(argument)
        return self._partials[argument]

    @cached_property
    def _partials(self) -> dict[int, Scalar]:
        return {}

    def _partial(self, argument: int) -> Scalar:
        if self.derivative is not None:
            item = argument if self.count > 1 else None
            return Scalar(self.derivative, item=item)
        if self.along is not None or self.item is not None:
            what = "has no second derivative"
            raise CompileError(f"function {self.name!r}", what, "give `derivative` for the first")
        return replace(self, along=argument)

    def code(self, dtype: str = "f32") -> FunctionCode:
        """As LLVM IR for an element type, f32 or f64; compiled once.

        Raises:
            CompileError: numba cannot compile it or is missing.
        """
        if dtype not in self._codes:
            _need_numba(self.name)
            from rnncc.scalar.compiled import compile_scalar

            self._codes[dtype] = compile_scalar(self, dtype)
        return self._codes[dtype]

    @cached_property
    def _codes(self) -> dict[str, FunctionCode]:
        return {}

    @cached_property
    def symbols(self) -> list[str]:
        """What tells it from others: its code, and that of derivatives that were given."""
        signatures = range(self.count) if self.derivative is not None else ()
        return [self.code().symbol, *(self.partial(i).code().symbol for i in signatures)]

    @cached_property
    def _oracle(self) -> Callable[[Array], Array]:
        _need_numba(self.name)
        from rnncc.scalar.compiled import compile_oracle

        return compile_oracle(self)

    def __call__(self, first: Any, *values: Any) -> Any:
        """The op on values, or the results for arrays, which broadcast."""
        if hasattr(first, "apply"):
            return first.apply(self, *values)
        arrays = np.broadcast_arrays(*(np.asarray(x, np.float64) for x in (first, *values)))
        if len(arrays) != self.count:
            raise TypeError(f"{self.name} takes {self.count} arguments, not {len(arrays)}")
        results = self._oracle(np.stack([array.ravel() for array in arrays]))
        return results.reshape(arrays[0].shape)


@overload
def elementwise(function: Numbers) -> Scalar: ...
@overload
def elementwise(*, derivative: Numbers) -> Callable[[Numbers], Scalar]: ...
def elementwise(
    function: Numbers | None = None, *, derivative: Numbers | None = None
) -> Scalar | Callable[[Numbers], Scalar]:
    """Make a function of numbers an elementwise operation; used as a decorator.

        @rnncc.elementwise
        def leaky(x):
            return x if x > 0 else 0.1 * x

    Args:
        function: of floats, which gives a float.
        derivative: as for `Scalar`; without it, it follows from the operations.

    Raises:
        CompileError: the function's arguments are not all positional.
    """
    if function is None:
        return lambda decorated: _checked(Scalar(decorated, derivative))
    return _checked(Scalar(function, derivative))


def _checked(result: Scalar) -> Scalar:
    count = result.count
    if result.derivative is not None and Scalar(result.derivative).count != count:
        what = f"its derivative takes other than {count} arguments"
        raise CompileError(f"function {result.name!r}", what)
    return result


def _need_numba(name: str) -> None:
    if find_spec("numba") is None:
        raise CompileError(f"function {name!r}", "needs numba", "pip install 'rnncc[numba]'")
