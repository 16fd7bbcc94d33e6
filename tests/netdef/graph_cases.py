"""The golden calls of net utilities, and those where ours does better than the original."""

from __future__ import annotations

from tests.golden import GOLDEN

GRAPH = GOLDEN / "graph"
QUIRKS = {
    ("fuse_copy_between_cpu_and_gpu", "two_readers"),
    ("fuse_copy_between_cpu_and_gpu", "read_twice"),
    ("fuse_copy_between_cpu_and_gpu", "overwritten"),
    ("fuse_copy_between_cpu_and_gpu", "no_second_reader"),
    ("fuse_copy_between_cpu_and_gpu", "half_done"),
    ("export", "bool"),
    ("infer_device_type", "back_and_forth"),
    ("remove_dead_end_ops", "live_and_dead_reader"),
    ("remove_dead_end_ops", "random_3"),
    ("rename_op_input", "taken"),
    ("rename_op_output", "taken"),
    ("rename_op_output", "back"),
    ("ssa_rewrite", "collision"),
    *(("identify_reshape_sub_graph", name) for name in ("window_cut", "window_lost")),
    *(
        ("remove_reshape_for_fc", name)
        for name in (
            "window_cut",
            "window_lost",
            "data_overwritten",
            "output_of_net",
            "no_consumer",
            "param_used_elsewhere",
            "shared_param",
        )
    ),
}
"""Cases where ours keeps the meaning of a net and the original does not: see test_quirks.py."""
