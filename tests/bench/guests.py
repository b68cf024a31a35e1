"""What a step costs a guest, without torch: the socket, the pass and the end of a script.

Usage: guests.py [PROGRAM]. Medians of interleaved rounds; read the ratios. The bars:
a step of a tiny model at most 3 times a question that needs no rank,
a step of 10 M parameters at most 3.5 times a copy of them, a seat free within 100 ms of SIGKILL.
"""
import ctypes
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
program = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/release/grapevine")
sys.argv[1:] = [program]
sys.path.insert(0, os.path.join(HERE, "..", "node"))
import guests_test as g  # noqa: E402

ROUNDS = 15


def timed(work, times):
    start = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - start) / times


def begun(node, numbers):
    script = node.script()
    text = "\ntrained w %d\n" % numbers
    script.send(g.record(g.JOIN, count=len(text)) + text.encode())
    welcome = script.read()
    script.front = g.mmap.mmap(welcome.fd, 4 * numbers)
    script.number = welcome.number
    if not welcome.flags & g.RESUMED:
        script.number = script.ask(g.STEP, number=welcome.number).number
    return script


def asked(script, kind):
    """One question and its answer, as bare as Python can."""
    buffer, question = bytearray(80), bytearray(g.record(kind))

    def ask():
        if kind == g.STEP:
            script.number += 1
            g.struct.pack_into("<Q", question, 32, script.number)
        script.socket.sendall(question)
        script.socket.recv_into(buffer, 80, g.socket.MSG_WAITALL)

    return ask


def rounds(parts, times):
    samples = [[] for _ in parts]
    for _ in range(ROUNDS):
        for k, part in enumerate(parts):
            samples[k].append(timed(part, times))
    return [1e6 * statistics.median(s) for s in samples]


def handshake():
    with g.Node(1) as node:
        script = begun(node, 4)
        step, bare = rounds([asked(script, g.STEP), asked(script, g.KEPT)], 2000)
        print("tiny model: step %.1f us, bare question %.1f us: %.2f times (bar 3)"
              % (step, bare, step / bare))


def large(numbers=10_000_000):
    with g.Node(1) as node:
        script = begun(node, numbers)
        source, target = (ctypes.create_string_buffer(4 * numbers) for _ in range(2))
        copy = lambda: ctypes.memmove(target, source, 4 * numbers)
        step, copied = rounds([asked(script, g.STEP), copy], 3)
        print("10 M: step %.2f ms, copy %.2f ms: %.2f times (bar 3.5)"
              % (step / 1e3, copied / 1e3, step / copied))


def kill():
    with g.Node(1) as node:
        founder = node.script()
        founder.begin(g.START)
        founder.close()
        took = []
        for _ in range(ROUNDS):
            holder = subprocess.Popen(
                [sys.executable, "-c",
                 "import sys; sys.path.insert(0, %r); sys.argv = ['', %r]\n"
                 "import guests_test as g, os\n"
                 "class Node: socket = %r\n"
                 "s = g.joins(type('N', (), {'script': lambda self: g.Script(Node)})())\n"
                 "child = os.fork(); print(child, flush=True) if child else None\n"
                 "import time; time.sleep(600)" % (os.path.join(HERE, "..", "node"), program,
                                                   node.socket)], stdout=subprocess.PIPE)
            child = int(holder.stdout.readline())
            start = time.perf_counter()
            holder.kill()
            g.joins(node).close()
            took.append(time.perf_counter() - start)
            os.kill(child, 9)
            holder.wait()
        print("seat free after SIGKILL, a child with the socket alive: %.1f ms, at most %.1f "
              "(bar 100)"
              % (1e3 * statistics.median(took), 1e3 * max(took)))


if __name__ == "__main__":
    handshake()
    large()
    kill()
