"""Contenders in processes of their own, on the same cores, of which one works at a time.

Each library has its threads, its allocator and its settings to itself, and may crash. The others
are stopped meanwhile.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from rnncc.bench.cases import Case
from rnncc.bench.contenders import Contender
from rnncc.errors import CompileError


def settings(threads: int) -> dict[str, str]:
    """What tells libraries before they are loaded how many threads to use."""
    several = str(threads > 1).lower()
    return {
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "XLA_FLAGS": f"--xla_cpu_multi_thread_eigen={several}"
        f" intra_op_parallelism_threads={threads}",
    }


class LeftOut(Exception):
    """A contender is left out of a case: why, or nothing where it never could compute it."""


class Process:
    """The process of one contender, started when it is first asked for something.

    Args:
        cores: of which it takes one a thread.
    """

    def __init__(self, contender: Contender, cores: Sequence[int]) -> None:
        self.contender, self.cores = contender, cores[: contender.threads]
        self._process: subprocess.Popen[str] | None = None
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115, closed with the process's object

    @property
    def alive(self) -> bool:
        """Whether it has started and not ended."""
        return self._process is not None

    def make(self, case: Case) -> None:
        """Prepare a case.

        Raises:
            Left: it cannot be computed here.
            CompileError: rnncc itself refuses the case's net.
        """
        answer = self._ask({"make": case.to_dict()})
        if "refused" in answer:
            raise CompileError(*answer["refused"])
        if "why" in answer:
            raise LeftOut(answer["why"])

    def time(self, count: int) -> float:
        """Seconds of so many runs of the case."""
        return self._ask({"time": count})["seconds"]

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        process = self._process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.send_signal(signal.SIGCONT)
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            if line:  # threads that spin would take the others' time; one that ends is to end
                process.send_signal(signal.SIGSTOP)
        except BrokenPipeError:
            line = ""
        if not line:
            raise LeftOut(self._why(process))
        return json.loads(line)

    def _why(self, process: subprocess.Popen[str]) -> str:
        """Why the process has ended: its last words, else how."""
        status = process.wait()
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        self.close()
        if status < 0:
            name = signal.Signals(-status).name
            return f"ended by {name}{' (out of memory?)' if name == 'SIGKILL' else ''}"
        return lines[-1] if lines else f"ended with status {status}"

    def _start(self) -> subprocess.Popen[str]:
        contender = self.contender
        command = [sys.executable, "-m", "rnncc.bench.worker", contender.module]
        paths = os.pathsep.join(path for path in sys.path if path)
        return subprocess.Popen(
            [*command, contender.precision, *map(str, self.cores)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get("RNNCC_DEBUG") else self._stderr,
            env={**os.environ, **settings(contender.threads), "PYTHONPATH": paths},
            text=True,
        )


class Processes(AbstractContextManager["Processes"]):
    """The processes of some contenders, ended together."""

    def __init__(self, contenders: Sequence[Contender], cores: Sequence[int]) -> None:
        self.all = [Process(contender, cores) for contender in contenders]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self.all:
            process.close()
