"""All models of a folder beside ONNX Runtime: `python -m tests.frontends.onnx.corpus DIR`.

Each in a process of its own, which ends after some minutes. The last line counts.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.frontends.onnx.corpus.comparing import Compared, compare_into

SECONDS = 300


def apart(path: Path) -> Compared:
    """A model compared by a process of its own."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=compare_into, args=(theirs, path))
    process.start()
    theirs.close()
    try:
        made = ours.recv() if ours.poll(SECONDS) else Compared(path.stem, "wrong", "took too long")
    except EOFError:
        made = Compared(path.stem, "wrong", "the process ended")
    process.kill()
    process.join()
    return made


def line(made: Compared) -> str:
    """A row of the table."""
    if made.state != "equal":
        return f"{made.name:40} {made.state:8} {made.why}"
    ratios = " ".join(f"{ratio:6.2f}" for ratio in made.ratios)
    return (
        f"{made.name:40} equal    {made.error:.0e}  {ratios}  "
        f"{made.seconds:.1f} s {made.megabytes} MB"
    )


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="models with this text in their names")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    paths = sorted(p for p in options.folder.glob("*.onnx") if options.only in p.stem)
    counts = Counter[str]()
    with ThreadPoolExecutor(options.workers) as pool:
        for made in pool.map(apart, paths):
            print(line(made), flush=True)
            counts[made.state] += 1
    print(", ".join(f"{count} {state}" for state, count in counts.items()))


if __name__ == "__main__":
    main()
