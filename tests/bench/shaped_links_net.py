"""Machines that are network namespaces, each behind a link of its own rate and delay (needs root).

Each machine has one link to a hub. The queue discipline tbf holds both directions of it to the
rate, and each packet from machine to machine passes the relay, which delays it.
"""

import json
import os
import socket
import statistics
import subprocess
import sys
import time

RELAY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "shaped_links_relay.py")
QUEUE_MS, BURST = 50, "70kb"  # of tbf: the longest packet of the kernel fits in
BUFFERS = "4096 131072 67108864"  # TCP's: a link of 1 Gbit/s and 40 ms holds 5 MB
MEASURE_S, PORT = 3, 6001


class Net:
    """So many machines; `with` removes them."""

    def __init__(self, machines, mbit, delay_ms):
        self.machines, self.mbit, self.delay_ms = machines, mbit, delay_ms
        self.hub = f"gv{os.getpid() % 100000}"
        self.relay = None

    def __enter__(self):
        try:
            self.__make()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def __make(self):
        ip("netns", "add", self.hub)
        self.__set(self.hub, "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0",
                   "net.ipv4.conf.default.rp_filter=0", "net.ipv4.conf.all.send_redirects=0")
        self.__start_relay()
        for k in range(self.machines):
            self.__machine(k)

    def __start_relay(self):
        command = [*self.__in(self.hub), "nice", "-n", "-10", sys.executable, RELAY, "relay",
                   str(self.delay_ms)]
        self.relay = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        if not self.relay.stdout.readline():
            raise RuntimeError("the relay did not start: is there /dev/net/tun?")
        ip("-n", self.hub, "link", "set", "relay", "up", "txqueuelen", "20000")
        ip("-n", self.hub, "route", "add", "default", "dev", "relay", "table", "100")

    def __machine(self, k):
        name, port, net = self.name(k), f"port{k}", f"10.78.{k}"
        ip("netns", "add", name)
        ip("-n", self.hub, "link", "add", port, "type", "veth", "peer", "name", "eth0",
           "netns", name)
        for where, device, end in ((self.hub, port, 1), (name, "eth0", 2)):
            ip("-n", where, "addr", "add", f"{net}.{end}/24", "dev", device)
            ip("-n", where, "link", "set", device, "up")
            run("tc", "-n", where, "qdisc", "add", "dev", device, "root", "tbf", "rate",
                f"{self.mbit}mbit", "burst", BURST, "latency", f"{QUEUE_MS}ms")
        ip("-n", name, "link", "set", "lo", "up")
        ip("-n", name, "route", "add", "default", "via", f"{net}.1")
        ip("-n", self.hub, "rule", "add", "iif", port, "lookup", "100")
        self.__set(name, f"net.ipv4.tcp_rmem={BUFFERS}", f"net.ipv4.tcp_wmem={BUFFERS}")

    def __set(self, where, *values):
        run(*self.__in(where), "sysctl", "-q", "-w", *values)

    @staticmethod
    def __in(name):
        return ["nsenter", f"--net=/run/netns/{name}"]

    def name(self, k):
        return f"{self.hub}-{k}"

    def inside(self, k):
        """Before a command: it runs on machine k, whose host name is its address."""
        name = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', self.address(k)]
        return [*self.__in(self.name(k)), *name]

    @staticmethod
    def address(k):
        return f"10.78.{k}.2"

    def sent_mb(self):
        """By all machines so far, with headers."""
        sent = 0
        for k in range(self.machines):
            told = run("ip", "-n", self.name(k), "-s", "-j", "link", "show", "eth0")
            sent += json.loads(told)[0]["stats64"]["tx"]["bytes"]
        return sent / 1e6

    def close(self):
        if self.relay:
            self.relay.kill()
            self.relay.wait()
        for name in [self.hub, *(self.name(k) for k in range(self.machines))]:
            if os.path.exists(f"/run/netns/{name}"):
                subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    def measure(self):
        """Of the links alone: Mbit/s of one stream, of one from each machine to the next at a time
        (the least), milliseconds there and back, and the relay's share of a core."""
        round_trip_ms = self.__streams([(0, 1)], "echo")[0]
        one = self.__streams([(0, 1)], "stream")[0]
        busy, began = self.__relay_s(), time.monotonic()
        ring = self.__streams([(k, (k + 1) % self.machines) for k in range(self.machines)],
                              "stream")
        share = (self.__relay_s() - busy) / (time.monotonic() - began)
        return one, min(ring), round_trip_ms, share

    def __streams(self, pairs, kind):
        script = os.path.abspath(__file__)
        ends = [subprocess.Popen([*self.inside(b), sys.executable, script, "take-" + kind],
                                 stdout=subprocess.PIPE, text=True) for _, b in pairs]
        for end in ends:
            end.stdout.readline()
        heads = [subprocess.Popen([*self.inside(a), sys.executable, script, "give-" + kind,
                                   self.address(b)], stdout=subprocess.PIPE, text=True)
                 for a, b in pairs]
        told = [process.communicate()[0] for process in heads + ends]
        return [float(text) for text in told if text.strip()]

    def __relay_s(self):
        with open(f"/proc/{self.relay.pid}/stat", encoding="ascii") as file:
            user, system = file.read().rsplit(")", 1)[1].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def run(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def ip(*words):
    run("ip", *words)


def take_stream():
    """Prints the Mbit/s that arrive, without the first second."""
    with socket.create_server(("", PORT)) as server:
        print("ready", flush=True)
        stream = server.accept()[0]
    block, taken, begin = bytearray(1 << 20), 0, None
    opened = time.monotonic()
    while count := stream.recv_into(block):
        now = time.monotonic()
        if begin is None and now > opened + 1:
            begin = now
        elif begin is not None:
            taken, last = taken + count, now
    print(8e-6 * taken / (last - begin))


def give_stream(address):
    with socket.create_connection((address, PORT)) as stream:
        block, end = bytes(1 << 18), time.monotonic() + 1 + MEASURE_S
        while time.monotonic() < end:
            stream.sendall(block)


def take_echo():
    with socket.create_server(("", PORT)) as server:
        print("ready", flush=True)
        stream = server.accept()[0]
    while data := stream.recv(100):
        stream.sendall(data)


def give_echo(address):
    """Prints the median of the milliseconds there and back."""
    times = []
    with socket.create_connection((address, PORT)) as stream:
        for _ in range(20):
            began = time.monotonic()
            stream.sendall(b"x")
            stream.recv(100)
            times.append(1e3 * (time.monotonic() - began))
    print(statistics.median(times))


if __name__ == "__main__":
    kinds = {"take-stream": take_stream, "give-stream": give_stream, "take-echo": take_echo,
             "give-echo": give_echo}
    kinds[sys.argv[1]](*sys.argv[2:])
