"""Runs one rank of the collectives of bench/all_reduce.py with Gloo, through torch.distributed. Arguments: rank, number
of ranks, port, and the sizes to measure, as JSON."""

import json
import os
import sys
import time

import torch
import torch.distributed as dist

rank, ranks, port, sizes = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, GLOO_SOCKET_IFNAME="lo")
torch.set_num_threads(1)
dist.init_process_group("gloo", rank=rank, world_size=ranks)
for kind in ("all_reduce", "reduce_scatter", "all_gather", "all_to_all"):
    for size in sizes:
        array, part = torch.ones(size // 4), torch.ones(size // 4 // ranks)
        shard = torch.ones(size // 4 // ranks)
        run = {
            "all_reduce": lambda: dist.all_reduce(array),
            "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, array),
            "all_gather": lambda: dist.all_gather_into_tensor(array, part),
            "all_to_all": lambda: dist.all_to_all_single(shard, part),
        }[kind]
        samples = min(max((96 << 20) // size, 7), 400)
        times = torch.empty(samples, dtype=torch.float64)
        try:
            for s in range(-min(samples, 10), samples):
                array.fill_(1.0)
                dist.barrier()
                begin = time.perf_counter()
                run()
                if s >= 0:
                    times[s] = (time.perf_counter() - begin) * 1e6
        except RuntimeError as why:  # not supported by this version of Gloo
            print(f"{kind}: {why}", file=sys.stderr)
            break
        dist.all_reduce(times, dist.ReduceOp.MAX)
        if rank == 0:
            print(
                json.dumps({"kind": kind, "bytes": size, "us": times.median().item(), "least": times.min().item()}),
                flush=True,
            )
dist.destroy_process_group()
