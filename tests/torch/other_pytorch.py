"""The tests of this folder with other versions of PyTorch, each in an environment of its own.

`python -m tests.torch.other_pytorch 2.11.0 2.14.1` takes gigabytes of downloads where pip finds no
wheel without CUDA, and a quarter of an hour a version; what it installs stays in the folder that
`--into` names. `--all` runs every test instead of drawn ones.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tomllib
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
UNUSED = ("import-linter", "networkx", "pyrefly", "pyright", "ruff")
"""Of what tests need, that these do not."""


def environment(version: str, folder: Path) -> Path:
    """The interpreter of an environment that has this PyTorch, and rnncc from this checkout."""
    python = folder / version / "bin" / "python"
    if not python.exists():
        venv.create(folder / version, with_pip=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    left_out = ("rnncc-runtime", *UNUSED)
    packages = [name for name in needed if not name.startswith(left_out)]
    pip = [str(python), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, f"torch=={version}", "setuptools>=77,<82", *packages], check=True)
    own = ["--no-deps", "--no-build-isolation", "-e", str(ROOT / "runtime"), "-e", str(ROOT)]
    subprocess.run([*pip, *own], check=True)
    return python


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests with each version; 1 if some failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("versions", nargs="+")
    parser.add_argument("--into", type=Path, default=ROOT / ".torches")
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args(arguments)
    failed = list[str]()
    for version in options.versions:
        python = environment(version, options.into)
        chosen = [] if options.all else ["--draw"]
        command = [python, "-m", "pytest", "-q", "-m", "not slow", *chosen, "tests/torch"]
        hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}  # wheels with CUDA find no GPU
        if subprocess.run(command, cwd=ROOT, env=hidden, check=False).returncode:
            failed.append(version)
    print("failed:", ", ".join(failed) or "none")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
