"""ONNX models as programs of the `rnn` dialect: `importer.import_model`, `reading.is_onnx`."""
