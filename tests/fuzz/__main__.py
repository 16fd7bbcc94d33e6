"""Fuzz rnncc beyond the import: random and damaged models through passes, code and runs.

    python -m tests.fuzz --minutes 10

Prints how many models were tried and accepted, and how many calls of them compared; each kind of
failure is made smaller and written to a folder. Ends with 1 if there was one. What takes the time
is compiling: `--calls 256` compares a million calls in the time of some thousand models.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.campaign import CALLS, Runner, Totals, campaign, drawn
from tests.fuzz.cases import Case, Failure
from tests.fuzz.families import FAMILIES, WEIGHTS
from tests.fuzz.shrink import cause, shrink


def main() -> int:
    """Run the command."""
    options = _options()
    names = options.families.split(",")
    end = time.monotonic() + 60 * options.minutes
    totals, told, kept = Totals(), [time.monotonic()], set[str]()

    def show(totals: Totals) -> None:
        if time.monotonic() - told[0] > options.every:
            told[0] = time.monotonic()
            print(totals, file=sys.stderr)
            for signature, count in totals.signatures.most_common():
                print(f"{count:6} {signature}", file=sys.stderr)
                if signature not in kept:  # as it is; it is made smaller at the end
                    kept.add(signature)
                    case, failure = totals.failures[signature][0]
                    _write(options.out / "found", signature, case, [failure])
            sys.stderr.flush()

    def more(index: int) -> bool:
        return time.monotonic() < end and (not options.count or index < options.count)

    tasks = drawn(names, [WEIGHTS[name] for name in names], options.seed, more)
    campaign(tasks, options.workers, totals, show, options.calls)
    print(totals)
    _report(totals, options.out, options.calls)
    return int(bool(totals.failures))


def _report(totals: Totals, folder: Path, calls: int) -> None:
    """Make failures smaller, one of each kind; those that are then of one kind are told once."""
    seen = Counter[str]()
    with Runner(calls) as run:
        for signature, examples in totals.failures.items():
            case, result = shrink(examples[0][0], run)
            kind = cause(case, result) or signature
            seen[kind] += totals.signatures[signature]
            if seen[kind] == totals.signatures[signature]:
                _write(folder, kind, case, result.failures)
    for kind, count in seen.most_common():
        print(f"{count:6} {kind}")


def _write(folder: Path, kind: str, case: Case, failures: Sequence[Failure]) -> None:
    """Keep a failure as a file with what happened."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = "".join(c if c.isalnum() else "-" for c in case.name)
    (folder / f"{stem}.model").write_bytes(case.source)
    head = [kind, f"{case.name}, train={case.train}, seed={case.seed}"]
    text = "\n".join([*head, *(failure.text for failure in failures)])
    (folder / f"{stem}.txt").write_text(text)
    print(f"\n{folder / stem}.txt, .model\n{text[:2000]}", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long (1)")
    parser.add_argument("--count", type=int, default=0, help="at most so many inputs")
    parser.add_argument("--calls", type=int, default=CALLS, help="of each model (%(default)s)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="else the time's")
    parser.add_argument("--workers", type=int, default=2, help="processes (2)")
    parser.add_argument("--families", default=",".join(FAMILIES), help="some of %(default)s")
    parser.add_argument("--every", type=float, default=60.0, help="seconds between two reports")
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"), help="folder of failures")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
