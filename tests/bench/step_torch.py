#!/usr/bin/env python3
"""One training step of PyTorch on random data that is already in memory, for `make bench`: prints the samples/s of
three runs, one per line, from the median of each run's steps.

    step_torch.py MODEL THREADS [RANKS] [--batch 128] [--steps N] [--compile]

RANKS > 1: DistributedDataParallel over Gloo on this machine, with THREADS for each rank, which divide the global batch.
--compile: torch.compile, of PyTorch 2. Building, testing and learning work without PyTorch: it is the yardstick, which
a student might use instead.
"""
import argparse, os, statistics, sys, tempfile, time

parser = argparse.ArgumentParser()
parser.add_argument("model")
parser.add_argument("threads", type=int)
parser.add_argument("ranks", type=int, nargs="?", default=1)
parser.add_argument("--batch", type=int, default=128)
parser.add_argument("--steps", type=int, help="of one run; without it as many as take a quarter of a second or so")
parser.add_argument("--compile", action="store_true")
a = parser.parse_args()
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = str(a.threads)
import torch
from torch import nn
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "torch"))
from peers import network, samples

STEPS = {"mlp": 150, "lenet": 80, "cnn": 8, "resnet20": 2, "gpt": 5, "resnet50": 1}


def measure(rank, store):
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    net = network(a.model)
    if a.ranks > 1:
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        torch.distributed.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=a.ranks)
        net = nn.parallel.DistributedDataParallel(net)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    x, y = samples(a.model, a.batch // a.ranks)
    run = torch.compile(net) if a.compile else net
    warm = 3 if a.model != "resnet50" else 1
    for turn in range(3):
        times = []
        for _ in range((a.steps or STEPS[a.model]) + warm * (turn == 0)):
            start = time.perf_counter()
            optimiser.zero_grad()
            nn.functional.cross_entropy(run(x), y).backward()
            optimiser.step()
            times.append(time.perf_counter() - start)
        if rank == 0:
            print("%.5g" % (a.batch / statistics.median(times[warm * (turn == 0):])), flush=True)
    if a.ranks > 1:
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    if a.ranks == 1:
        measure(0, None)
    else:
        folder = tempfile.TemporaryDirectory()
        torch.multiprocessing.spawn(measure, (os.path.join(folder.name, "store"),), a.ranks)
