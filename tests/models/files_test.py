"""Opens model.safetensors and model.pt of the folder given, and says what it found.

Plain Python checks the structure; torch and safetensors, where they are installed, open the files
as a user would. The two files must hold the same tensors. Exit status 0: all is well.
"""
import json
import pickletools
import struct
import sys
import zipfile

folder = sys.argv[1]

with open(folder + "/model.safetensors", "rb") as file:
    raw = file.read()
length = struct.unpack("<Q", raw[:8])[0]
header = json.loads(raw[8 : 8 + length])
assert length % 8 == 0 and header.pop("__metadata__") == {"format": "pt"}
assert max(t["data_offsets"][1] for t in header.values()) == len(raw) - 8 - length

archive = zipfile.ZipFile(folder + "/model.pt")
assert archive.testzip() is None
pickle = archive.read("model/data.pkl")
names = {arg for op, arg, _ in pickletools.genops(pickle) if op.name == "GLOBAL"}
allowed = {"torch._utils _rebuild_tensor_v2", "collections OrderedDict"}
allowed |= {"torch %sStorage" % kind for kind in (
    "Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool")}
assert names <= allowed, names - allowed
strings = {arg for op, arg, _ in pickletools.genops(pickle) if op.name == "BINUNICODE"}
assert set(header) <= strings
for number, tensor in enumerate(header.values()):
    first, last = tensor["data_offsets"]
    stored = archive.read("model/data/%d" % number)
    assert stored == raw[8 + length + first : 8 + length + last], number
with open(folder + "/model.pt", "rb") as file:
    zipped = file.read()
for entry in archive.infolist():  # records that torch.load can map
    lengths_at = entry.header_offset + 26
    name_and_more = struct.unpack("<HH", zipped[lengths_at : lengths_at + 4])
    assert (entry.header_offset + 30 + sum(name_and_more)) % 64 == 0, entry.filename
print("structure good: %d tensors" % len(header))

try:
    import torch
except ImportError:
    print("SKIPPED: files_test.py: no torch here, so model.pt was not opened by it")
else:
    opened = torch.load(folder + "/model.pt", weights_only=True)
    assert list(opened) == list(header)
    for name, tensor in header.items():
        assert list(opened[name].shape) == tensor["shape"] and opened[name].is_contiguous()
        first, last = tensor["data_offsets"]
        stored = opened[name].flatten().view(torch.uint8).numpy().tobytes()
        assert stored == raw[8 + length + first : 8 + length + last]
    print("torch.load(weights_only=True) opened model.pt")
try:
    from safetensors import deserialize
except ImportError:
    print("SKIPPED: files_test.py: no safetensors here, so it did not open model.safetensors")
else:
    tensors = dict(deserialize(raw))
    assert set(tensors) == set(header)
    for name, tensor in header.items():
        first, last = tensor["data_offsets"]
        assert tensors[name]["shape"] == tensor["shape"]
        assert bytes(tensors[name]["data"]) == raw[8 + length + first : 8 + length + last]
    print("safetensors opened model.safetensors")
