"""How fast are kernels along an axis, kernels of f64, and kernels of half numbers? Compares them with a copy of as many
bytes in the same run, and with PyTorch on as many threads. Tensors have 4096 x 2048 elements; sorted ones have about a
million.

Target: within 3 times the copy, or at PyTorch's time. `./dev deps --peers` installs PyTorch."""

import argparse
import json
import os
import statistics
import subprocess

from train_step import BUILD

# Columns: the name of the call in row_kernels.cc, its dtype, and PyTorch's call of the operands, which writes to out.
CASES = [
    ("add", "f32", lambda t, x, i, out: t.add(x, i, out=out)),
    ("relu", "f32", lambda t, x, i, out: t.clamp(x, min=0, out=out)),
    ("exp", "f32", lambda t, x, i, out: t.exp(x, out=out)),
    ("add", "f16", lambda t, x, i, out: t.add(x, i, out=out)),
    ("relu", "f16", lambda t, x, i, out: t.clamp(x, min=0, out=out)),
    ("exp", "f16", lambda t, x, i, out: t.exp(x, out=out)),
    ("to_f32", "f16", lambda t, x, i, out: x.float() if out is None else out.copy_(x)),
    ("from_f32", "f16", lambda t, x, i, out: i.half() if out is None else out.copy_(i)),
    ("add", "bf16", lambda t, x, i, out: t.add(x, i, out=out)),
    ("add", "f64", lambda t, x, i, out: t.add(x, i, out=out)),
    ("exp", "f64", lambda t, x, i, out: t.exp(x, out=out)),
    ("tanh", "f64", lambda t, x, i, out: t.tanh(x, out=out)),
    ("to_f32", "f64", lambda t, x, i, out: x.float() if out is None else out.copy_(x)),
    ("sum", "f64", lambda t, x, i, out: x.sum()),
    ("sum_columns", "f64", lambda t, x, i, out: t.sum(x, 0, out=out)),
    ("max_rows", "f64", lambda t, x, i, out: t.amax(x, 1, out=out)),
    ("arg_max_rows", "f32", lambda t, x, i, out: t.argmax(x, 1, out=out)),
    ("arg_max_columns", "f32", lambda t, x, i, out: t.argmax(x, 0, out=out)),
    ("arg_max_rows", "f16", lambda t, x, i, out: t.argmax(x, 1, out=out)),
    ("cumsum_rows", "f32", lambda t, x, i, out: t.cumsum(x, 1, out=out)),
    ("cumsum_columns", "f32", lambda t, x, i, out: t.cumsum(x, 0, out=out)),
    ("cumsum_rows", "f16", lambda t, x, i, out: t.cumsum(x, 1, out=out)),
    ("take_along_rows", "f32", lambda t, x, i, out: t.gather(x, 1, i, out=out)),
    ("take_along_columns", "f32", lambda t, x, i, out: t.gather(x, 0, i, out=out)),
    (
        "add_along_rows",
        "f32",
        lambda t, x, i, out: (t.zeros_like(x) if out is None else out.zero_()).scatter_add_(1, i, x),
    ),
    (
        "add_along_columns",
        "f32",
        lambda t, x, i, out: (t.zeros_like(x) if out is None else out.zero_()).scatter_add_(0, i, x),
    ),
    ("sort_million", "f32", lambda t, x, i, out: t.sort(x, stable=True, out=out)),
    ("sort_rows", "f32", lambda t, x, i, out: t.sort(x, dim=1, stable=True, out=out)),
    ("sort_short_rows", "f32", lambda t, x, i, out: t.sort(x, dim=1, stable=True, out=out)),
    ("sort_rows", "f64", lambda t, x, i, out: t.sort(x, dim=1, stable=True, out=out)),
    ("sort_rows", "i32", lambda t, x, i, out: t.sort(x, dim=1, stable=True, out=out)),
    ("top_10_rows", "f32", lambda t, x, i, out: t.topk(x, 10, 1, out=out)),
]
SHAPES = {
    "sort_million": (1 << 20,),
    "sort_rows": (1000, 1000),
    "sort_short_rows": (10000, 100),
    "top_10_rows": (1000, 1000),
}


def operands(torch, name, dtype):
    """The tensor, and an index, a second tensor or, for a cast from f32, a tensor of f32."""
    shape = SHAPES.get(name, (4096, 2048))
    types = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "i32": "int32"}
    x = torch.randn(shape)
    typed = (x * (4 if dtype == "i32" else 1)).to(getattr(torch, types[dtype]))
    others = {"from_f32": lambda: x, "add": typed.clone}
    return typed, torch.randint(0, 2048, shape) if "along" in name else others.get(name, lambda: None)()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    import time

    import torch

    torch.set_num_threads(options.threads)
    server = subprocess.Popen(
        [os.path.join(BUILD, "bench", "bench_row_kernels"), str(options.threads)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def karez(name, dtype):
        server.stdin.write(f"{name} {dtype}\n")
        server.stdin.flush()
        return [1e3 * float(word) for word in server.stdout.readline().split()]

    lines, worst = [], 0.0
    print(f"{'kernel':20} {'dtype':5} {'ms':>8} {'copy':>8} {'torch':>8}  ratio to copy, to torch (minimum to maximum)")
    for name, dtype, peer in CASES:
        x, other = operands(torch, name, dtype)
        out = peer(torch, x, other, None)  # later calls write to the same memory
        own, copies, theirs = [], [], []
        for _ in range(options.pairs):
            ms, copy = karez(name, dtype)
            begin = time.perf_counter()
            peer(torch, x, other, out)
            theirs.append(1e3 * (time.perf_counter() - begin))
            own.append(ms), copies.append(copy)
        to_copy, to_torch = [a / b for a, b in zip(own, copies)], [a / b for a, b in zip(own, theirs)]
        ratio = min(statistics.median(to_copy) / 3, statistics.median(to_torch))
        worst = max(worst, ratio)
        print(
            f"{name:20} {dtype:5} {statistics.median(own):8.3f} {statistics.median(copies):8.3f} "
            f"{statistics.median(theirs):8.3f}  {statistics.median(to_copy):.2f}, {statistics.median(to_torch):.2f} "
            f"({min(to_torch):.2f} to {max(to_torch):.2f})" + ("  MISSED" if ratio > 1 else ""),
            flush=True,
        )
        lines.append({"kernel": name, "dtype": dtype, "ms": own, "copy_ms": copies, "torch_ms": theirs})
    server.stdin.close()
    server.wait()
    if options.json:
        with open(options.json, "w") as file:
            json.dump(lines, file, indent=1)
    print(f"row_kernels: worst ratio {worst:.2f} (target 1.00)")
    return worst > 1


if __name__ == "__main__":
    raise SystemExit(main())
