# pyright: basic, reportMissingImports=false
"""Numbers that a module holds in tensors without gradients, where its code needs them as Python's:
`x[:, : self.padding]` with a buffer `padding`, `math.exp(-1 / self.tau.item())`.

As a rule they are inputs of the compiled code. A module that cannot be read so is read again with
the values known of those that its code has asked for; they are settings then, as numbers in
attributes are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, TypeVar

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from rnncc.errors import CompileError
from rnncc.torch.devices import PLAIN_TENSORS
from rnncc.torch.objects.known_values import known_number, tell
from rnncc.torch.objects.places import MOST_LEAVES

T = TypeVar("T")
_Place = tuple[torch.nn.Module, str]


class HeldNumbers:
    """The numbers that a module holds.

    Attributes:
        known: those whose values are known while the module is read.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = module
        self._values = {
            (f"{path}.{name}" if path else name): (part, name)
            for path, part in module.named_modules(remove_duplicate=False)
            for held in (part._parameters, part._buffers)
            for name, x in held.items()
            if x is not None and _is_small(x)
        }
        self._asked = set[str]()
        self.known = set[str]()

    def places(self) -> list[_Place]:
        """Of those whose values are known."""
        return [self._values[name] for name in sorted(self.known)]

    def read(self, read: Callable[[], T], written_by: Callable[[T], Collection[str]]) -> T:
        """What `read` returns, with values known where it fails else.

        Args:
            read: exports the module; may be called several times.
            written_by: the names of buffers that the module changes, of what `read` returned.

        Raises:
            CompileError: it cannot be read.
        """
        first, never = None, set[str]()
        while True:
            try:
                with self._reading() if self._values else nullcontext():
                    result = read()
            except CompileError as error:
                if isinstance(error, _Unbounded):
                    raise
                first = first or error
                if self._asked <= self.known | never:
                    raise first from first.__cause__
                self.known |= self._asked - never
                continue
            # The value of one that a call changes would be known for a single call.
            if not (changed := self._with_all_names(written_by(result)) & self.known):
                return result
            never |= changed
            self.known -= never
            if first is not None and not self.known:
                raise first

    def _with_all_names(self, names: Collection[str]) -> set[str]:
        """Names, and others of the same tensors."""
        ids = {id(getattr(*self._values[name])) for name in names if name in self._values}
        return {name for name, place in self._values.items() if id(getattr(*place)) in ids}

    @contextmanager
    def _reading(self) -> Generator[None]:
        """While it lasts, the module is read."""
        values = {name: getattr(*self._values[name]).detach() for name in self.known}
        asking = _Asking(all(bool(x.isfinite().all()) for x in values.values()))

        def look(*_: Any) -> None:
            with torch._C.DisableTorchFunction():
                for name, place in self._values.items():
                    standing = getattr(*place)  # for the tensor while the module is read
                    asking.names[id(standing)] = name, standing
                    if name in values:
                        tell(standing, partial(torch.clone, values[name]))

        hook = self._module.register_forward_pre_hook(look)
        try:
            with asking:
                yield
        finally:
            hook.remove()
            self._asked |= asking.asked


class _Unbounded(CompileError):
    """A number is infinite or none that Python computes with an error."""


def _check_bounded(result: Any, alone: Iterable[str]) -> None:
    """Refuse what no number of Python's becomes, or a tensor that stands for such a number."""
    value = result
    if isinstance(result, torch.Tensor) and result.dtype == torch.float64 and not result.dim():
        value = known_number(result)
    if isinstance(value, float) and not math.isfinite(value):
        what = f"a number of Python's, computed of {', '.join(sorted(alone))}, is {value}"
        raise _Unbounded("", what, "Python divides by no 0")


def _is_small(x: torch.Tensor) -> bool:
    known = type(x) in PLAIN_TENSORS and x.device.type != "meta"
    return known and not (x.is_complex() or x.requires_grad) and x.numel() <= MOST_LEAVES


class _Asking(TorchFunctionMode):
    """Notes which tensors functions of PyTorch are called with: integers, and floats where there
    are no others. So what batch norm holds is not asked for by norms of what a module is given.

    Attributes:
        names: what tensors are called, by their ids, and these themselves, so that they live.
        asked: the names of those that were met.
    """

    def __init__(self, finite: bool) -> None:
        """Of known values that are all `finite`, or not."""
        super().__init__()
        self._finite = finite
        self.names = dict[int, tuple[str, Any]]()
        self.asked = set[str]()
        self._computed = dict[int, tuple[set[str], Any]]()  # of held ones alone

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function of PyTorch."""
        if torch.compiler.is_dynamo_compiling():  # it reads this with the body of a PyTorch loop
            return func(*args, **(kwargs or {}))
        is_attribute = getattr(func, "__name__", "") == "__get__"  # such as `x.dtype`
        alone = set[str]()
        if not is_attribute:
            alone = self._note(args, kwargs)  # at once: what takes a number of a tensor may fail
        result = func(*args, **(kwargs or {}))
        if alone and self._finite:
            _check_bounded(result, alone)
        if is_attribute and isinstance(result, torch.Tensor):
            alone = self._note(args, kwargs)
        if alone:
            for x in pytree.tree_leaves(result):
                if isinstance(x, torch.Tensor) and id(x) not in self.names:
                    self._computed[id(x)] = alone, x
        return result

    def _note(self, args: Any, kwargs: Any) -> set[str]:
        """The names of the tensors, if there are no others than held ones and what is computed of
        these."""
        alone, are_alone = set[str](), True
        for x in pytree.tree_leaves((args, kwargs or {})):
            if not isinstance(x, torch.Tensor):
                continue
            if id(x) in self.names:
                name = self.names[id(x)][0]
                alone.add(name)
                with torch._C.DisableTorchFunction():
                    if not x.is_floating_point():
                        self.asked.add(name)
            elif id(x) in self._computed:
                alone |= self._computed[id(x)][0]
            else:
                are_alone = False
        if not are_alone:
            return set()
        self.asked |= alone
        return alone
