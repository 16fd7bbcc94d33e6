"""parts: a recurrent net compiled by rnncc 0.1.0 for x86_64-unknown-linux-gnu (znver4).

`run(inputs, out=None)` computes a dict of outputs; `python parts.py` prints this text.

Inputs:
    x: float32 [4, 3]

Outputs:
    y.0: float32 [2, 3]
    y.1: float32 [2, 3]

Workspace, one for each thread: 48 bytes.
"""

from pathlib import Path

import rnncc_runtime

model = rnncc_runtime.load(Path(__file__).with_name("libparts.so"), name="parts")
inputs, outputs, parameters = model.inputs, model.outputs, model.parameters
run = model.run

if __name__ == "__main__":
    print(__doc__.strip())
