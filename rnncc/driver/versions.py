"""A library with code for several CPUs: a planned library for each, then one module of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from rnncc.codegen import targets
from rnncc.errors import CompileError
from rnncc.kern.largest import Largest
from rnncc.kern.library import share_weights
from rnncc.options import Options
from rnncc.stages.compilation import Compilation

OWN = ("cpu", "tuned", "features", "workspace", "packed")
"""What the metadata may have for each version."""


def cpus_of(options: Options) -> list[str]:
    """The CPUs that `--cpu` lists for one library; none where it names one, or chips of a GPU.

    Raises:
        CompileError: one is named twice, or there is something that goes with one alone.
    """
    row = targets.row_of(options.target)
    words = [word.strip() for word in (options.cpu or "").split(",")]
    if row.versions is None or len(words) < 2:
        return []
    if "" in words or len(set(words)) < len(words):
        what = f"{options.cpu!r} is no list of different CPUs"
        raise CompileError("--cpu", what, "such as x86-64-v2,x86-64-v3,x86-64-v4")
    if options.tune:
        raise CompileError("--tune", "measures code for this machine's CPU alone", "leave it out")
    return words


def write_versions(
    cpus: Sequence[str], lower: Callable[[Options], Compilation], options: Options
) -> Compilation:
    """The compilation of the first version, whose code and metadata are those of all.

    Args:
        lower: a net with its library planned and described, for a CPU.
    """
    versions = [lower(_for_cpu(options, cpu)) for cpu in cpus]
    first = versions[0]  # with the options that its text states, if it was half-compiled
    weights = share_weights([c.planned for c in versions])
    _check_alike(versions)
    name, both = options.name, [(c.planned, c.target) for c in versions]
    first.metadata |= {
        "cpu": ",".join(cpus),
        "workspace": str(Largest(f for c in versions for f in c.planned.workspace.formulas)),
        "weights": len(weights),
        **(
            {"packed": max(c.metadata["packed"] for c in versions)} if first.options.prepack else {}
        ),
        "versions": [{k: c.metadata[k] for k in OWN if k in c.metadata} for c in versions],
    }
    first.metadata.pop("tuned", None)
    first.code = targets.write_versions(options.target, name, both, first.metadata, weights)
    return first


def _for_cpu(options: Options, cpu: str) -> Options:
    folder = options.dump_ir and options.dump_ir / cpu
    return replace(options, cpu=cpu, dump_ir=folder)


def _check_alike(versions: Sequence[Compilation]) -> None:
    """Their interfaces, the state among them, do not depend on the CPU."""
    shared = [{k: v for k, v in c.metadata.items() if k not in (*OWN, "weights")} for c in versions]
    assert all(metadata == shared[0] for metadata in shared), "versions of a library differ"
