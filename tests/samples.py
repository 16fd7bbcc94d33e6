"""A model made by hand through llvmlite: y = 2x, with the C ABI of docs/abi.md.

It has a formula among its shapes, lengths that it checks, and an output that may be NULL.
"""

from __future__ import annotations

import json
from typing import Any

import llvmlite.binding as llvm

from rnncc.packaging.compiled import CompiledModel

TRIPLE = llvm.get_default_triple()


def metadata(name: str = "twice") -> dict[str, Any]:
    return {
        "format": 2,
        "functions": {"run": 3},
        "sizes": ["workspace_bytes"],
        "rnncc": "0.2.0",
        "name": name,
        "symbols": ["T", "N"],
        "inputs": [
            {"name": "in/x", "c_name": "in_x", "dtype": "f32", "shape": ["T", "N", 3]},
            {"name": "lengths", "c_name": "lengths", "dtype": "i32", "shape": ["N"]},
        ],
        "outputs": [
            {"name": "y", "c_name": "y", "dtype": "f32", "shape": ["T", "N", 3]},
            {"name": "padded", "c_name": "padded", "dtype": "f32", "shape": ["T*N + 1"]},
        ],
        "parameters": [{"name": "w", "dtype": "f32", "shape": [3], "packed": True}],
        "workspace": "64 + 4*T*N",
        "target": TRIPLE,
        "cpu": "generic",
        "precision": "fp32",
    }


def source(name: str = "twice") -> str:
    """y = 2x through the workspace; padded = 7, if asked for; lengths above T are refused."""
    text = json.dumps(metadata(name)).encode() + b"\0"
    escaped = "".join(f"\\{byte:02x}" for byte in text)
    return f"""
    @text = internal constant [{len(text)} x i8] c"{escaped}"
    @two = internal constant [3 x float] [float 2.0, float 2.0, float 2.0]

    define ptr @{name}_metadata() {{
      ret ptr @text
    }}

    define i64 @{name}_workspace_bytes(i64 %T, i64 %N) {{
      %a = icmp slt i64 %T, 0
      %b = icmp slt i64 %N, 0
      %c = or i1 %a, %b
      %tn = mul i64 %T, %N
      %bytes = shl i64 %tn, 2
      %all = add i64 %bytes, 64
      %result = select i1 %c, i64 -1, i64 %all
      ret i64 %result
    }}

    define i32 @{name}_run(ptr %in, ptr %out, ptr %workspace, i64 %T, i64 %N) {{
    entry:
      %x = load ptr, ptr %in
      %lengths_at = getelementptr ptr, ptr %in, i64 1
      %lengths = load ptr, ptr %lengths_at
      %y = load ptr, ptr %out
      %padded_at = getelementptr ptr, ptr %out, i64 1
      %padded = load ptr, ptr %padded_at
      %no_x = icmp eq ptr %x, null
      br i1 %no_x, label %null, label %lengths_loop
    lengths_loop:
      %n = phi i64 [0, %entry], [%n_next, %lengths_ok]
      %more = icmp slt i64 %n, %N
      br i1 %more, label %check, label %x_start
    check:
      %at = getelementptr i32, ptr %lengths, i64 %n
      %length = load i32, ptr %at
      %wide = sext i32 %length to i64
      %long = icmp sgt i64 %wide, %T
      br i1 %long, label %bad_length, label %lengths_ok
    lengths_ok:
      %n_next = add i64 %n, 1
      br label %lengths_loop
    x_start:
      %tn = mul i64 %T, %N
      %count = mul i64 %tn, 3
      %no_y = icmp eq ptr %y, null
      br i1 %no_y, label %padded_start, label %x_loop
    x_loop:
      %i = phi i64 [0, %x_start], [%i_next, %x_body]
      %x_more = icmp slt i64 %i, %count
      br i1 %x_more, label %x_body, label %padded_start
    x_body:
      %from = getelementptr float, ptr %x, i64 %i
      %value = load float, ptr %from
      store volatile float %value, ptr %workspace
      %kept = load volatile float, ptr %workspace
      %lane = srem i64 %i, 3
      %two_at = getelementptr float, ptr @two, i64 %lane
      %factor = load float, ptr %two_at
      %product = fmul float %kept, %factor
      %to = getelementptr float, ptr %y, i64 %i
      store float %product, ptr %to
      %i_next = add i64 %i, 1
      br label %x_loop
    padded_start:
      %no_padded = icmp eq ptr %padded, null
      br i1 %no_padded, label %done, label %padded_loop
    padded_loop:
      %p = phi i64 [0, %padded_start], [%p_next, %padded_loop]
      %p_at = getelementptr float, ptr %padded, i64 %p
      store float 7.0, ptr %p_at
      %p_next = add i64 %p, 1
      %p_more = icmp sle i64 %p_next, %tn
      br i1 %p_more, label %padded_loop, label %done
    done:
      ret i32 0
    null:
      ret i32 1
    bad_length:
      ret i32 3
    }}
    """


def compiled(name: str = "twice", triple: str = TRIPLE) -> CompiledModel:
    """The model for any machine that LLVM knows."""
    return CompiledModel(name, metadata(name), _object(source(name), triple), triple)


def needing(function: str) -> bytes:
    """An object that calls a function it does not have."""
    text = f"""
    declare void @{function}()
    define void @twice_run() {{
      call void @{function}()
      ret void
    }}
    """
    return _object(text, TRIPLE)


def _object(text: str, triple: str) -> bytes:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(triple).create_target_machine(
        reloc="pic", codemodel="small", opt=2
    )
    module = llvm.parse_assembly(text)
    module.triple = triple
    return machine.emit_object(module)
