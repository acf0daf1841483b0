#!/usr/bin/env python3
"""A step of PyTorch whose ranks divide the model, over Gloo on this machine, for `make bench-layouts`: prints the
median step in ms. Inputs are random and in memory; each rank has one thread.

    layouts.py pipeline|tensor|ddp|zero1|fsdp RANKS [--steps N]
"""
import argparse, os, statistics, sys, tempfile, time

parser = argparse.ArgumentParser()
parser.add_argument("what", choices=["pipeline", "tensor", "ddp", "zero1", "fsdp"])
parser.add_argument("ranks", type=int)
parser.add_argument("--steps", type=int, default=7)
a = parser.parse_args()
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
os.environ["GLOO_SOCKET_IFNAME"] = "lo"
import torch
import torch.distributed as dist
from torch import nn
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "torch"))
from peers import network, samples

BATCH = {"pipeline": 128}.get(a.what, 12)
MICRO = 8


class Block(nn.Module):
    """As in peers.py, but q, k and v are separate layers, which parallelize_module can divide by heads."""

    def __init__(self, width, heads):
        super().__init__()
        self.ln1, self.ln2, self.each = nn.LayerNorm(width), nn.LayerNorm(width), width // heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, t, _ = x.shape
        y = self.ln1(x)
        q, k, v = (f(y).view(n, t, -1, self.each).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(n, t, -1))
        return x + self.down(nn.functional.gelu(self.up(self.ln2(x))))


class Gpt512(nn.Module):
    def __init__(self, vocabulary=155, width=512, context=64):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Parameter(torch.zeros(context, width))
        self.blocks = nn.Sequential(Block(width, 8), Block(width, 8))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.tokens(x) + self.places)))


def median(step):
    times = []
    for i in range(a.steps + 2):
        if a.ranks > 1:
            dist.barrier()
        start = time.perf_counter()
        step()
        if a.ranks > 1:
            dist.barrier()
        if i >= 2:
            times.append(time.perf_counter() - start)
    return 1000 * statistics.median(times)


def plain(net, x, y, optimiser):
    def step():
        optimiser.zero_grad()
        logits = net(x)
        nn.functional.cross_entropy(logits.flatten(0, -2), y.flatten()).backward()
        optimiser.step()
    return step


def pipeline(rank):
    """The whole net on one rank; else its two halves by 1F1B, divided where their times are about equal."""
    net, (x, y) = network("resnet20"), samples("resnet20", BATCH)
    if a.ranks == 1:
        return plain(net, x, y, torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9))
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B
    half = net[:11] if rank == 0 else net[11:]
    optimiser = torch.optim.SGD(half.parameters(), lr=0.01, momentum=0.9)
    schedule = Schedule1F1B(PipelineStage(half, rank, 2, torch.device("cpu")), MICRO, nn.functional.cross_entropy)

    def step():
        optimiser.zero_grad()
        schedule.step(x) if rank == 0 else schedule.step(target=y)
        optimiser.step()
    return step


def tensor():
    net = Gpt512()
    x, y = torch.randint(155, (BATCH, 64)), torch.randint(155, (BATCH, 64))
    if a.ranks > 1:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
        plan = {"q": ColwiseParallel(), "k": ColwiseParallel(), "v": ColwiseParallel(), "out": RowwiseParallel(),
                "up": ColwiseParallel(), "down": RowwiseParallel()}
        mesh = init_device_mesh("cpu", (a.ranks,))
        for block in net.blocks:
            parallelize_module(block, mesh, plan)
    return plain(net, x, y, torch.optim.AdamW(net.parameters(), lr=1e-3, foreach=False))


def replicas():
    net, (x, y) = network("gpt"), samples("gpt", BATCH // a.ranks)
    if a.what == "fsdp":
        from torch.distributed.fsdp import fully_shard
        for block in [m for m in net.modules() if type(m).__name__ == "Decoder"]:
            fully_shard(block)
        fully_shard(net)
        optimiser = torch.optim.AdamW(net.parameters(), lr=1e-3)
    else:
        net = nn.parallel.DistributedDataParallel(net)
        from torch.distributed.optim import ZeroRedundancyOptimizer
        optimiser = (ZeroRedundancyOptimizer(net.parameters(), torch.optim.AdamW, lr=1e-3) if a.what == "zero1"
                     else torch.optim.AdamW(net.parameters(), lr=1e-3))

    def step():
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimiser.step()
    return step


def measure(rank, store):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if a.ranks > 1:
        dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=a.ranks)
    step = pipeline(rank) if a.what == "pipeline" else tensor() if a.what == "tensor" else replicas()
    ms = median(step)
    if rank == 0:
        print("%.5g" % ms, flush=True)
    if a.ranks > 1:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    if a.ranks == 1:
        measure(0, None)
    else:
        folder = tempfile.TemporaryDirectory()
        torch.multiprocessing.spawn(measure, (os.path.join(folder.name, "store"),), a.ranks)
