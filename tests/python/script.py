"""A training script that the tests start, kill and interrupt: script.py SOCKET [WORD...]

Words: loader=fork|forkserver|spawn (two workers), unguarded (joins when it is imported too), keep
(leaves a blob after each step), gone (says when it finds the node gone).
"""

import sys
import warnings

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

import grapevine


class Noise(Dataset):
    def __len__(self):
        return 1000000

    def __getitem__(self, index):
        return torch.randn(1000), 0


def say(*words):
    print(*words, flush=True)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    warnings.simplefilter("ignore")
    model = nn.Linear(1000, 10)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    rank = grapevine.join(model, optimizer, sys.argv[1])
    say("rank", rank.rank, "steps", rank.steps)
    way = [word[len("loader=") :] for word in sys.argv if word.startswith("loader=")]
    batches = None
    if way:
        loader = DataLoader(Noise(), 8, num_workers=2, multiprocessing_context=way[0])
        batches = iter(loader)
    try:
        for step in range(10**9):
            inputs, labels = torch.randn(8, 1000), torch.zeros(8, dtype=torch.long)
            if batches:
                inputs, labels = next(batches)
            optimizer.zero_grad()
            functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
            if step == 20:
                say("going")
            if "keep" in sys.argv:
                rank.keep({"step": rank.steps})
    except KeyboardInterrupt:
        finite = all(torch.isfinite(p).all().item() for p in model.parameters())
        rank.close()
        say("closed", finite)


if __name__ == "__main__" or "unguarded" in sys.argv:
    main()
