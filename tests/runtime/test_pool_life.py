"""What happens to a pool beside its calls: forks, signals, errors, its end and the program's."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from ctypes import c_int64
from functools import partial

import pytest
from rnncc_runtime import Pool


class Meeting:
    """A task whose parts wait for each other, as those of compiled code do."""

    def __init__(self, during: Callable[[], object] = lambda: None) -> None:
        self.during, self.arrived = during, list[int]()

    def __call__(self, at: int) -> int:
        part, parts, _ = (c_int64 * 3).from_address(at)
        self.arrived.append(part)
        limit = time.monotonic() + 10
        while len(self.arrived) < parts:
            assert time.monotonic() < limit, "a part has not come"
            time.sleep(0)
        if part == 0:
            self.during()
        return 0


def check(pool: Pool, threads: int) -> None:
    task = Meeting()
    assert pool.run(task) == 0
    assert sorted(task.arrived) == list(range(threads))


@contextmanager
def handled(number: int, handler: signal.Handlers | Callable[..., object]) -> Generator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def in_child(work: Callable[[], object]) -> None:
    """Fork, and work there; an error where that fails or takes more than a few seconds."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(5)
        try:
            work()
            os._exit(0)
        except BaseException as error:
            os.write(2, f"{error!r}\n".encode())
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_forked_process_has_threads_of_its_own() -> None:
    """Also where a thread of the parent holds the pool's lock as it forks; and a child's child."""
    with Pool(3) as pool:
        check(pool, 3)
        stop = threading.Event()

        def use() -> None:
            while not stop.is_set():
                check(pool, 3)

        user = threading.Thread(target=use)
        user.start()
        for _ in range(5):
            in_child(lambda: (check(pool, 3), check(pool, 3)))
        in_child(lambda: in_child(lambda: (check(pool, 3), pool.close(), check(pool, 1))))
        stop.set()
        user.join()
        check(pool, 3)
    in_child(lambda: check(pool, 1))


def test_a_fork_within_a_call_keeps_ctrl_c() -> None:
    """The child of another thread has the handlers that the call has set aside."""

    def fork() -> None:
        with ThreadPoolExecutor(1) as other:
            other.submit(in_child, interrupt).result()

    def interrupt() -> None:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        check(pool, 2)

    with Pool(2) as pool:
        pool.run(Meeting(fork))


def chain_of(error: BaseException | None) -> Generator[BaseException]:
    while error is not None:
        yield error
        error = error.__context__


def test_handlers_that_raise_wait_for_the_call() -> None:
    """None of several signals is lost or handled within the call, and all handlers are back."""
    seen = list[str]()

    def late(number: int, _: object) -> None:
        seen.append(signal.Signals(number).name)
        raise TimeoutError(number)

    def disturb() -> None:
        for number in (signal.SIGALRM, signal.SIGINT, signal.SIGUSR1, signal.SIGALRM):
            signal.raise_signal(number)
        task.arrived.append(-1)
        assert not seen

    task = Meeting(disturb)
    with Pool(3) as pool, handled(signal.SIGALRM, late), handled(signal.SIGUSR1, late):
        with pytest.raises(TimeoutError) as caught:
            pool.run(task)
        assert len(task.arrived) == 4
        assert sorted(seen) == ["SIGALRM", "SIGUSR1"]
        assert {type(error) for error in chain_of(caught.value)} == {
            TimeoutError,
            KeyboardInterrupt,
        }
        assert signal.getsignal(signal.SIGALRM) is signal.getsignal(signal.SIGUSR1) is late
        check(pool, 3)


def test_signals_of_the_system_are_not_put_off() -> None:
    """Ctrl-C where nobody handles it, and where nobody wants to hear of it."""
    with Pool(2) as pool, handled(signal.SIGINT, signal.SIG_IGN):
        pool.run(Meeting(lambda: signal.raise_signal(signal.SIGINT)))
        check(pool, 2)
    code = """
import signal, rnncc_runtime
signal.signal(signal.SIGINT, signal.SIG_DFL)
rnncc_runtime.Pool(1).run(lambda at: signal.raise_signal(signal.SIGINT) or 0)
print("not reached")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == -signal.SIGINT and not done.stdout


IN_A_THREAD_THAT_SEEMS_THE_MAIN_ONE = """
import _thread, sys
sys.modules.pop("threading", None)
done = _thread.allocate_lock()

def compute():
    import rnncc_runtime  # so that `threading` takes this thread for the main one
    print(rnncc_runtime.Pool(2).run(lambda at: 0))
    done.release()

done.acquire()
_thread.start_new_thread(compute, ())
done.acquire(timeout=30)
"""


def test_calls_of_threads_that_have_no_handlers() -> None:
    """As where a program that Python is embedded in begins threads of its own."""
    code = IN_A_THREAD_THAT_SEEMS_THE_MAIN_ONE
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


def test_errors_of_tasks_are_the_callers() -> None:
    def fail(number: int, at: int) -> int:
        if c_int64.from_address(at).value == number:
            raise LookupError(number)
        return 0

    with Pool(3) as pool:
        for number in range(3):
            with pytest.raises(LookupError):
                pool.run(partial(fail, number))
            check(pool, 3)


def test_threads_end_with_their_pool() -> None:
    before = set(threading.enumerate())
    pool = Pool(4)
    check(pool, 4)
    threads = set(threading.enumerate()) - before
    assert len(threads) == 3
    del pool
    gc.collect()
    for thread in threads:
        thread.join(5)
        assert not thread.is_alive()


def test_closing_waits_for_calls() -> None:
    """Calls of several threads at a time, before, while and after the pool is closed."""
    pool, start = Pool(3), threading.Barrier(4)

    def use() -> None:
        start.wait()
        for _ in range(50):
            task = Meeting()
            pool.run(task)
            assert sorted(task.arrived) in ([0], [0, 1, 2])

    users = [threading.Thread(target=use) for _ in range(3)]
    for user in users:
        user.start()
    start.wait()
    time.sleep(1e-3)
    pool.close()
    pool.close()
    for user in users:
        user.join()
    check(pool, 1)


def test_the_end_of_the_program() -> None:
    """A pool that nobody closes holds nothing up, and computes to the last."""
    code = """
import atexit, rnncc_runtime
def use(when):
    print(when, pool.run(lambda at: 0))
class Late:
    def __del__(self): use("deleted")
atexit.register(use, "after")
late, pool = Late(), rnncc_runtime.Pool(3)
atexit.register(use, "at exit")
use("now")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=20
    )
    assert done.stdout.split("\n") == ["now 0", "at exit 0", "after 0", "deleted 0", ""]
    assert not done.stderr and not done.returncode
