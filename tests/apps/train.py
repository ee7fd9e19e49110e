"""A small model trained by all tasks of a job: PyTorch's DistributedDataParallel over gloo. Each rank
has data of its own; the weights are known, and at the end equal everywhere. Started by
tests/apps/pytorch as the command of a job."""
import hashlib
import os
import socket

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

WANTED = [2.0, -3.0, 0.5]


def main():
    torch.set_num_threads(1)
    # MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE are all that it is given.
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(100 + rank)
    model = DistributedDataParallel(torch.nn.Linear(3, 1, bias=False))
    steps = torch.optim.SGD(model.parameters(), lr=0.1)
    wanted = torch.tensor([WANTED]).t()
    for _ in range(150):
        data = torch.randn(32, 3)
        loss = ((model(data) - data @ wanted) ** 2).mean()
        steps.zero_grad()
        loss.backward()
        steps.step()
    ranks = torch.tensor([float(rank)])
    dist.all_reduce(ranks)
    weights = model.module.weight.detach()
    off = float((weights.flatten() - torch.tensor(WANTED)).abs().max())
    digest = hashlib.sha256(weights.numpy().tobytes()).hexdigest()[:16]
    word = {name: os.environ.get(name, "-") for name in (
        "CB_TASK", "CB_REPLICA", "CB_RANK", "LOCAL_RANK", "MASTER_ADDR", "CB_TASK_HOST",
        "CB_HOSTS_1", "CB_HOSTS_2", "CUDA_VISIBLE_DEVICES", "CB_ASSIGN_GPU")}
    words = [f"rank={rank}", f"size={size}", f"host={socket.gethostname()}", f"sum={ranks.item()}",
             f"close={off < 1e-3}", f"weights={digest}"]
    words += [f"{name}={value.replace(' ', ',')}" for name, value in word.items()]
    print(*words, flush=True)
    dist.barrier()
    dist.destroy_process_group()


main()
