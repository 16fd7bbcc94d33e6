"""LLVM is not interrupted: what llvmlite has freed it might free again."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.codegen.llvm import host, objects

TEXT = "define i32 @one() { ret i32 1 }"


def optimised() -> objects.Optimised:
    """A function."""
    return objects.optimise(TEXT, resolve_target())


WORK: dict[str, tuple[str, Callable[[], object]]] = {
    "optimise": ("create_pass_builder", optimised),
    "inlined": ("parse_assembly", lambda: objects.inlined(TEXT, host.host().triple, "one")),
    "object_code": ("set_option", lambda: optimised().object_code),
    "assembly": ("set_option", lambda: optimised().assembly),
    "take_in": ("parse_assembly", lambda: optimised().take_in(TEXT.replace("one", "two"), ())),
    "load": ("create_mcjit_compiler", lambda: objects.load(optimised())),
    "load_object": ("create_mcjit_compiler", lambda: objects.load_object(optimised().object_code)),
    "host": ("get_host_cpu_features", host.host.__wrapped__),
}


@pytest.mark.parametrize("name", WORK)
def test_an_interruption_comes_afterwards(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, work = WORK[name]
    original, went_on = getattr(objects.llvm, function), list[bool]()

    def interrupted(*arguments: Any, **options: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        went_on.append(True)
        return original(*arguments, **options)

    host.host()
    monkeypatch.setattr(objects.llvm, function, interrupted)
    with pytest.raises(KeyboardInterrupt):
        work()
    assert went_on
