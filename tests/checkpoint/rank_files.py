"""Opens every rank's file of the checkpoint given with the package safetensors, as a user would.

Exit status 77 where the package is not there."""
import glob
import json
import struct
import sys

try:
    from safetensors import deserialize
except ImportError:
    sys.exit(77)

files = sorted(glob.glob(sys.argv[1] + "/rank-*.safetensors"))
with open(sys.argv[1] + "/manifest.json") as file:
    ranks = json.load(file)["ranks"]
assert len(files) == len(ranks), files
for rank in ranks:
    with open("%s/%s" % (sys.argv[1], rank["file"]), "rb") as file:
        raw = file.read()
    length = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8 : 8 + length])
    header.pop("__metadata__", None)
    opened = dict(deserialize(raw))
    assert set(opened) == set(header) and "x" in opened
    for name, tensor in header.items():
        first, last = tensor["data_offsets"]
        assert opened[name]["dtype"] == tensor["dtype"], name
        assert opened[name]["shape"] == tensor["shape"], name
        assert bytes(opened[name]["data"]) == raw[8 + length + first : 8 + length + last], name
    print("safetensors opened %s: %d tensors" % (rank["file"], len(opened)))
