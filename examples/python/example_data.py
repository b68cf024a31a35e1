"""Data for the examples: real data from $GRAPEVINE_DATA, or generated data, with a message."""

import gzip
import os

import torch
from torch.utils.data import TensorDataset

FOLDERS = [os.environ.get("GRAPEVINE_DATA", "data"), "/usr/share/datasets/fashion-mnist"]


def images(count=6000):
    """Training and test sets of 28 x 28 pixels and a label of 0 to 9: Fashion-MNIST."""
    return _images("train", count), _images("t10k", 2000)


def text():
    """A text as a tensor of bytes: Tiny Shakespeare."""
    path = _found("tiny-shakespeare/input.txt", "input.txt")
    if path:
        with open(path, "rb") as file:
            return torch.tensor(list(file.read()))
    print("no Tiny Shakespeare here: a made-up text", flush=True)
    generator = torch.Generator().manual_seed(0)
    words = [b"the ", b"king ", b"and ", b"queen ", b"went ", b"home.\n"]
    drawn = torch.randint(len(words), (40000,), generator=generator)
    return torch.tensor(list(b"".join(words[word] for word in drawn)))


def _images(part, count):
    pixels = _found(f"fashion-mnist/{part}-images-idx3-ubyte.gz", f"{part}-images-idx3-ubyte.gz")
    if pixels:
        raw = _bytes(pixels)[16:].reshape(-1, 784)[:count].float() / 255
        labels = _bytes(pixels.replace("images-idx3", "labels-idx1"))[8:][:count].long()
        return TensorDataset(raw, labels)
    print("no Fashion-MNIST here: made-up images", flush=True)
    patterns = torch.rand(10, 784, generator=torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(1 if part == "train" else 2)
    labels = torch.randint(10, (count,), generator=generator)
    noise = torch.rand(count, 784, generator=generator)
    return TensorDataset(0.3 * patterns[labels] + 0.7 * noise, labels)


def _found(*names):
    paths = (os.path.join(folder, name) for folder in FOLDERS for name in names)
    return next((path for path in paths if os.path.exists(path)), None)


def _bytes(path):
    with gzip.open(path) as file:
        return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
