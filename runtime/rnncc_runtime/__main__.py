"""`python -m rnncc_runtime --include` prints the folder of rnncc.h; with a library, its arrays."""

import sys
from pathlib import Path

from rnncc_runtime import ModelError, load

if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m rnncc_runtime --include | LIBRARY")
    if sys.argv[1] == "--include":
        print(Path(__file__).resolve().parent / "include")
    else:
        try:
            print(load(sys.argv[1]))
        except ModelError as error:
            sys.exit(f"rnncc_runtime: error: {error}")
