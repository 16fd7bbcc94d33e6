# pyright: basic, reportMissingImports=false
"""Reading a cell as a graph, with guards.

TorchDynamo reads the cell's Python once. It finds every tensor that the cell reads and hands them
over at each call, and it notices when something else that the cell depends on has changed; then it
reads again.
"""

from __future__ import annotations

import gc
import threading
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch._dynamo
from torch._dynamo.exc import FailOnRecompileLimitHit, TorchDynamoException
from torch.compiler import is_dynamo_compiling
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.nn.parallel import DistributedDataParallel

from rnncc.errors import CompileError
from rnncc.frontends.torch.node_context import BRANCH, hint_of, reason_of, user_line
from rnncc.frontends.torch.patches import ALONE
from rnncc.frontends.torch.watching.reading import watching
from rnncc.garbage import only_among_new_objects
from rnncc.torch.averages import take_averages
from rnncc.torch.branching.reading import reading_branches
from rnncc.torch.branching.values import as_tensor
from rnncc.torch.captured import CellCall, captured, readings, row, state
from rnncc.torch.objects.kept import StatePlace, get, put
from rnncc.torch.objects.known_values import knowing_lists
from rnncc.torch.objects.nests import CHANGED, copied, in_order_of, same_ones
from rnncc.torch.objects.trees import leaves, mapped, with_tensors
from rnncc.torch.scripted import IS_SCRIPT, UNSCRIPTED
from rnncc.torch.transforms import outside_of_transforms
from rnncc.torch.versions import (
    BeforeReading,
    compile_often,
    is_held_back,
    not_validating,
    quiet,
    reading_settings,
    reading_silently,
)

_HOOKS: list[dict[int, Any]] = [
    getattr(torch.nn.modules.module, f"_global_{kind}_hooks")
    for kind in ("forward", "forward_pre", "backward", "backward_pre")
]
"""Hooks of all modules, of which Dynamo notices no change."""
PAIR = (
    "a cell returns a pair, what goes out and the next state: `return h, h`, or `return h, (h, c)`"
)
NO_ROW = "what a cell returns first holds something that is no tensor: ys are tensors, or None"
_TRANSFORMED = "Tensor(lvl="
"""How PyTorch prints what a transform of torch.func has in the place of a tensor."""
_OF_SCRIPTS = "_CachedForward"
"""What TorchDynamo meets where a module of TorchScript is called."""
_UNREAD = "found no compiled frames"
"""What it says where it is disabled."""
_AS_IS = nullcontext()
_readers: WeakKeyDictionary[Any, dict[Any, Callable[..., Any]]] = WeakKeyDictionary()
_lock = threading.Lock()


def read(
    cell: Callable[..., Any],
    rows: Any,
    states: Any,
    places: Sequence[StatePlace],
    kept: Sequence[Any],
    reading: CellCall,
    is_open: bool,
) -> tuple[Any, Any, Any, Any]:
    """What the cell returns for rows and states, with results of `reading.run` as its tensors;
    then what it leaves at its places, and which dicts and lists of the state that it returns are
    those that it was given (`same_ones`).

    Args:
        places: where the cell keeps tensors besides, which are None after the call.
        kept: what it finds there.
        is_open: whether stand-ins leave sizes open; others never meet what was read so.

    Raises:
        CompileError: the cell cannot be read.
    """
    readings.stack.append(reading)
    kind = is_open, reading.is_first, reading.plain
    inside = torch._C._are_functorch_transforms_active()
    key = cell, rows, states, [(place.owner, place.key) for place in places], kept, inside
    try:
        with _surroundings():
            try:
                return reading_branches(cell, lambda: _read_by(cell, kind, key))
            except FailOnRecompileLimitHit:  # most of what was read may long be of no use
                return _read_by(cell, kind, key, anew=True)
    # TorchDynamo lets some through, and asserts what it takes for sure.
    except (TorchDynamoException, GuardOnDataDependentSymNode, AssertionError) as error:
        _free_frames(error)
        text = str(error)
        reason = next((known for known in (PAIR, NO_ROW, CHANGED) if known in text), None)
        reason = reason or reason_of(text)
        if torch._C._are_functorch_transforms_active() and "functorch" in text:
            reason = "torch.func in a cell is not supported where torch.func is around scan"
        if _OF_SCRIPTS in text:
            raise CompileError(user_line(text, _name(cell)), IS_SCRIPT, UNSCRIPTED) from error
        hint = hint_of(reason)
        if reason == BRANCH:
            reason, hint = ": ".join([reason, *getattr(error, "__notes__", ())]), "torch.where"
        raise CompileError(user_line(text, _name(cell)), reason, hint) from error
    except RuntimeError as error:
        if _UNREAD not in str(error):
            raise
        with _lock:
            _readers.pop(code_of(cell), None)  # TorchDynamo leaves such code unread from now on
        hint = "torch._dynamo.config.disable = False, or without TORCHDYNAMO_DISABLE"
        raise CompileError(
            _name(cell), "TorchDynamo is disabled, and reads no cell", hint
        ) from error
    finally:
        readings.stack.pop()


def _free_frames(error: BaseException | None) -> None:
    """Free what TorchDynamo was doing when it failed.

    Where that was within a transform of torch.func, PyTorch ends the transform as its frames are
    freed, whenever that is, and this thread's tensors have no gradients from then on.
    """
    known: Any = torch._C
    included, excluded = (
        known._dispatch_tls_local_include_set,
        known._dispatch_tls_local_exclude_set,
    )
    within = _TRANSFORMED in str(error)
    with known._ForceDispatchKeyGuard(included(), excluded()):
        while error is not None:
            traceback.clear_frames(error.__traceback__)
            error = error.__context__
        if within:  # from PyTorch 2.14 on, no error names the frames of an operator that failed
            gc.collect()


def _surroundings() -> AbstractContextManager[Any]:
    """What a cell is read in, and called in where it was read before, as far as it makes a
    difference: to enter contexts that do nothing takes as long as to compare the guards."""
    needed = list[AbstractContextManager[None]]()
    if torch._C._are_functorch_transforms_active():
        needed.append(outside_of_transforms())
    if DistributedDataParallel._active_ddp_module is not None:
        needed.append(_outside_of_ddp())
    if torch.distributions.Distribution._validate_args:
        needed.append(not_validating())
    if is_held_back():
        needed.append(torch.compiler.set_stance("default"))
    if not needed:
        return _AS_IS
    stack = ExitStack()
    for context in needed:
        stack.enter_context(context)
    return stack


@contextmanager
def _outside_of_ddp() -> Generator[None]:
    """Let no DistributedDataParallel be under way, for which TorchDynamo would cut the cell's graph
    after so many bytes of parameters: its gradients come all at once, after the loop."""
    active = DistributedDataParallel._active_ddp_module
    DistributedDataParallel._active_ddp_module = None
    try:
        yield
    finally:
        DistributedDataParallel._active_ddp_module = active


def _row_or_none(x: Any) -> Any:
    if x is None:
        return None
    if not isinstance(x, torch.Tensor):
        raise TypeError(NO_ROW)
    return row(x)


def _marked(tree: Any) -> Any:
    """A tree with its tensors marked as states, by their places in it: Dynamo gives them in an
    order of its own, as where they are attributes of an object."""
    ends = enumerate(leaves(tree))
    return with_tensors(tree, [state(x, i) for i, x in ends if isinstance(x, torch.Tensor)])


def _dtype_of(x: Any) -> Any:
    return x.dtype if isinstance(x, torch.Tensor) else None


def _copy_or_constant(x: Any) -> Any:
    return x.clone() if isinstance(x, torch.Tensor) else x


def _as_kept(x: Any, before: Any) -> Any:
    """What a step leaves at a place: a number where a loop carries one is a tensor, of the same
    type, so that a half which takes the place of an integer is refused."""
    if isinstance(x, int | float) and isinstance(before, torch.Tensor) and before.dim() == 0:
        return as_tensor(x, before, before)
    return x


def _step(
    cell: Callable[..., Any],
    rows: Any,
    states: Any,
    places: Sequence[Any],
    kept: Sequence[Any],
    inside: bool,
) -> tuple[Any, Any, Any, Any]:
    if not is_dynamo_compiling():  # PyTorch 2.11 runs what it is kept from reading
        raise RuntimeError(_UNREAD)
    if inside:  # transforms that were there first know tensors that are met in the cell's own
        mapped(_dtype_of, (rows, states, kept))
    for (owner, key), value in zip(places, kept, strict=True):
        put(owner, key, mapped(_copy_or_constant, value))  # it may change that in place
    copies = copied(states)
    result = cell(copied(rows), copies)
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise TypeError(PAIR)
    y, new = result
    same = same_ones(new, copies, states)
    left = [get(owner, key) for owner, key in places]
    left = [_as_kept(x, value) for x, value in zip(left, kept, strict=True)]
    new, after = _marked((in_order_of(states, new), left))
    for owner, key in places:
        put(owner, key, None)
    return mapped(_row_or_none, y), new, after, same


def _read_by(
    cell: Any, kind: tuple[Any, ...], arguments: tuple[Any, ...], anew: bool = False
) -> Any:
    reader, is_new = _reader(cell, kind, anew)
    with only_among_new_objects() if is_new else _AS_IS, BeforeReading(_contexts):
        return reader(*arguments)


def _contexts() -> list[AbstractContextManager[Any]]:
    """What TorchDynamo reads a cell in, and what is done at once with what it read."""
    settings = [quiet(), reading_settings(), reading_silently()]
    return [ALONE, watching(guarded=True), knowing_lists(), *settings]


def _reader(
    cell: Callable[..., Any], kind: tuple[Any, ...], anew: bool
) -> tuple[Callable[..., Any], bool]:
    """`_step` with guards of its own for each cell, and each kind of reading; whether it is new."""
    key = kind, tuple(number for hooks in _HOOKS for number in hooks)
    with _lock:
        known = _readers.setdefault(code_of(cell), {})
        is_new = anew or key not in known
        if is_new:
            take_averages()
            own = FunctionType(_step.__code__.replace(co_name=_name(cell)), globals())
            known[key] = compile_often(own, captured)
        return known[key], is_new


def code_of(cell: Any) -> Any:
    """What cells that are alike have in common."""
    if isinstance(cell, torch.nn.Module):  # which takes a while to say that it has no attribute
        return type(cell)
    function = getattr(cell, "__func__", cell)
    return getattr(function, "__code__", type(cell))


def _name(cell: Any) -> str:
    return getattr(cell, "__qualname__", None) or type(cell).__qualname__
