. /tmp/eh.sh /work/h27
taskset -c 0 python -m tests.frontends.onnx.corpus.variant_models /tmp/h27/small /tmp/h27/var > /tmp/h27/var.log 2>&1
taskset -c 0 python -m tests.frontends.onnx.corpus /tmp/h27/var > /tmp/h27/var_run.log 2>&1
