"""Writes the files that torch.save makes, without torch, into the folder given.

torch.save is a pickle in which a tensor is a call of torch._utils._rebuild_tensor_v2 with a storage
that lies outside of it. Classes and functions of the same names make Python's own pickle module
write the same bytes.
"""
import argparse
import collections
import io
import os
import pickle
import struct
import sys
import types
import zipfile

folder = sys.argv[1]


def module(name):
    made = types.ModuleType(name)
    sys.modules[name] = made
    return made


def named(where, name):
    def function(*arguments):
        raise AssertionError("called")

    function.__module__, function.__qualname__, function.__name__ = where.__name__, name, name
    setattr(where, name, function)
    return function


torch, utils, numpy_core = module("torch"), module("torch._utils"), module("numpy.core.multiarray")
module("numpy"), module("numpy.core")
torch._utils = utils
rebuild = named(utils, "_rebuild_tensor_v2")
rebuild_third = named(utils, "_rebuild_tensor_v3")
rebuild_parameter = named(utils, "_rebuild_parameter")
rebuild_sparse = named(utils, "_rebuild_sparse_tensor")
scalar = named(numpy_core, "scalar")
dtype = named(torch, "uint16")
storages = {
    name: named(torch, name + "Storage")
    for name in ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte",
                 "Bool",
                 "ComplexFloat", "Untyped")
}
widths = {"Float": 4, "Double": 8, "Half": 2, "BFloat16": 2, "Long": 8, "Int": 4, "Short": 2,
          "Char": 1,
          "Byte": 1, "Bool": 1, "ComplexFloat": 8, "Untyped": 1}


class Storage:
    def __init__(self, kind, data):
        self.kind, self.data = kind, data


class Call:
    """What a pickle would have Python call."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


def tensor(kind, form, values, shape=None, strides=None, first=0):
    data = struct.pack("<%d%s" % (len(values), form), *values)
    shape = (len(values),) if shape is None else shape
    if strides is None:
        strides, step = [], 1
        for side in reversed(shape):
            strides.insert(0, step)
            step *= max(1, side)
    return Call(rebuild, Storage(kind, data), first, tuple(shape), tuple(strides), False,
                collections.OrderedDict())


class Pickler(pickle.Pickler):
    def __init__(self, file, protocol, legacy=False):
        super().__init__(file, protocol)
        self.kept, self.legacy = {}, legacy

    def persistent_id(self, value):
        if not isinstance(value, Storage):
            return None
        key = str(self.kept.setdefault(id(value), (len(self.kept), value))[0])
        more = (None,) if self.legacy else ()
        count = len(value.data) // widths[value.kind]
        return ("storage", storages[value.kind], key, "cpu", count) + more


def save(name, value, protocol=2, root="archive", packs=False):
    out = io.BytesIO()
    pickler = Pickler(out, protocol)
    pickler.dump(value)
    method = zipfile.ZIP_DEFLATED if packs else zipfile.ZIP_STORED
    with zipfile.ZipFile(os.path.join(folder, name), "w", method) as archive:
        archive.writestr(root + "/data.pkl", out.getvalue())
        for key, storage in pickler.kept.values():
            archive.writestr("%s/data/%d" % (root, key), storage.data)
        archive.writestr(root + "/version", "3\n")


def save_legacy(name, value):
    with open(os.path.join(folder, name), "wb") as file:
        pickle.dump(0x1950A86A20F9469CFC6C, file, 2)
        pickle.dump(1001, file, 2)
        pickle.dump({"protocol_version": 1001, "little_endian": True}, file, 2)
        pickler = Pickler(file, 2, True)
        pickler.dump(value)
        order = sorted(pickler.kept.values(), key=lambda entry: -entry[0])  # any order
        pickle.dump([str(key) for key, _ in order], file, 2)
        for _, storage in order:
            file.write(struct.pack("<q", len(storage.data) // widths[storage.kind]))
            file.write(storage.data)


def model():
    return collections.OrderedDict(
        [("fc.weight", tensor("Float", "f", [1, 2, 3, 4, 5, 6], (3, 2))),
         ("fc.bias", tensor("Float", "f", [7, 8, 9]))])


shared = Storage("Float", struct.pack("<6f", *range(6)))
kinds = {
    "half": tensor("Half", "e", [0.5, -2, 6e-8]),
    "brain": tensor("BFloat16", "H", [0x3F80, 0xC000]),
    "double": tensor("Double", "d", [0.1]),
    "int": tensor("Int", "i", [-3, 4]),
    "short": tensor("Short", "h", [-5]),
    "char": tensor("Char", "b", [-6]),
    "byte": tensor("Byte", "B", [200]),
    "bool": tensor("Bool", "B", [1, 0]),
    "long": tensor("Long", "q", [7], ()),
    "empty": tensor("Float", "f", [], (0, 4)),
    "turned": Call(rebuild, shared, 0, (3, 2), (1, 3), False, collections.OrderedDict()),
    "row": Call(rebuild, shared, 3, (3,), (1,), False, collections.OrderedDict()),
    "repeated": Call(rebuild, shared, 5, (4,), (0,), False, collections.OrderedDict()),
    "parameter": Call(rebuild_parameter, tensor("Float", "f", [11]), True,
                      collections.OrderedDict()),
    "third": Call(rebuild_third, Storage("Untyped", struct.pack("<2H", 65535, 1)), 0, (2,), (1,),
                  False, collections.OrderedDict(), dtype),
}
save("kinds.pt", kinds)
save("packed.pt", kinds, packs=True)
for protocol in range(1, 6):
    save("protocol%d.pt" % protocol, model(), protocol)
save_legacy("legacy.pt", {"optimizer": {0: tensor("Double", "d", [1, 2])}, "model": model()})
save("others.pt", {**model(), "complex": tensor("ComplexFloat", "f", [1, 2], (1,)),
                   "sparse": Call(rebuild_sparse, 1, 2)})


class Own:
    def __init__(self):
        self.learning_rate = 1e-3


Own.__module__, Own.__qualname__, torch.Own = "torch", "Own", Own
save("training.pt", {
    "state_dict": model(), "args": argparse.Namespace(lr=1), "epoch": 3, "own": Own(),
    "best": Call(scalar, "f8", b"\x00" * 8), "flags": {1, 2}, "frozen": frozenset([1]),
    "big": 1 << 70,
    "negative": -5, "bytes": b"xx" * 300, "nothing": None, "nested": [[(1, 2.5, "a")] * 3],
    "optimizer": {"state": {0: {"step": tensor("Float", "f", [3], ())}},
                  "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.999), "params": [0]}]}})
save("training4.pt", {"net": model(), "args": argparse.Namespace(lr=1), "rng": {"own": Own()}}, 4)
save("list.pt", [1, 2])
save("object.pt", Own())
save("nothing.pt", {"lr": 0.1})
save("two.pt", {"generator": model(), "critic": model()})
