"""Kernels by hand that tell whether the emulator is right, in LLVM IR."""

from __future__ import annotations

HEAD = """
declare i32 @emu_thread()
declare i32 @emu_block()
declare i32 @emu_blocks()
declare ptr @emu_shared()
declare void @emu_block_wait()
declare void @emu_grid_wait(ptr, i32)
declare void @emu_poll()
declare i32 @emu_shuffle_down(i32, i32)
declare i32 @emu_ballot(i32)
"""


def kernel(name: str, params: str, body: str) -> str:
    """A kernel; `params` are words, each an i64 in the body."""
    names = params.split()
    lines = [f"@{name}.params = constant i32 {len(names)}", f"define void @{name}(ptr %params) {{"]
    for i, param in enumerate(names):
        lines.append(f"  %{param}.at = getelementptr ptr, ptr %params, i64 {i}")
        lines.append(f"  %{param}.to = load ptr, ptr %{param}.at")
        lines.append(f"  %{param} = load i64, ptr %{param}.to")
    lines.append(
        "  %t = call i32 @emu_thread()\n  %tid = zext i32 %t to i64\n"
        "  %b = call i32 @emu_block()\n  %bid = zext i32 %b to i64\n"
        "  %n = call i32 @emu_blocks()\n  %blocks = zext i32 %n to i64\n"
        "  %shared = call ptr @emu_shared()"
    )
    return "\n".join([*lines, body, "}"])


REDUCE = HEAD + kernel(
    "reduce",
    "x out half",
    """
  %x.p = inttoptr i64 %x to ptr
  %out.p = inttoptr i64 %out to ptr
  %threads = mul i64 %half, 2
  %first = mul i64 %bid, %threads
  %i = add i64 %first, %tid
  %from = getelementptr float, ptr %x.p, i64 %i
  %value = load float, ptr %from
  %mine = getelementptr float, ptr %shared, i64 %tid
  store float %value, ptr %mine
  br label %loop
loop:
  %step = phi i64 [ %half, %0 ], [ %less, %next ]
  call void @emu_block_wait()
  %adds = icmp ult i64 %tid, %step
  br i1 %adds, label %add, label %next
add:
  %j = add i64 %tid, %step
  %other = getelementptr float, ptr %shared, i64 %j
  %a = load float, ptr %mine
  %c = load float, ptr %other
  %sum = fadd float %a, %c
  store float %sum, ptr %mine
  br label %next
next:
  %less = lshr i64 %step, 1
  %more = icmp ne i64 %less, 0
  br i1 %more, label %loop, label %last
last:
  %is.first = icmp eq i64 %tid, 0
  br i1 %is.first, label %store, label %end
store:
  %total = load float, ptr %shared
  %to = getelementptr float, ptr %out.p, i64 %bid
  store float %total, ptr %to
  br label %end
end:
  ret void
""",
)
"""Each block adds 2 * half numbers in shared memory."""

LANES = HEAD + kernel(
    "lanes",
    "x sums masks",
    """
  %x.p = inttoptr i64 %x to ptr
  %sums.p = inttoptr i64 %sums to ptr
  %masks.p = inttoptr i64 %masks to ptr
  %from = getelementptr i32, ptr %x.p, i64 %tid
  %value = load i32, ptr %from
  %odd = and i32 %value, 1
  %mask = call i32 @emu_ballot(i32 %odd)
  br label %loop
loop:
  %by = phi i32 [ 16, %0 ], [ %half, %loop ]
  %sum = phi i32 [ %value, %0 ], [ %more, %loop ]
  %other = call i32 @emu_shuffle_down(i32 %sum, i32 %by)
  %more = add i32 %sum, %other
  %half = lshr i32 %by, 1
  %again = icmp ne i32 %half, 0
  br i1 %again, label %loop, label %last
last:
  %lane = and i64 %tid, 31
  %leads = icmp eq i64 %lane, 0
  br i1 %leads, label %store, label %end
store:
  %warp = lshr i64 %tid, 5
  %sum.p = getelementptr i32, ptr %sums.p, i64 %warp
  store i32 %more, ptr %sum.p
  %mask.p = getelementptr i32, ptr %masks.p, i64 %warp
  store i32 %mask, ptr %mask.p
  br label %end
end:
  ret void
""",
)
"""Each warp adds its numbers by shuffles, and tells which are odd."""

STEPS = HEAD + kernel(
    "steps",
    "x y sync count size threads",
    """
  %x.p = inttoptr i64 %x to ptr
  %y.p = inttoptr i64 %y to ptr
  %sync.p = inttoptr i64 %sync to ptr
  %first = mul i64 %bid, %threads
  %begin = add i64 %first, %tid
  %stride = mul i64 %blocks, %threads
  br label %loop
loop:
  %k = phi i64 [ 0, %0 ], [ %k1, %next ]
  %from = phi ptr [ %x.p, %0 ], [ %to, %next ]
  %to = phi ptr [ %y.p, %0 ], [ %from, %next ]
  br label %rows
rows:
  %i = phi i64 [ %begin, %loop ], [ %i1, %row ]
  %more = icmp ult i64 %i, %size
  br i1 %more, label %row, label %wait
row:
  %beside = add i64 %i, 1
  %around = urem i64 %beside, %size
  %a.p = getelementptr i32, ptr %from, i64 %i
  %b.p = getelementptr i32, ptr %from, i64 %around
  %a = load i32, ptr %a.p
  %c = load i32, ptr %b.p
  %three = mul i32 %c, 3
  %sum = add i32 %a, %three
  %to.p = getelementptr i32, ptr %to, i64 %i
  store i32 %sum, ptr %to.p
  %i1 = add i64 %i, %stride
  br label %rows
wait:
  %k1 = add i64 %k, 1
  %goal.wide = mul i64 %k1, %blocks
  %goal = trunc i64 %goal.wide to i32
  call void @emu_grid_wait(ptr %sync.p, i32 %goal)
  br label %next
next:
  %again = icmp ult i64 %k1, %count
  br i1 %again, label %loop, label %end
end:
  ret void
""",
)
"""`count` times y[i] = x[i] + 3 x[i + 1], and x and y change places, all blocks together."""
