"""Processes, consoles, and machines that are network namespaces: what cluster.py is made of."""
import json
import os
import re
import signal
import struct
import subprocess
import tempfile
import threading
import time

PATIENCE_S = 90


def wait(what, holds, patience_s=PATIENCE_S):
    """Asks until it holds; returns what it gave."""
    end = time.monotonic() + patience_s
    while True:
        answer = holds()
        if answer:
            return answer
        if time.monotonic() > end:
            raise TimeoutError(f"in vain for {patience_s} s: {what}")
        time.sleep(0.02)


class Machines:
    """Namespaces on two switches with one cable between them; without root all is on loopback."""

    def __init__(self, count, left):
        self.real = os.geteuid() == 0 and self.__make(count, left)
        self.count = count
        if not self.real:
            print("  (no network namespaces here: all on loopback)")

    def __make(self, count, left):
        self.hub = f"gv{os.getpid() % 100000}"
        try:
            self.ip("netns", "add", self.hub)
            for k in (0, 1):
                self.ip("-n", self.hub, "link", "add", f"br{k}", "type", "bridge")
                self.ip("-n", self.hub, "link", "set", f"br{k}", "up")
            self.ip("-n", self.hub, "link", "add", "cable", "type", "veth",
                    "peer", "name", "cable2")
            for k, end in enumerate(("cable", "cable2")):
                self.ip("-n", self.hub, "link", "set", end, "master", f"br{k}", "up")
            for k in range(count):
                name, port = self.name(k), f"p{k}"
                self.ip("netns", "add", name)
                self.ip("-n", self.hub, "link", "add", port, "type", "veth", "peer", "name", "eth0",
                        "netns", name)
                self.ip("-n", self.hub, "link", "set", port, "master", f"br{int(k >= left)}", "up")
                self.ip("-n", name, "addr", "add", f"10.77.0.{k + 1}/24", "dev", "eth0")
                self.ip("-n", name, "link", "set", "eth0", "up")
                self.ip("-n", name, "link", "set", "lo", "up")
        except (subprocess.CalledProcessError, FileNotFoundError):
            self.close()
            return False
        return True

    @staticmethod
    def ip(*words):
        subprocess.run(["ip", *words], check=True, capture_output=True)

    def name(self, k):
        return f"{self.hub}-{k}"

    def inside(self, k):
        return ["nsenter", f"--net=/run/netns/{self.name(k)}"] if self.real else []

    def listen(self, k):
        return f"10.77.0.{k + 1}:0" if self.real else "127.0.0.1:0"

    def cable(self, on):
        self.ip("-n", self.hub, "link", "set", "cable", "up" if on else "down")

    def close(self):
        for name in [self.hub] + [self.name(k) for k in range(64)]:
            if os.path.exists(f"/run/netns/{name}"):
                subprocess.run(["ip", "netns", "del", name], capture_output=True)


class Node:
    """A `grapevine node`, or any other command, that is killed with the object."""

    def __init__(self, program, words, inside=(), key="", name=""):
        self.program, self.inside, self.key, self.name = program, list(inside), key, name
        self.lines, self.out = [], None  # (when, line) of standard error
        self.process = subprocess.Popen([*inside, program, *words], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.readers = [threading.Thread(target=self.__errors, daemon=True),
                        threading.Thread(target=self.__output, daemon=True)]
        for reader in self.readers:
            reader.start()

    def __errors(self):
        for line in self.process.stderr:
            self.lines.append((time.monotonic(), line.rstrip("\n")))

    def __output(self):
        self.out = self.process.stdout.read()

    def said(self, pattern, since=0):
        """When it first said it, after `since`; None: it has not."""
        for at, line in list(self.lines):
            if at >= since and re.search(pattern, line):
                return at
        return None

    def address(self):
        def listening():
            for _, line in list(self.lines):
                if "listening on " in line:
                    return line.split()[-1]
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.name} ended: {self.lines[-1:]}")
            return None
        return wait(f"{self.name} listens", listening)

    def ctl(self, *words, patience_s=10):
        key = ["--key", self.key] if self.key else []
        try:
            ran = subprocess.run([*self.inside, self.program, "ctl", self.address(), *words, *key],
                                 capture_output=True, text=True, timeout=patience_s)
        except subprocess.TimeoutExpired:  # it is asked again
            return None
        return ran.stdout if ran.returncode == 0 else None

    def status(self):
        text = self.ctl("status", "--json")
        return json.loads(text) if text else {}

    def gradients(self):
        return sum(self.status().get("gradients", [0]))

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def result(self, patience_s=PATIENCE_S):
        """Of a node that ends by itself."""
        self.process.wait(patience_s)
        for reader in self.readers:
            reader.join()
        if self.process.returncode != 0:
            raise RuntimeError(f"{self.name} ended with {self.process.returncode}: "
                               f"{self.lines[-3:]}")
        return json.loads(self.out)

    def cpu_s(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_mib(self):
        for line in open(f"/proc/{self.process.pid}/status"):
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        return 0


class Cluster:
    """Nodes n0, n1, ... of one run; the first listens, the others join it."""

    def __init__(self, program, nodes, ranks, more, machines=None, key="", out="", founding=True,
                 threads=1):
        self.threads = threads
        self.program, self.ranks, self.more, self.out = program, ranks, list(more), out
        self.machines, self.key, self.nodes = machines, key, []
        self.total = nodes * ranks if founding else 0
        for k in range(nodes):
            self.add(f"n{k}", k, first_rank=k * ranks)

    def add(self, name, machine=0, first_rank=None, more=()):
        words = ["node", f"--threads={self.threads}", "--json", f"--node-name={name}",
                 f"--ranks={self.ranks}", "--patience=60", *self.more, *more]
        if self.total:
            words.append(f"--total-ranks={self.total}")
        if first_rank is not None:
            words.append(f"--first-rank={first_rank}")
        inside = []
        if self.machines:
            inside = self.machines.inside(machine)
            words.append(f"--listen={self.machines.listen(machine)}")
        if self.key:
            words.append(f"--key={self.key}")
        elif any(w.startswith("--listen=") and "unix:" not in w for w in words):
            words.append("--no-key")
        words.append(f"--out={self.out}/{name}" if self.out else "--no-save")
        alive = [n for n in self.nodes if n.process.poll() is None]
        if alive:
            words.append("--join=" + ",".join(n.address() for n in alive[:4]))
        node = Node(self.program, words, inside, self.key, name)
        self.nodes.append(node)
        return node

    def together(self, ranks=None, patience_s=PATIENCE_S):
        ranks = ranks or self.total
        for n in self.nodes:
            if n.process.poll() is None:
                wait(f"{n.name} sees {ranks} ranks",
                     lambda n=n: n.status().get("graph_ranks") == ranks, patience_s)

    def rates(self, seconds):
        """Gradients per second of each living node."""
        alive = [n for n in self.nodes if n.process.poll() is None]
        first = [(time.monotonic(), n.gradients()) for n in alive]
        time.sleep(seconds)
        return {n.name: (n.gradients() - count) / (time.monotonic() - at)
                for n, (at, count) in zip(alive, first)}

    def stop(self):
        for n in self.nodes:
            if n.process.poll() is None and n.ctl("stop"):
                break
        return [n.result() for n in self.nodes if n.process.poll() is None or
                n.process.returncode == 0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for n in self.nodes:
            if n.process.poll() is None:
                n.signal(signal.SIGCONT)
            n.kill()


def state_of(status, node):
    for m in status.get("members", []):
        if m["node"] == node:
            return m["state"]
    return ""


def model_of(path):
    """All numbers of a .safetensors file of one type."""
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    wide = b'"F64"' in data[8:8 + size]
    body = data[8 + size:]
    return struct.unpack(f"<{len(body) // (8 if wide else 4)}{'d' if wide else 'f'}", body)


def mean_of(cluster, name):
    """The model that a node of it has written."""
    return model_of(f"{cluster.out}/{name}/model.safetensors")


def key_in(program, folder):
    path = f"{folder}/run.key"
    subprocess.run([program, "keygen", path], check=True, capture_output=True)
    return path


def edges_of(result):
    return {(i, j): n for i, j, n in result["exchanges_by_edge"]}


def scratch():
    return tempfile.TemporaryDirectory(prefix="grapevine-cluster-")
