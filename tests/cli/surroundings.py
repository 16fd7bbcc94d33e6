"""Runs the command in forked children, each with standard streams and limits of its own.

Started as a process, which imports what commands need once: a line of JSON in, one out. Requests:
`words`; `streams`: path, "closed" or "broken" of descriptors 0 to 2; `encoding`; `seconds` after
which `signal` comes, an interruption without it; `file_size`, the most bytes of a file.
"""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import sys
import time
from importlib import import_module
from typing import Any

from rnncc.commands.console import ENDING

LATEST = 60
LOADED = (
    "jinja2 rnncc.cli rnncc.drawing rnncc.netdef rnncc.netdef.drawing rnncc.ir.interpreter "
    "rnncc.commands.check rnncc.commands.compile.forms rnncc.commands.netdef.reports "
    "rnncc.commands.plan rnncc.driver.compiling rnncc.driver.in_memory "
    "rnncc.frontends.caffe2.importer rnncc.packaging.texts rnncc.codegen.cpu.library.entries "
    "rnncc.codegen.llvm.objects"
)
"""Most of what commands import, which takes each of them half a second."""


def main() -> None:
    """Answer requests until there are no more."""
    from rnncc.codegen.cpu.resolve import resolve_target

    resolve_target()
    for name in LOADED.split():
        import_module(name)
    for line in sys.stdin:
        request = json.loads(line)
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        child = os.fork()
        if not child:
            run(request)
        number = request.get("signal", signal.SIGINT)
        print(json.dumps({"status": ended(child, request.get("seconds"), number)}), flush=True)


def ended(child: int, seconds: float | None, number: int) -> int:
    """The exit status of a child, which may get a signal, and is killed if it hangs."""
    begun, sent = time.monotonic(), False
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        passed = time.monotonic() - begun
        if seconds is not None and not sent and passed >= seconds:
            os.kill(child, number)
            sent = True
        if passed > LATEST:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.001)


def run(request: dict[str, Any]) -> None:
    """Be a process of the command; does not return."""
    from rnncc.__main__ import main as command
    from rnncc.commands import console

    original = console.run

    def unblocked(command: Any, arguments: Any) -> int:
        """No interruption comes while this process is not yet as one of the command's own."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        return original(command, arguments)

    console.run = unblocked
    for number, what in enumerate(request["streams"]):
        redirect(number, what)
    names = ("stdin", "stdout", "stderr")
    for number, (name, what) in enumerate(zip(names, request["streams"], strict=True)):
        stream = None if what == "closed" else text_stream(number, request["encoding"])
        setattr(sys, name, stream)  # as Python starts
        setattr(sys, f"__{name}__", stream)
    if request.get("file_size") is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["file_size"],) * 2)
    sys.argv = ["rnncc", *request["words"]]
    command()


def redirect(number: int, what: str) -> None:
    """Let a descriptor be a file, a pipe that nobody reads, or none."""
    os.close(number)
    if what == "closed":
        return
    opened = [os.open(what, os.O_RDWR | os.O_CREAT)] if what != "broken" else [*os.pipe()]
    os.dup2(opened[-1], number)
    for other in opened:
        if other != number:
            os.close(other)


def text_stream(number: int, encoding: str) -> io.TextIOWrapper:
    """A standard stream."""
    raw = io.FileIO(number, "w" if number else "r", closefd=False)
    buffered = io.BufferedWriter(raw) if number else io.BufferedReader(raw)
    return io.TextIOWrapper(buffered, encoding=encoding, errors="strict")


if __name__ == "__main__":
    main()
