"""Operators that no function here reads: those that the standard defines by others, those refused.

Apart from the table of those that are read, since that imports all of their functions, and these
run graphs within theirs.
"""

CONTRIBUTED = "com.microsoft"
"""The domain of ONNX Runtime's own operators."""
UNVERSIONED: tuple[str, ...] = ("LayerNormalization", "SimplifiedLayerNormalization")
"""Operators that ONNX Runtime writes in the standard's domain, in models of any opset."""

BY_DEFINITION: tuple[str, ...] = (
    *("Attention", "BlackmanWindow", "CenterCropPad", "GroupNormalization"),
    *("CausalConvWithState", "LinearAttention", "SwiGLU"),
    *("HammingWindow", "HannWindow", "NegativeLogLikelihoodLoss"),
    *("RotaryEmbedding", "SoftmaxCrossEntropyLoss"),
    *(f"{CONTRIBUTED}.CausalConvWithState", f"{CONTRIBUTED}.LinearAttention"),
)
"""Operators that are read as the standard defines them by others."""

REFUSED: dict[str, str] = {
    **dict.fromkeys(
        ("StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch", "TfIdfVectorizer"),
        "compiled code does not see the characters of texts",
    ),
    **dict.fromkeys(
        tuple(f"ai.onnx.ml.{name}" for name in ("CastMap", "DictVectorizer", "ZipMap")),
        "maps are not read",
    ),
}
"""Operator -> why it is not supported."""
