"""`python -m rnncc` is the command `rnncc`."""

import sys

from rnncc.cli import main

if __name__ == "__main__":
    sys.exit(main())
