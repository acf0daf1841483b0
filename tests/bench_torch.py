#!/usr/bin/env python3
"""One training step of PyTorch on random data that is already in memory, for `make bench`: prints samples/s, by the median of
the steps, of three runs of it, a line each.

    bench_torch.py MODEL THREADS [RANKS]

RANKS > 1: DistributedDataParallel over Gloo on this machine, THREADS for each, the global batch of 128 divided.
Not needed to build, to test or to learn: it is the measure that a student would otherwise have installed.
"""
import os, statistics, sys, tempfile, time

model, threads = sys.argv[1], int(sys.argv[2])
ranks = int(sys.argv[3]) if len(sys.argv) > 3 else 1
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = str(threads)
import torch
from torch import nn

GLOBAL_BATCH = 128


def network():
    if model == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))
    if model == "lenet":
        return nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 14 * 14, 128), nn.ReLU(), nn.Linear(128, 10))


def measure(rank, store):
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    net = network()
    if ranks > 1:
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        torch.distributed.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=ranks)
        net = nn.parallel.DistributedDataParallel(net)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    batch = GLOBAL_BATCH // ranks
    x, y = torch.randn(batch, 1, 28, 28), torch.randint(0, 10, (batch,))
    for run in range(3):
        times = []
        for _ in range({"mlp": 150, "lenet": 80, "cnn": 8}[model] + 3 * (run == 0)):
            start = time.perf_counter()
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            optimiser.step()
            times.append(time.perf_counter() - start)
        if rank == 0:
            print(round(GLOBAL_BATCH / statistics.median(times[3 * (run == 0):])), flush=True)
    if ranks > 1:
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    if ranks == 1:
        measure(0, None)
    else:
        folder = tempfile.TemporaryDirectory()
        torch.multiprocessing.spawn(measure, (os.path.join(folder.name, "store"),), ranks)
