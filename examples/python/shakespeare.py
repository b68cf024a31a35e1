"""A small transformer that reads Tiny Shakespeare, trained with AdamW by ranks that never wait.

    grapevine launch --guests 4 -- python examples/python/shakespeare.py

All ranks together take 1200 steps of 16 pieces of 64 characters; each takes as many as it can. The
learning rate follows the progress of the run, so it is equal at all ranks. At the end each script
has the mean of all models and prints its loss on the last tenth of the text, in nats per character.
A uniform guess has 5.5, the frequencies of the characters alone 3.3.
"""

import math
import os

import grapevine
import torch
from example_data import text
from torch import nn
from torch.nn import functional

STEPS = 4 * int(os.environ.get("STEPS", "300"))  # of all ranks
LENGTH, BATCH, WIDTH = 64, 16, 64


class Reader(nn.Module):
    """A character's code, and the ones before it, to the scores of the next."""

    def __init__(self, layers=2, heads=4):
        super().__init__()
        self.characters = nn.Embedding(256, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(
            WIDTH, heads, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.scores = nn.Linear(WIDTH, 256, bias=False)
        self.scores.weight = self.characters.weight
        nn.init.normal_(self.characters.weight, std=0.02)

    def forward(self, codes):
        mask = nn.Transformer.generate_square_subsequent_mask(codes.shape[1])
        hidden = self.characters(codes) + self.places[: codes.shape[1]]
        return self.scores(self.layers(hidden, mask=mask, is_causal=True))


def loss_of(model, pieces):
    scores = model(pieces[:, :-1])
    return functional.cross_entropy(scores.flatten(0, 1), pieces[:, 1:].flatten())


def pieces_of(codes, generator):
    starts = torch.randint(len(codes) - LENGTH - 1, (BATCH,), generator=generator)
    return torch.stack([codes[start : start + LENGTH + 1] for start in starts.tolist()])


def main():
    torch.set_num_threads(1)
    codes = text()
    train, held_out = codes[: -len(codes) // 10], codes[-len(codes) // 10 :]
    model = Reader()
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    with grapevine.join(model, optimizer, gradients=STEPS) as rank:
        schedule = grapevine.schedule(optimizer, rank, lambda done: 0.5 + 0.5 * math.cos(3 * done))
        generator = torch.Generator().manual_seed(rank.rank)
        while not rank.stopped:
            optimizer.zero_grad()
            loss = loss_of(model, pieces_of(train, generator))
            loss.backward()
            optimizer.step()
            schedule.step()
            if rank.steps % 100 == 1:
                print(f"rank {rank.rank}: {rank.progress:.0%}, loss {loss.item():.2f}", flush=True)
        state = rank.finish()
    mean_model = Reader()
    mean_model.load_state_dict(state)
    with torch.no_grad():
        generator = torch.Generator().manual_seed(99)
        losses = [loss_of(mean_model, pieces_of(held_out, generator)) for _ in range(20)]
    mean = torch.stack(losses).mean().item()
    print(f"rank {rank.rank}: the mean of {rank.ranks} models has the loss {mean:.2f}")


if __name__ == "__main__":
    main()
