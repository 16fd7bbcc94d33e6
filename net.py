"""net: a recurrent net compiled by rnncc 0.2.0 for x86_64-unknown-linux-gnu (znver4).

`run(inputs, out=None)` computes a dict of outputs; `python net.py` prints this text.

Inputs:
    x: float32 [4, 5]
    seed: int32 []

Outputs:
    y: float32 [4, 5]

Packed parameters:
    constant.reshape: int32 [4, 5]

Workspace, one for each thread: 0 bytes.
"""

from pathlib import Path

import rnncc_runtime

model = rnncc_runtime.load(
    Path(__file__).with_name("libnet.so"), name="net"
)
inputs, outputs, parameters = model.inputs, model.outputs, model.parameters
run = model.run

if __name__ == "__main__":
    print(__doc__.strip())
