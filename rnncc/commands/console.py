"""What surrounds a command: standard streams, interruptions, and errors as one line.

In: a command and its arguments. Out: the exit status: 0, 1 for a fault of rnncc, 2 for bad input,
130 for an interruption, 141 where nobody reads the output, 143 after SIGTERM.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn, TextIO, cast

import click

from rnncc.errors import CompileError, InternalError, is_out_of_memory

ENDING = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]
"""Signals by which a user, a supervisor or a terminal that closes asks a process to end."""
BY_SIGNAL, BROKEN_PIPE = 128, 141
"""As shells say of processes that a signal has ended: with its number added, and for SIGPIPE."""
FAULT, BAD_INPUT = 1, 2


class Interruption(KeyboardInterrupt):
    """A signal that ends the process, once all blocks have tidied up."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def run(command: click.Command, arguments: Sequence[str]) -> int:
    """Run a command, and print what is wrong as one line on standard error."""
    try:
        status = _status(command, arguments)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt as error:
        number = error.number if isinstance(error, Interruption) else signal.SIGINT
        message = "interrupted" if number == signal.SIGINT else "terminated"
        return _fail(message, BY_SIGNAL + number)
    except BrokenPipeError:
        return BROKEN_PIPE
    except Exception as error:
        if os.environ.get("RNNCC_DEBUG"):
            raise
        return _explain(error)


def run_process(command: click.Command) -> NoReturn:
    """As `run`, with what a process of its own has: its arguments, its streams, Ctrl-C; its end."""
    _open_streams()
    _expect_interruption()
    completes = "_RNNCC_COMPLETE" in os.environ  # a shell asks what may stand next
    status = command.main(prog_name="rnncc") if completes else run(command, sys.argv[1:])
    _close_streams()
    for number in _expected():  # nothing is left to tidy up
        signal.signal(number, _leave)
    if status <= BY_SIGNAL or status == BROKEN_PIPE:
        cast(Any, atexit)._run_exitfuncs()
    # Python would take every object apart, which takes longer than linking a library, and wait for
    # a thread in which LLVM is at work.
    os._exit(status)


def _status(command: click.Command, arguments: Sequence[str]) -> int:
    # not `command.main`, which prints lines of its own, and ends the process on a broken pipe
    try:
        with command.make_context("rnncc", list(arguments)) as context:
            command.invoke(context)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return BAD_INPUT
    except click.exceptions.Exit as done:
        return done.exit_code
    return 0


def _explain(error: Exception) -> int:
    """Print one line for an error; 2 if the user can mend it."""
    if is_out_of_memory(error):  # not even for the import below
        return _fail("out of memory", FAULT)
    from rnncc_runtime import ModelError

    if isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        where = f" (see {context.command_path} --help)" if context else ""
        return _fail(error.format_message().rstrip(".") + where, BAD_INPUT)
    if isinstance(error, (CompileError, ModelError)):
        return _fail(str(error), BAD_INPUT)
    if isinstance(error, OSError):  # readers and writers name their file; what is left is printed
        where = error.filename or "standard output"
        return _fail(f"{where}: {error.strerror or error}", BAD_INPUT)
    kind = "" if isinstance(error, InternalError) else f"{type(error).__name__}: "
    summary = f"internal error: {kind}{error}"
    return _fail(f"{summary} (RNNCC_DEBUG=1 shows where)", FAULT)


def _fail(message: str, status: int) -> int:
    with suppress(OSError):  # nobody reads it
        # not by click, which prints UTF-8 where the locale is ASCII
        print(f"rnncc: error: {' '.join(message.split())}", file=sys.stderr, flush=True)
    return status


def _open_streams() -> None:
    """Let texts be printed in any locale, and let no file take the place of a closed stream."""
    for number, mode in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_RDWR)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # takes the lowest free number; to use it stays an error
    # without these, Python has started with None; SIM115: they stay open as long as the process
    sys.stdin = cast("TextIO | None", sys.stdin) or open(0, closefd=False)  # noqa: SIM115
    sys.stdout = cast("TextIO | None", sys.stdout) or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = cast("TextIO | None", sys.stderr) or open(2, "w", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        cast(Any, stream).reconfigure(errors="backslashreplace")


def _close_streams() -> None:
    """Drop what cannot be printed: Python would complain of it as it ends."""
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def _expect_interruption() -> None:
    """Let the signals in `ENDING` tidy up, but for those that are to be ignored."""
    for number in ENDING:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _interrupt)
            sys.unraisablehook = _unraisable


def _expected() -> list[int]:
    return [number for number in ENDING if signal.getsignal(number) is _interrupt]


def _interrupt(number: int, frame: FrameType | None) -> None:
    """The first Ctrl-C lets every block tidy up; a second one ends the process at once.

    It waits for the end of an import, as half of a module may not be safe to take apart (a command
    ended in a double free), and Python 3.11 makes another error of it where a class is defined.
    """
    for expected in _expected():
        signal.signal(expected, signal.SIG_DFL)
    if _is_importing(frame) and hasattr(signal, "setitimer"):
        _interrupt_later(number)
    else:
        raise Interruption(number)


def _interrupt_later(number: int) -> None:
    signal.signal(signal.SIGALRM, lambda _, frame: _interrupt(number, frame))
    signal.setitimer(signal.ITIMER_REAL, 0.001)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def _leave(number: int, frame: object) -> None:
    os._exit(BY_SIGNAL + number)


def _unraisable(what: Any) -> None:
    """An interruption in the midst of a destructor comes again, outside of it and of this hook.

    After one, destructors of objects that were being made may fail: that is nobody's business.
    """
    if isinstance(what.exc_value, Interruption):
        _expect_interruption()
        _interrupt_later(what.exc_value.number)  # at once would be within this hook
    elif all(signal.getsignal(number) != signal.SIG_DFL for number in ENDING):
        sys.__unraisablehook__(what)
