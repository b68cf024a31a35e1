#!/usr/bin/env python3
"""Asks a node for its status, as `grapevine ctl ADDR status` does, with the console protocol.

    python3 examples/status.py 127.0.0.1:7001
    python3 examples/status.py unix:/run/user/1000/node.sock members edges

A node uses Cap'n Proto on its control port (messages/control.capnp): each message is one Control
in the standard stream framing. A console sends `hello` with the purpose `console`, receives the
node's `hello`, and then sends one `consoleRequest` at a time. The answer is one `consoleReply`
after another until `more` is unset. Texts are JSON if the request succeeded (`ok`). This script
needs pycapnp (pip install pycapnp) and the schema in `messages/`. It connects to loopback and unix
sockets; other addresses need TLS with the run's key, which `grapevine ctl --key` supports.
"""
import json
import os
import socket
import struct
import sys

import capnp

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SITE = os.path.dirname(os.path.dirname(os.path.abspath(capnp.__file__)))  # has capnp/c++.capnp
control = capnp.load(ROOT + "/messages/control.capnp", imports=[ROOT, SITE, "/usr/include"])


class Console:
    def __init__(self, address, seconds=10):
        if address.startswith("unix:"):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(seconds)
            self.socket.connect(address[len("unix:") :])
        else:
            host, _, port = address.rpartition(":")
            self.socket = socket.create_connection((host.strip("[]"), int(port)), seconds)
        self.send(hello={"version": 3, "purpose": "console", "node": "script"})
        first = self.receive()
        if "hello" not in first:
            raise ConnectionError(first.get("refusal", "not a node"))
        self.node = first["hello"]["node"]

    def send(self, **message):
        self.socket.sendall(control.Control.new_message(**message).to_bytes())

    def read(self, size):
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise ConnectionError("the node closed the connection")
            data += more
        return data

    def receive(self):
        """One message: segments - 1, the words of each segment, padding to 8 bytes, the words."""
        head = self.read(4)
        segments = struct.unpack("<I", head)[0] + 1
        if segments > 512:
            raise ConnectionError("not a message of a node")
        rest = self.read(4 * segments + (4 if segments % 2 == 0 else 0))
        words = sum(struct.unpack("<%dI" % segments, rest[: 4 * segments]))
        if words > 8192:  # 64 KiB
            raise ConnectionError("not a message of a node")
        with control.Control.from_bytes(head + rest + self.read(8 * words)) as message:
            return message.to_dict()

    def ask(self, verb, argument=""):
        self.send(consoleRequest={"verb": verb, "argument": argument})
        text = ""
        while True:
            reply = self.receive()["consoleReply"]
            text += reply["text"]
            if not reply.get("more", False):
                return reply["ok"], text


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: status.py ADDRESS [NAME...], "
                 "for instance status.py 127.0.0.1:7001 members")
    try:
        ok, text = Console(sys.argv[1]).ask("status")
    except (OSError, ValueError) as error:
        sys.exit("%s: %s" % (sys.argv[1], error))
    if not ok:
        sys.exit(text)
    status = json.loads(text)
    for name in sys.argv[2:] or status:
        if name not in status:
            sys.exit('the status has no "%s", accepted: %s' % (name, " ".join(status)))
        print(name, json.dumps(status[name]))


if __name__ == "__main__":
    main()
