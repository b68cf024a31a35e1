"""A small network on Fashion-MNIST: `images.py` is an ordinary script, `images_joined.py` is the
same script as one rank of many. They differ in five lines.

    python examples/python/images.py
    grapevine launch --guests 4 -- python examples/python/images_joined.py
"""

import torch
from example_data import images
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader


def main():
    data, test = images()
    model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    loader = DataLoader(data + data + data, 32, shuffle=True)
    for pixels, labels in loader:
        optimizer.zero_grad()
        functional.cross_entropy(model(pixels), labels).backward()
        optimizer.step()
    right = (model(test.tensors[0]).argmax(1) == test.tensors[1]).float().mean()
    print(f"{100 * right:.1f} % of the test images", flush=True)
    torch.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
