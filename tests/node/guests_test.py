"""A node's socket for scripts, driven by plain Python: every record, scripts that die, and rubbish.

Usage: guests_test.py PROGRAM. No torch: what a script trains is an array here. The last line says
how many tests passed.
"""
import array
import contextlib
import fcntl
import glob
import json
import mmap
import os
import pty
import random
import re
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

PROGRAM = os.path.abspath(sys.argv.pop(1))
with open(PROGRAM, "rb") as program:
    SANITIZED = b"__asan_init" in program.read()
RECORD = struct.Struct("<16sHHHHIIQQQQdQ")
HEAD = struct.pack("<IIIHH", 0, 9, 0, 8, 0)
JOIN, WELCOME, REFUSED, STEP, FRONT, MEAN, KEEP, KEPT, FINISH, LEAVE, BYE, WAIT, CHECKPOINT, \
    SAVED, SHARE, REPORT = range(16)
RESUMED, END, NOT_FINITE, NOT_SAVED, HAS_ASIDE, OVER, MOVED, EMPTY, SEAT = (
    1 << k for k in range(9))
ANY = 0xFFFFFFFF
NAN = float("nan")
PATIENCE_S = 60
LAYOUT = "\ntrained w 2 2\ntrained scale\naside running 3\n"
TRAINED, ASIDE = 5, 3
SEALS = 0x1 | 0x2 | 0x4 | 0x8  # of a memfd: sealing, shrinking, growing, writing


class Refused(Exception):
    pass


class Answer:
    def __init__(self, fields, fd):
        (_, _, self.kind, self.flags, _, self.rank, self.ranks, self.number, self.run_steps,
         self.exchanges, self.count, self.value, self.epoch) = fields
        self.fd = fd


def record(kind, number=0, count=0, value=NAN, rank=ANY, version=2, flags=0, dtype=0, ranks=0,
           run_steps=0, exchanges=0):
    return RECORD.pack(HEAD, version, kind, flags, dtype, rank, ranks, number, run_steps,
                       exchanges, count, value, 0)


class Script:
    """A guest that speaks by hand."""

    def __init__(self, node):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE_S)
        self.socket.connect(node.socket)
        self.waits = 0

    def send(self, data, fd=None):
        if fd is None:
            self.socket.sendall(data)
        else:
            socket.send_fds(self.socket, [data], [fd])

    def read(self, waits=()):
        """The next answer that is no `wait`, or one of these. A `wait` comes once a second."""
        for _ in range(PATIENCE_S):
            data, fds = b"", []
            while len(data) < RECORD.size:
                more, came, _, _ = socket.recv_fds(self.socket, RECORD.size - len(data), 4)
                fds += came
                if not more:
                    raise ConnectionError("the node has hung up")
                data += more
            answer = Answer(RECORD.unpack(data), fds[0] if fds else None)
            if answer.kind == WAIT:
                self.waits += 1
                if WAIT in waits:
                    return answer
            elif answer.kind == REFUSED:
                text = b""
                while len(text) < answer.count:
                    text += self.socket.recv(answer.count - len(text))
                raise Refused(text.decode())
            else:
                if answer.kind == SAVED:
                    answer.text = self.socket.recv(answer.count, socket.MSG_WAITALL).decode()
                return answer
        raise TimeoutError("the node says that it takes longer, and no more")

    def ask(self, kind, fd=None, **fields):
        self.send(record(kind, **fields), fd)
        return self.read()

    def join(self, text=LAYOUT, rank=ANY, flags=0, gradients=0):
        join = record(JOIN, rank=rank, flags=flags, number=gradients, count=len(text.encode()))
        self.send(join + text.encode())
        welcome = self.read()
        self.front = mmap.mmap(welcome.fd, 4 * (TRAINED + ASIDE))
        os.close(welcome.fd)
        self.number = welcome.number
        return welcome

    def values(self):
        return list(array.array("f", self.front[:]))

    def fill(self, values):
        self.front[:] = array.array("f", values).tobytes()

    def step(self, change=None, loss=NAN, **share):
        if change is not None:
            self.fill([a + change for a in self.values()[:TRAINED]] + self.values()[TRAINED:])
        answer = self.ask(STEP, number=self.number + 1, value=loss, **share)
        self.number = answer.number
        return answer

    def begin(self, values, gradients=0):
        """As the first script of a node: the starting point."""
        welcome = self.join(gradients=gradients)
        assert not welcome.flags & RESUMED
        self.fill(values)
        return self.ask(STEP, number=welcome.number)

    def report(self, text, size=None):
        self.send(record(REPORT, count=len(text) if size is None else size) + text.encode())
        return self.read()

    def close(self):
        self.socket.close()


START = [1, 2, 3, 4, 5, 10, 20, 30]


class Node:
    def __init__(self, guests, *options, beside=None, descriptors=None):
        self.folder = tempfile.mkdtemp(prefix="grapevine-guests-")
        self.socket = os.path.join(self.folder, "scripts.sock")
        self.home = beside.home if beside else self.folder  # of local sockets
        self.err = open(os.path.join(self.folder, "err"), "w+")
        self.out = open(os.path.join(self.folder, "out"), "w+")
        self.process = subprocess.Popen(
            [PROGRAM, "node", "--guests", str(guests), "--door", self.socket, "--json", *options],
            stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.err, cwd=self.folder,
            preexec_fn=descriptors and (lambda: resource.setrlimit(
                resource.RLIMIT_NOFILE, (descriptors, descriptors))),
            env={**os.environ, "XDG_RUNTIME_DIR": self.home})
        until("the node listens", lambda: self.ended() or self.opened())
        assert not self.ended(), self.said()

    def status(self):
        """What `ctl` is told by a node named a."""
        done = subprocess.run([PROGRAM, "ctl", "a", "status", "--json"], capture_output=True,
                              env={**os.environ, "XDG_RUNTIME_DIR": self.home}, timeout=PATIENCE_S)
        return json.loads(done.stdout)

    def ctl(self, verb):
        return subprocess.run([PROGRAM, "ctl", "a", verb], capture_output=True, text=True,
                              env={**os.environ, "XDG_RUNTIME_DIR": self.home}, timeout=PATIENCE_S,
                              check=True).stdout

    def memory(self):
        """Bytes that it has touched."""
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    def most_memory(self):
        with open(f"/proc/{self.process.pid}/status") as file:
            return int(re.search(r"VmHWM:\s*(\d+) kB", file.read()).group(1)) << 10

    def opened(self):
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(self.socket) == 0

    def ended(self):
        return self.process.poll() is not None

    def said(self):
        self.err.flush()
        with open(self.err.name) as err:
            return err.read()

    def result(self):
        self.process.wait(PATIENCE_S)
        with open(self.out.name) as out:
            return json.loads(out.read())

    def script(self):
        return Script(self)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.err.close()
        self.out.close()


class Zoo:
    """A node named zoo with a rank of the program's own, which trains a linear model of a table."""

    def __init__(self, *options):
        self.folder = tempfile.TemporaryDirectory(prefix="grapevine-guests-")
        self.home = self.folder.name
        table = os.path.join(self.home, "table.csv")
        with open(table, "w") as rows:
            rows.write("a,b,c,class\n")
            for k in range(200):
                rows.write(f"{k % 7},{k % 5},{k % 3},{k % 2}\n")
        self.err = open(os.path.join(self.home, "err"), "w+")
        self.process = subprocess.Popen(
            [PROGRAM, "node", "--ranks", "1", "--model", "linear", "--dataset", table,
             "--gradients", "0", "--until", "600", "--node-name", "zoo", "--no-save", *options],
            stdin=subprocess.DEVNULL, stdout=self.err, stderr=self.err,
            env={**os.environ, "XDG_RUNTIME_DIR": self.home})

    def said(self):
        with open(self.err.name) as file:
            return file.read()

    def __enter__(self):
        until("the zoo trains",
              lambda: "ring of 1" in self.said() or self.process.poll() is not None)
        self.has_networks = "where LibTorch is found" not in self.said()
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.err.close()
        self.folder.cleanup()


def until(what, holds):
    end = time.monotonic() + PATIENCE_S
    while not (held := holds()):
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.005)
    return held


def joins(node, resumed=True, refusals=("no seat",)):
    """A script at a place that is about to become free; until then these are what it may hear."""
    def attempt():
        script = node.script()
        try:
            welcome = script.join()
        except Refused as why:
            assert any(reason in str(why) for reason in refusals), why
            script.close()
            return None
        assert bool(welcome.flags & RESUMED) == resumed
        return script
    return until("a seat is free", attempt)


def blob_of(data, seals=SEALS):
    fd = os.memfd_create("blob", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, data)
    fcntl.fcntl(fd, 1033, seals)
    return fd


class Records(unittest.TestCase):
    def test_the_first_script_brings_the_start_and_alone_a_rank_has_what_it_did_to_the_bit(self):
        with Node(1) as node:
            script = node.script()
            front = script.begin(START)
            self.assertEqual((front.kind, front.number), (FRONT, 0))
            self.assertEqual(script.values(), START)
            for k in range(1, 30):
                want = [random.uniform(-1, 1) for _ in range(TRAINED + ASIDE)]
                script.fill(want)
                made = script.front[:]
                front = script.step(loss=0.5)
                self.assertEqual((front.kind, front.number, front.flags), (FRONT, k, 0))
                self.assertEqual(script.front[:], made)
                self.assertGreaterEqual(front.value, 0)

    def test_a_script_is_told_how_far_the_run_is_by_the_steps_of_all_ranks_here(self):
        with Node(2) as node:
            first, second = node.script(), node.script()
            first.begin(START)
            second.join()
            for k in range(1, 6):
                self.assertEqual(first.step(change=1).run_steps, 2 * k - 1)
                self.assertEqual(second.step(change=1).run_steps, 2 * k)

    def test_a_number_that_was_taken_is_answered_and_not_repeated(self):
        with Node(1) as node:
            script = node.script()
            script.begin(START)
            script.step(change=1)
            script.fill([a + 1 for a in START])
            again = script.ask(STEP, number=1)
            self.assertEqual((again.kind, again.number), (FRONT, 1))
            self.assertEqual(script.step().number, 2)
            with self.assertRaisesRegex(Refused, "step 9, accepted: 3"):
                script.ask(STEP, number=9)

    def test_a_script_that_comes_next_hears_how_far_the_last_one_was_in_its_data(self):
        with tempfile.TemporaryDirectory() as folder:
            run = os.path.join(folder, "run")
            def share(script):
                answer = script.ask(SHARE)
                return answer.ranks, answer.run_steps, answer.count
            with Node(1, "--out", run) as node:
                script = node.script()
                script.begin(START)
                self.assertEqual(share(script), (0, 0, 0))
                script.step(ranks=77, run_steps=3, count=25)
                script.step()  # of a script that says nothing of it
                self.assertEqual(share(script), (77, 3, 25))
                script.ask(LEAVE)
                script = joins(node)
                self.assertEqual(share(script), (77, 3, 25))
                self.assertEqual(script.ask(CHECKPOINT).flags & NOT_SAVED, 0)
                node.process.kill()
                node.process.wait()
            with Node(1, "--out", run) as node:
                script = node.script()
                script.begin(START)
                self.assertEqual(share(script), (77, 3, 25))

    def test_a_script_hears_that_it_has_moved_its_parameters_and_made_no_step(self):
        with Node(1) as node:
            script = node.script()
            script.begin(START)
            self.assertEqual(script.ask(SHARE).flags, 0)
            script.fill([1, 2, 3, 4, 5.5, 10, 20, 30])
            self.assertEqual(script.ask(SHARE).flags, MOVED)
            script.step()
            self.assertEqual(script.ask(SHARE).flags, 0)
            script.fill([1, 2, 3, 4, 5.5, 11, 20, 30])  # what is aside is the script's own
            self.assertEqual(script.ask(SHARE).flags, 0)

    def test_what_is_not_finite_is_told_and_left_out(self):
        with Node(1) as node:
            script = node.script()
            script.begin(START)
            script.fill([NAN, 7, 7, 7, float("inf"), 0, 0, 0])
            self.assertEqual(script.step().flags, NOT_FINITE)
            self.assertEqual(script.values()[:TRAINED], [1, 7, 7, 7, 5])
            self.assertEqual(script.step().flags, 0)

    def test_two_scripts_gossip_and_both_hear_the_mean_at_the_end(self):
        with Node(2) as node:
            first = node.script()
            first.begin(START)
            second = node.script()
            welcome = second.join("\n" + LAYOUT[1:])
            self.assertTrue(welcome.flags & RESUMED)
            self.assertEqual((welcome.rank, welcome.ranks), (1, 2))
            self.assertEqual(second.values()[:TRAINED], START[:TRAINED])
            second.fill(second.values()[:TRAINED] + [0, 0, 0])
            def near():
                for script in (first, second):
                    answer = script.step()
                return answer.exchanges > 3 and abs(first.values()[0] - second.values()[0]) < 1e-3
            first.step(change=8)
            until("the ranks agree", near)
            mean = first.ask(MEAN)
            self.assertEqual((mean.kind, mean.ranks), (MEAN, 2))
            values = array.array("f", os.pread(mean.fd, mean.count, 0))
            self.assertEqual(len(values), TRAINED + ASIDE)
            for k in range(TRAINED):
                self.assertAlmostEqual(values[k], START[k] + 4, places=4)
            self.assertEqual(list(values[TRAINED:]), [5, 10, 15])
            first.send(record(FINISH))
            second.send(record(FINISH))
            ends = [script.read() for script in (first, second)]
            for end in ends:
                self.assertEqual((end.kind, end.ranks), (MEAN, 2))
                self.assertAlmostEqual(array.array("f", os.pread(end.fd, 4, 0))[0], 5, places=4)
            for script in (first, second):
                self.assertEqual(script.ask(LEAVE).kind, BYE)
            self.assertEqual(node.process.wait(PATIENCE_S), 0)
            self.assertEqual(node.result()["ranks"], 2)

    def test_before_the_first_steps_exchanges_go_by_steps_of_50_ms(self):
        """Twenty a second of both ranks: so many exchanges of their edge, and chi1 = 1 / 40."""
        with Node(2) as node:
            node.script().begin(START)
            epoch = until("an epoch", lambda: re.search("ring of 2, chi1 (.*?),", node.said()))
            self.assertEqual(epoch.group(1), "0.025")

    def test_a_blob_is_there_for_the_next_script_with_its_step(self):
        with Node(1) as node:
            script = node.script()
            script.begin(START)
            self.assertEqual(script.ask(KEPT).count, 0)
            script.step(change=1)
            kept = script.ask(KEEP, fd=blob_of(b"x" * 100000), number=1, count=100000)
            self.assertEqual(kept.kind, KEPT)
            self.assertEqual(script.ask(LEAVE).kind, BYE)
            script.close()
            script = joins(node)
            self.assertEqual(script.number, 1)
            self.assertEqual(script.values()[0], 2)
            kept = script.ask(KEPT)
            self.assertEqual((kept.number, kept.count), (1, 100000))
            self.assertEqual(os.pread(kept.fd, 200000, 0), b"x" * 100000)

    def test_a_rank_goes_on_after_a_kill_with_what_its_script_has_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            run = os.path.join(folder, "run")
            with Node(1, "--out", run) as node:
                script = node.script()
                script.begin(START)
                script.step(change=1)
                script.ask(KEEP, fd=blob_of(b"x" * 100000), number=1, count=100000)
                node.process.send_signal(signal.SIGUSR1)
                until("a checkpoint", lambda: glob.glob(run + "/checkpoints/*/manifest.json"))
            with Node(1, "--out", run) as node:
                script = node.script()
                script.begin([0] * (TRAINED + ASIDE))  # for the layout: the rank has its own
                self.assertEqual(script.values()[:TRAINED], [2, 3, 4, 5, 6])
                kept = script.ask(KEPT)
                self.assertEqual((kept.number, kept.count), (1, 100000))
                self.assertEqual(os.pread(kept.fd, 200000, 0), b"x" * 100000)

    def test_each_rank_goes_on_with_what_its_own_script_has_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            run = os.path.join(folder, "run")
            blobs = [b"of the first", b"of the second, longer"]
            with Node(2, "--out", run) as node:
                scripts = [node.script(), node.script()]
                scripts[0].begin(START)
                scripts[1].join()
                for k, (script, blob) in enumerate(zip(scripts, blobs)):
                    script.ask(KEEP, fd=blob_of(blob), number=k + 7, count=len(blob))
                self.assertEqual(scripts[1].ask(CHECKPOINT).flags & NOT_SAVED, 0)
            with Node(2, "--out", run) as node:
                scripts = [node.script(), node.script()]
                scripts[0].begin(START)
                scripts[1].join()
                for k, (script, blob) in enumerate(zip(scripts, blobs)):
                    kept = script.ask(KEPT)
                    self.assertEqual((kept.number, kept.count), (k + 7, len(blob)))
                    self.assertEqual(os.pread(kept.fd, 100, 0), blob)

    def test_a_script_asks_for_a_checkpoint_and_the_next_life_goes_on_from_it(self):
        with tempfile.TemporaryDirectory() as folder:
            run = os.path.join(folder, "run")
            with Node(1, "--out", run) as node:
                script = node.script()
                script.begin(START)
                script.step(change=1)
                script.ask(KEEP, fd=blob_of(b"mine"), number=1, count=4)
                saved = script.ask(CHECKPOINT)
                self.assertEqual((saved.kind, saved.flags & NOT_SAVED), (SAVED, 0))
                self.assertTrue(saved.text.startswith("checkpoint " + run + "/checkpoints/"))
                at = saved.text[len("checkpoint "):]
                for name in ("manifest.json", "rank-0.safetensors", "rank-0.kept"):
                    self.assertTrue(os.path.exists(os.path.join(at, name)), name)
                script.step(change=1)
                node.process.kill()
                node.process.wait()
            with Node(1, "--out", run) as node:
                script = node.script()
                script.begin([0] * (TRAINED + ASIDE))
                self.assertEqual(script.values()[:TRAINED], [2, 3, 4, 5, 6])

    def test_a_checkpoint_that_cannot_be_is_told_and_the_script_goes_on(self):
        with Node(1, "--no-save") as node:
            script = node.script()
            script.begin(START)
            saved = script.ask(CHECKPOINT)
            self.assertEqual((saved.kind, saved.flags & NOT_SAVED), (SAVED, NOT_SAVED))
            self.assertIn("no run directory", saved.text)
            self.assertEqual(script.step(change=1).number, 1)

    def test_a_script_that_waits_for_others_hears_so_until_it_has_its_answer(self):
        with Node(2) as node:
            first, second = node.script(), node.script()
            first.begin(START)
            second.join()
            first.send(record(FINISH))
            said = [first.read(waits=[WAIT]) for _ in range(2)]
            self.assertEqual([wait.kind for wait in said], [WAIT, WAIT])
            self.assertLess(said[0].value, said[1].value)
            self.assertGreater(said[1].value, 1.5)  # seconds in which it has heard two
            second.send(record(FINISH))
            self.assertEqual(first.read().kind, MEAN)

    def test_a_rank_that_has_done_its_share_says_end_and_takes_no_step_more(self):
        with Node(2, "--gradients", "6", "--share", "equal") as node:
            script = node.script()
            script.begin(START)
            node.script().join()  # which never steps: so the run is not over
            self.assertEqual([script.step(change=1).flags for _ in range(3)], [0, 0, END])
            front = script.step(change=1000)
            self.assertEqual((front.number, front.flags), (3, END))
            mean = array.array("f", os.pread(script.ask(MEAN).fd, 4, 0))[0]
            self.assertLess(mean, 100)

    def aside_of(self, script, kind=MEAN):
        mean = script.ask(kind)
        return list(array.array("f", os.pread(mean.fd, mean.count, 0)))[TRAINED:]

    def test_seats_whose_scripts_have_made_no_step_have_no_statistics_in_a_mean(self):
        with Node(4) as node:
            scripts = [node.script() for _ in range(3)]
            scripts[0].begin(START)
            for script in scripts[1:]:
                script.join()
            for script, aside in zip(scripts, ([1, 2, 3], [3, 4, 5])):
                script.fill(script.values()[:TRAINED] + aside)
                script.step()
            self.assertEqual(self.aside_of(scripts[2]), [2, 3, 4])

    def test_a_node_whose_scripts_have_made_no_step_gives_a_mean_no_statistics(self):
        with Node(1, "--node-name", "a") as a:
            first = a.script()
            first.begin(START)
            with Node(1, "--node-name", "b", "--join", "a", beside=a) as b:
                second = b.script()
                second.begin([9] * (TRAINED + ASIDE))
                first.fill(first.values()[:TRAINED] + [1, 2, 3])
                until("both know of two ranks", lambda: first.step().ranks == 2)
                def both():
                    mean = second.ask(MEAN)
                    self.values = list(array.array("f", os.pread(mean.fd, mean.count, 0)))[TRAINED:]
                    return mean.ranks == 2
                until("a mean of both", both)
                self.assertEqual(self.values, [1, 2, 3])

    def test_a_script_that_comes_back_has_what_was_aside_and_one_at_a_new_seat_its_own(self):
        with Node(2) as node:
            script = node.script()
            script.begin(START)
            script.fill(START[:TRAINED] + [7, 8, 9])
            script.step()
            script.ask(LEAVE)
            again = node.script()
            welcome = again.join(rank=0)
            self.assertEqual(welcome.flags, RESUMED | HAS_ASIDE)
            self.assertEqual(again.values(), START[:TRAINED] + [7, 8, 9])
            self.assertEqual(node.script().join(rank=1).flags, RESUMED)

    def test_masks_stay_what_they_are_and_fp64_is_averaged_in_fp64_at_one_node_and_at_two(self):
        layout = "\ntrained w\naside mask 2\naside64 count\ntied v w\n"
        inf = float("inf")
        def fill(script, count):
            script.front[:] = struct.pack("<4f1d", 1, -inf, 2, 0, count)
        class Wide(Script):
            def join(self, text=layout, rank=ANY, flags=0):
                self.send(record(JOIN, rank=rank, count=len(text)) + text.encode())
                welcome = self.read()
                self.front = mmap.mmap(welcome.fd, 24)
                self.number = welcome.number
                return welcome
        def mean_of(script):
            mean = script.ask(MEAN)
            self.assertEqual(mean.count, 24)
            return mean.ranks, struct.unpack("<4f1d", os.pread(mean.fd, 24, 0))
        with Node(1, "--node-name", "a") as a:
            first = Wide(a)
            first.join()
            fill(first, 16777217)
            first.ask(STEP)
            first.step()
            self.assertEqual(mean_of(first), (1, (1, -inf, 2, 0, 16777217)))
            with Node(1, "--node-name", "b", "--join", "a", beside=a) as b:
                second = Wide(b)
                second.join()
                fill(second, 16777220)
                second.number = second.ask(STEP, number=second.number).number
                second.step()
                def both():
                    self.mean = mean_of(second)
                    return self.mean[0] == 2
                until("a mean of both", both)
                self.assertEqual(self.mean[1], (1, -inf, 2, 0, 16777218.5))

    def test_a_model_is_saved_under_all_its_names_and_types(self):
        layout = "\ntrained w 2 2\ntrained none 0 3\naside n 2\naside64 c\ntied v w 2:1 2:2\n"
        with tempfile.TemporaryDirectory() as folder:
            run = os.path.join(folder, "run")
            with Node(1, "--out", run) as node:
                script = node.script()
                script.send(record(JOIN, count=len(layout)) + layout.encode())
                front = mmap.mmap(script.read().fd, 32)
                front[:] = struct.pack("<6f1d", 1, 2, 3, 4, 5, 6, 16777217)
                script.ask(STEP)
                script.ask(STEP, number=1)
                script.ask(FINISH)
                script.ask(LEAVE)
                self.assertEqual(node.process.wait(PATIENCE_S), 0, node.said())
            with open(run + "/model.safetensors", "rb") as file:
                head = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
                data = file.read()
            def tensor(name, code):
                first, last = head[name]["data_offsets"]
                return head[name]["shape"], struct.unpack(code, data[first:last])
            self.assertEqual(tensor("w", "<4f"), ([2, 2], (1, 2, 3, 4)))
            self.assertEqual(tensor("v", "<4f"), ([2, 2], (1, 3, 2, 4)))
            self.assertEqual(tensor("n", "<2f"), ([2], (5, 6)))
            self.assertEqual(tensor("c", "<1d"), ([], (16777217,)))
            self.assertEqual(tensor("none", "<0f"), ([0, 3], ()))

    def test_who_has_finished_hears_for_whom_it_waits(self):
        with Node(3) as node:
            first, second = node.script(), node.script()
            first.begin(START)
            second.join()
            second.send(record(FINISH))
            def waits(script):
                wait = script.read(waits=[WAIT])
                return wait.rank, wait.ranks, wait.flags
            self.assertEqual(waits(second), (0, 2, 0))
            first.send(record(FINISH))
            until("nobody is waited for but an empty seat",
                  lambda: waits(second) == waits(first) == (2, 1, EMPTY))

    def test_a_run_that_is_over_says_so_and_its_mean_is_there_at_once(self):
        with Node(1, "--gradients", "2") as node:
            script = node.script()
            script.begin(START)
            script.step(change=1)
            self.assertEqual(script.step(change=1).flags & END, END)
            until("the run is over", lambda: script.step(change=100).flags == END | OVER)
            script.front[:TRAINED * 4] = bytes(TRAINED * 4)  # what the script does is its own
            mean = script.ask(FINISH)
            self.assertEqual(list(array.array("f", os.pread(mean.fd, mean.count, 0))),
                             [3, 4, 5, 6, 7, 10, 20, 30])
            self.assertEqual(script.ask(LEAVE).kind, BYE)
            self.assertEqual(node.process.wait(PATIENCE_S), 0)

    def test_a_script_that_wants_a_seat_has_that_one_or_hears_that_it_is_taken(self):
        with Node(3) as node:
            first = node.script()
            first.join(rank=2, flags=SEAT)
            first.fill(START)
            self.assertEqual(first.ask(STEP).rank, 2)
            self.assertEqual(node.script().join(rank=0, flags=SEAT).rank, 0)
            with self.assertRaisesRegex(Refused, "seat 2 is not free, accepted: one of 0 to 2"):
                node.script().join(rank=2, flags=SEAT)

    def test_before_the_first_step_a_mean_has_aside_what_the_first_script_brought(self):
        with Node(1) as node:
            script = node.script()
            script.begin(START)
            mean = script.ask(MEAN)
            self.assertEqual(list(array.array("f", os.pread(mean.fd, mean.count, 0))), START)

    def test_who_comes_before_the_run_has_begun_waits_for_the_start_and_if_it_fails_brings_it(self):
        with Node(2) as node:
            founder, second = node.script(), node.script()
            founder.join()
            text = LAYOUT.encode()
            second.send(record(JOIN, count=len(text)) + text)
            self.assertEqual(second.read(waits=[WAIT]).kind, WAIT)
            founder.close()
            welcome = second.read()
            self.assertEqual((welcome.kind, welcome.flags), (WELCOME, 0))
            self.assertEqual(second.ask(STEP).number, 0)

    def test_a_node_that_is_interrupted_says_end_and_has_the_mean(self):
        with Node(1) as node:
            self.assertEqual(os.stat(node.socket).st_mode & 0o777, 0o600)
            script = node.script()
            script.begin(START)
            script.step(change=1)
            node.process.send_signal(signal.SIGINT)
            def ended():
                return script.step().flags & END
            until("the end is said", ended)
            mean = script.ask(FINISH)
            self.assertEqual(array.array("f", os.pread(mean.fd, 4, 0))[0], 2)
            script.ask(LEAVE)
            self.assertEqual(node.process.wait(PATIENCE_S), 0)
            self.assertFalse(os.path.exists(node.socket))


class Work(unittest.TestCase):
    def test_the_first_script_says_how_many_gradients_the_run_takes(self):
        with Node(2) as node:
            first, second = node.script(), node.script()
            self.assertEqual(first.begin(START, gradients=7).count, 7)
            self.assertEqual(second.join(gradients=7).count, 7)
            for k in range(1, 7):  # one takes more than the other
                answer = (first if k % 3 else second).step(change=1)
                self.assertEqual((answer.run_steps, answer.count, answer.flags), (k, 7, 0))
            self.assertEqual(second.step(change=1).flags & END, END)
            until("the other hears of it", lambda: first.step().flags & END)
            self.assertLessEqual(first.number + second.number, 8)
            for script in (first, second):
                script.send(record(FINISH))
            self.assertEqual([script.read().kind for script in (first, second)], [MEAN, MEAN])
            for script in (first, second):
                script.ask(LEAVE)
            self.assertIn(node.result()["gradients"], (7, 8))

    def test_another_number_of_gradients_than_the_run_has_is_refused_in_a_line(self):
        def refused(node, gradients):
            with self.assertRaises(Refused) as why:
                node.script().join(gradients=gradients)
            return str(why.exception)
        with Node(2) as node:
            self.assertEqual(refused(node, 1), "gradients is 1, accepted: from 2, one for each "
                                               "rank, to 9007199254740992")
            self.assertIn("to 9007199254740992", refused(node, 1 << 54))
            dying = node.script()
            dying.join(gradients=40)  # it dies before the run has begun
            dying.close()
            first = until("a seat", lambda: self.founder(node, 50))
            for other in (49, 51, 1 << 60):
                self.assertEqual(refused(node, other), f"gradients is {other}, accepted: 50, "
                                                       "as in this run, or none")
            self.assertEqual(node.script().join().count, 50)
            first.close()
        with Node(2, "--gradients", "30") as node:
            self.assertIn("accepted: 30, as in this run, or none", refused(node, 31))
            self.assertEqual(node.script().begin(START, gradients=30).count, 30)
        with Node(2) as node:
            self.assertEqual(node.script().begin(START).count, 0)
            self.assertEqual(refused(node, 30), "gradients is 30, accepted: none, because the "
                                                "first script of this run gave none")

    def founder(self, node, gradients):
        script = node.script()
        try:
            if script.join(gradients=gradients).flags & RESUMED:
                raise AssertionError("a run has begun")
        except Refused as why:
            self.assertIn("gradients is 50, accepted: 40 or none", str(why))
            return None
        script.fill(START)
        script.ask(STEP)
        return script

    def test_data_that_a_script_has_counted_are_the_work_of_a_run_that_had_none(self):
        with Node(2, "--node-name", "a") as node:
            first, second = node.script(), node.script()
            first.begin(START)
            second.join()
            first.step(change=1)
            share = second.ask(SHARE)
            self.assertEqual((share.number, share.value), (0, 1))
            self.assertEqual(first.ask(SHARE, number=6).number, 6)
            self.assertEqual(second.ask(SHARE, number=9).number, 6)  # the first holds
            self.assertEqual(second.step(change=1).count, 6)
            until("a third of it is told", lambda: node.status()["progress"] == 2 / 6)
            for _ in range(3):
                self.assertEqual(first.step(change=1).flags, 0)
            self.assertEqual(first.step(change=1).flags & END, END)
            self.assertEqual(first.ask(FINISH).kind, MEAN)  # the other stands still

    def test_a_step_holds_as_many_gradients_as_the_optimizer_has_made_steps(self):
        with Node(1, "--gradients", "10") as node:
            script = node.script()
            script.begin(START)
            answer = script.step(change=1, exchanges=4)
            self.assertEqual((answer.number, answer.run_steps, answer.count), (1, 4, 10))
            self.assertEqual(script.step(change=1, exchanges=4).flags, 0)
            answer = script.step(change=1, exchanges=2)
            self.assertEqual((answer.number, answer.flags & END), (3, END))
            script.ask(FINISH)
            script.ask(LEAVE)
            told = node.result()
            self.assertEqual((told["gradients"], told["gradients_by_rank"]), (10, [3]))
        with Node(1) as node:
            script = node.script()
            script.begin(START)
            with self.assertRaisesRegex(Refused, "a step of 1000001 optimizer steps, accepted: "
                                                 "at most 1000000"):
                script.step(exchanges=1000001)

    def test_what_the_steps_of_an_earlier_life_held_is_taken(self):
        with tempfile.TemporaryDirectory() as folder:
            run = os.path.join(folder, "run")
            with Node(1, "--out", run, "--gradients", "20") as node:
                script = node.script()
                script.begin(START)
                script.step(change=1, exchanges=4)
                script.step(change=1, exchanges=4)
                self.assertEqual(script.ask(CHECKPOINT).flags & NOT_SAVED, 0)
                node.process.kill()
                node.process.wait()
            with Node(1, "--out", run, "--gradients", "20") as node:
                script = node.script()
                script.number = script.begin(START).number
                self.assertEqual(script.step(change=1, exchanges=4).run_steps, 12)
                self.assertEqual(script.step(change=1, exchanges=4).flags, 0)
                self.assertEqual(script.step(change=1, exchanges=4).flags & END, END)

    def test_where_each_rank_has_a_share_there_is_no_pool_and_the_number_is_told(self):
        with Node(2, "--share", "equal", "--gradients", "6") as node:
            script = node.script()
            self.assertEqual(script.begin(START).count, 6)
            share = script.ask(SHARE, number=99)
            self.assertEqual(share.number, 6)
            self.assertNotEqual(share.value, share.value)

    def test_a_script_that_comes_when_the_run_is_over_has_its_mean_and_takes_no_step(self):
        with Node(2, "--gradients", "2") as node:
            first = node.script()
            first.begin(START)
            first.step(change=1)
            self.assertEqual(first.step(change=1).flags & END, END)
            self.assertEqual(first.ask(FINISH).kind, MEAN)
            late = node.script()
            welcome = late.join()
            self.assertEqual(welcome.flags & (RESUMED | END | OVER), RESUMED | END | OVER)
            for value, start in zip(late.values()[:TRAINED], START):
                self.assertAlmostEqual(value, start + 1, places=4)  # of two ranks
            self.assertEqual(late.step(change=100).flags, END | OVER)
            mean = late.ask(FINISH)
            self.assertAlmostEqual(array.array("f", os.pread(mean.fd, 4, 0))[0], 2, places=4)
            with self.assertRaisesRegex(Refused, "w .2, 3. where this run has"):
                node.script().join("\ntrained w 2 3\n")
            for script in (first, late):
                script.ask(LEAVE)
            self.assertEqual(node.result()["gradients"], 2)


class Nodes(unittest.TestCase):
    def test_a_script_on_another_node_is_a_newcomer_and_takes_over_what_the_run_has(self):
        with Node(1, "--node-name", "a") as a:
            first = a.script()
            first.begin(START)
            first.step(change=4)
            with Node(1, "--node-name", "b", "--join", "a", beside=a) as b:
                second = b.script()
                front = second.begin([100] * (TRAINED + ASIDE))
                self.assertEqual(front.number, 1)  # the source's
                self.assertEqual(second.values()[:TRAINED], [5, 6, 7, 8, 9])
                def both():
                    return second.step().ranks == 2 and first.step().ranks == 2
                until("both know of two ranks", both)
                answer = first.step()  # the other is taken to have made as many
                self.assertEqual(answer.run_steps, 2 * answer.number)
                def gossip():
                    return min(first.step().exchanges, second.step().exchanges) > 3
                until("they gossip", gossip)
                for script in (first, second):
                    script.send(record(FINISH))
                means = [script.read() for script in (first, second)]
                self.assertEqual([m.ranks for m in means], [2, 2])
                bits = {os.pread(m.fd, 4 * (TRAINED + ASIDE), 0) for m in means}
                self.assertEqual(len(bits), 1)
                aside = array.array("f", bits.pop())[TRAINED:]
                self.assertEqual(list(aside), [55, 60, 65])  # of both nodes' scripts
                for script in (first, second):
                    script.ask(LEAVE)
                self.assertEqual(b.process.wait(PATIENCE_S), 0)
            self.assertEqual(a.process.wait(PATIENCE_S), 0)

    def test_a_script_may_ask_for_a_rank_by_its_number_in_the_run(self):
        with Node(1, "--node-name", "a") as a:
            first = a.script()
            first.begin(START)
            with Node(1, "--node-name", "b", "--join", "a", beside=a) as b:
                second = b.script()
                second.begin(START)
                until("both know of two ranks", lambda: second.step().ranks == 2)
                second.ask(LEAVE)
                second.close()
                until("the seat is free", lambda: "has left" in b.said())
                with self.assertRaisesRegex(Refused, "rank 0 is not free, accepted: one of 1 to 1"):
                    b.script().join(rank=0)
                self.assertEqual(b.script().join(rank=1).rank, 1)

    # As large as LAYOUT is.
    LINEAR = "\ntrained fc.weight 2 3\ntrained fc.bias 2\n"

    def test_a_script_and_a_rank_of_the_zoo_train_one_model(self):
        with Zoo() as zoo:
            if not zoo.has_networks:
                return print("SKIPPED: a script beside a rank of the zoo: "
                             "this build has no LibTorch")
            with Node(1, "--node-name", "b", "--join", "zoo", beside=zoo) as other:
                script = other.script()
                script.join("\ntrained fc.weights 2 3\ntrained fc.bias 2\n")
                with contextlib.suppress(ConnectionError, Refused):
                    script.ask(STEP)
                self.assertNotEqual(other.process.wait(PATIENCE_S), 0)
                self.assertIn("8 parameters: fc.weight [2, 3] and 1 more", other.said())
                self.assertIn("8 parameters: fc.weights [2, 3] and 1 more", other.said())
            with Node(1, "--node-name", "c", "--join", "zoo", beside=zoo) as node:
                script = node.script()
                script.join(self.LINEAR)
                script.fill([1000] * 8)
                front = script.ask(STEP, number=script.number)
                self.assertLess(max(map(abs, script.values())), 100)  # those of the run
                self.assertNotIn("accepted", node.said())
                self.assertGreater(front.number, 0)
                until("they gossip", lambda: script.step().exchanges > 10)

    def test_a_sum_of_gradients_and_of_steps_is_refused_where_scripts_and_the_zoo_would_mix(self):
        with Zoo("--method", "all_reduce") as zoo:
            if not zoo.has_networks:
                return print("SKIPPED: scripts under all_reduce beside a rank of the zoo: "
                             "this build has no LibTorch")
            with Node(1, "--node-name", "b", "--join", "zoo", beside=zoo) as node:
                script = node.script()
                script.join(self.LINEAR)  # the same layout
                with contextlib.suppress(ConnectionError, Refused):
                    script.ask(STEP)
                self.assertNotEqual(node.process.wait(PATIENCE_S), 0)
                self.assertIn("all_reduce of 8 parameters", node.said())
                self.assertIn("whose steps scripts compute", node.said())

    ALSO = {"choco": ["--compress", "top-k:0.5", "--gamma", "0.4"],
            "deepsqueeze": ["--compress", "sign", "--gamma", "0.4"],
            "d2": ["--weights", "lazy"]}
    # mean_estimation relays what its ranks began with, relaysgd_async averages what has come so
    # far, and moniqua knows differences up to its theta only: what a mean holds is theirs to say.
    OWN_MEAN = ("mean_estimation", "relaysgd_async", "moniqua")

    def test_every_method_takes_the_steps_of_scripts_and_all_but_three_keep_their_sum(self):
        listed = subprocess.run([PROGRAM, "methods", "--json"], capture_output=True, text=True,
                                check=True)
        methods = [method["name"] for method in json.loads(listed.stdout)]
        self.assertLessEqual({*self.ALSO, *self.OWN_MEAN}, set(methods))
        for method in methods:
            also = self.ALSO.get(method, [])
            with self.subTest(method), \
                    Node(2, "--method", method, "--topology", "chain", *also) as node:
                scripts = [node.script(), node.script()]
                scripts[0].begin(START)
                scripts[1].join()
                for _ in range(20):  # in rounds each waits for the other
                    for k, script in enumerate(scripts):
                        script.fill([a + k for a in script.values()])
                        script.send(record(STEP, number=script.number + 1))
                    for script in scripts:
                        script.number = script.read().number
                for script in scripts:
                    self.assertEqual(script.number, 20)
                    self.assertEqual(script.ask(SHARE).flags, 0)  # nothing has moved since
                for script in scripts:
                    script.send(record(FINISH))
                means = [array.array("f", os.pread(script.read().fd, 4 * TRAINED, 0))
                         for script in scripts]
                self.assertEqual(means[0], means[1])
                if method in self.OWN_MEAN:
                    continue
                for k in range(TRAINED):
                    self.assertAlmostEqual(means[0][k], START[k] + 10, places=3)


class Options(unittest.TestCase):
    def test_what_makes_no_sense_with_guests_is_refused_in_a_line_and_status_2(self):
        for words, line in (
            (["node", "--guests", "65"], "guests is 65, accepted: from 0 to 64"),
            (["node", "--guests", "-1"], "guests is -1"),
            (["node", "--door", "x"], 'door is "x" without guests'),
            (["node", "--guests", "2", "--objective", "quadratic"], "no objective with guests"),
            (["launch", "--guests", "2"], "launch --guests N -- COMMAND"),
            (["launch", "--", "true"], "a command behind -- without guests"),
            (["node", "--guests", "1", "--door", "/tmp/" + "x" * 200], "accepted: 1 to 107"),
        ):
            done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(line, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)

    def test_ctl_says_who_sits_where(self):
        with Node(2, "--node-name", "a") as node:
            script = node.script()
            script.begin(START)
            script.step(change=1)
            status = node.status()
            self.assertIsNone(status["progress"])  # it has no end
            guests = status["guests"]
            self.assertEqual(guests["door"], node.socket)
            self.assertEqual([s["process"] for s in guests["scripts"]], [os.getpid(), 0])
            self.assertEqual([s["steps"] for s in guests["scripts"]], [1, 0])
            script.close()
            until("nobody sits there",
                  lambda: node.status()["guests"]["scripts"][0]["process"] == 0)

    def test_what_a_script_reports_is_in_the_status_the_metrics_and_the_curves_of_the_run(self):
        with Node(2, "--node-name", "a", "--out", "run", "--tensorboard", "--sample-seconds", "0.1"
                  ) as node:
            script = node.script()
            script.begin(START)
            script.step(change=1)
            self.assertEqual(script.report("val_loss 0.25\naccuracy 0.5\n").kind, REPORT)
            script.step(change=1)
            self.assertEqual(script.report("val_loss 0.125").kind, REPORT)
            first, second = node.status()["guests"]["scripts"]
            self.assertEqual(first["reported"], {"accuracy": {"value": 0.5, "steps": 1},
                                                 "val_loss": {"value": 0.125, "steps": 2}})
            self.assertEqual(second["reported"], {})
            page = node.ctl("metrics")
            self.assertIn('grapevine_reported{rank="0",name="val_loss"} 0.125\n', page)
            self.assertIn('grapevine_reported{rank="0",name="accuracy"} 0.5\n', page)
            lines = os.path.join(node.folder, "run", "metrics.jsonl.part")
            def told():
                with open(lines) as file:
                    rows = [json.loads(line) for line in file.read().split("\n")[:-1]]
                found = {}
                for row in rows:
                    if "reported" in row:
                        self.assertEqual(row["rank"], 0)
                        found.update(row["reported"])
                return found
            until("both are in the run's folder",
                  lambda: told() == {"val_loss": 0.125, "accuracy": 0.5})
            events = os.path.join(node.folder, "run", "tensorboard", "rank-0", "*")
            def in_events():
                with open(glob.glob(events)[0], "rb") as file:
                    return b"val_loss" in file.read()
            until("it is in the events of its rank", in_events)

    def test_a_script_that_comes_next_reports_anew_and_a_report_is_bounded(self):
        with Node(1, "--node-name", "a") as node:
            script = node.script()
            script.begin(START)
            script.report("".join(f"n{k} {k}\n" for k in range(8)))
            script.report("n3 7")
            with self.assertRaisesRegex(Refused, "9 names reported by one script, .*: at most 8"):
                script.report("another 1")
            reported = lambda: node.status()["guests"]["scripts"][0]["reported"]
            self.assertEqual(len(reported()), 8)
            self.assertEqual(reported()["n3"]["value"], 7)
            for text, why in (("a nan", "no finite number"), ("A 1", "no name"), ("", "no name")):
                with self.assertRaisesRegex(Refused, "report refused: line 1: " + why):
                    joins(node).report(text)
            with self.assertRaisesRegex(Refused, "bytes of text 513, accepted: at most 512"):
                joins(node).report("", size=513)
            joins(node).report("another 1")
            self.assertEqual(list(reported()), ["another"])

    def test_ctl_tells_the_mean_of_the_losses_that_scripts_told_and_not_of_steps_without_one(self):
        with Node(1, "--node-name", "a") as node:
            script = node.script()
            script.begin(START)
            def loss():
                for told in (0.5, NAN, 0.5, NAN):
                    script.step(loss=told)
                return node.status()["loss"]
            until("the mean of what was told", lambda: loss() == 0.5)


class Refusals(unittest.TestCase):
    def refusal(self, node, data, fd=None, prepare=lambda script: None):
        script = node.script()
        prepare(script)
        with self.assertRaises(Refused) as refused:
            script.send(data, fd)
            script.read()
        self.assertNotIn("\n", str(refused.exception))
        with self.assertRaises((ConnectionError, Refused)):
            script.ask(MEAN)
        script.close()
        return str(refused.exception)

    def test_seats_layouts_ranks_and_runs_that_there_are_not(self):
        with Node(1, "--run-name", "mine") as node:
            script = node.script()
            script.begin(START)
            def join(text, rank=ANY):
                return record(JOIN, rank=rank, count=len(text)) + text.encode()
            self.assertIn("no seat is free: all 1", self.refusal(node, join(LAYOUT)))
            self.assertIn('run "mine", not of "yours"', self.refusal(node, join("yours" + LAYOUT)))
            other = self.refusal(node, join("\ntrained w 2 3\n"))
            self.assertIn("6 parameters in 1 tensors", other)
            self.assertIn("w [2, 3] where this run has w [2, 2]", other)
            aside = self.refusal(node, join(LAYOUT.replace("running 3", "running 4")))
            self.assertIn("running [4] where this run has running [3]", aside)
            self.assertIn("rank 7 is not free", self.refusal(node, join(LAYOUT, 7)))
            script.step(change=1)
            script.close()
            self.assertEqual(joins(node).number, 1)

    def test_rubbish_is_refused_in_a_line_and_the_node_goes_on(self):
        with Node(1) as node:
            refused = lambda data, **more: self.refusal(node, data, **more)
            self.assertIn("malformed", refused(b"\xff" * RECORD.size))
            self.assertIn("version 1, accepted: 2", refused(record(JOIN, version=1)))
            self.assertIn("kind 77", refused(record(77)))
            self.assertIn("dtype 1", refused(record(JOIN, dtype=1)))
            self.assertIn("flags 512", refused(record(JOIN, flags=512)))
            self.assertIn("the first request must be a join", refused(record(STEP)))
            self.assertIn("accepted: a question", refused(record(WELCOME)))
            self.assertIn("bytes of text", refused(record(JOIN, count=1 << 40)))
            self.assertIn("layout refused", refused(record(JOIN, count=4) + b"\nx y"))
            self.assertIn("nothing is trained", refused(record(JOIN)))
            join = lambda script: script.join()
            self.assertIn("the run has not begun", refused(record(MEAN), prepare=join))
            self.assertIn("before the starting point", refused(record(STEP, 5), prepare=join))
            def not_finite(script):
                script.join()
                script.fill([NAN] * (TRAINED + ASIDE))
            self.assertIn("not finite", refused(record(STEP), prepare=not_finite))
            begin = lambda script: script.begin(START)
            self.assertIn("keep without", refused(record(KEEP, count=9), prepare=begin))
            again = lambda script: joined.append(joins(node))
            joined = []
            again(None)
            joined[0].step(change=1)
            joined[0].send(record(KEEP, number=1, count=3), blob_of(b"abc", seals=0))
            with self.assertRaisesRegex(Refused, "sealed"):
                joined[0].read()
            for count, seals in ((4, SEALS), (2, SEALS), (3, SEALS & ~0x8)):  # too few, many; open
                again(None)
                with self.assertRaisesRegex(Refused, "a memfd of the size that is told, sealed"):
                    joined[-1].ask(KEEP, fd=blob_of(b"abc", seals), number=1, count=count)
            rng = random.Random(1)
            for _ in range(200):
                with contextlib.suppress(Refused, OSError), contextlib.closing(node.script()) as s:
                    s.socket.settimeout(0.02)
                    good = record(JOIN, count=len(LAYOUT)) + LAYOUT.encode()
                    noise = rng.randbytes(rng.randrange(300))
                    data = bytearray(good if rng.random() < 0.7 else noise)
                    for _ in range(rng.randrange(4)):
                        if data:
                            data[rng.randrange(len(data))] = rng.randrange(256)
                    s.send(bytes(data[:rng.randrange(len(data) + 1)]))
                    s.read()
            script = joins(node)
            self.assertEqual(script.step().kind, FRONT)
            self.assertFalse(node.ended(), node.said())


class Divergence(unittest.TestCase):
    """Of two scripts of a node one goes wrong: the other trains on, and the mean is its own."""

    def two(self, node):
        wrong, sound = node.script(), node.script()
        wrong.begin(START)
        sound.join()
        for script in (wrong, sound) * 60:  # until the guards know usual steps
            script.step(change=0.01, loss=1.0)
        return wrong, sound

    def finished(self, node, scripts):
        """The mean that each gets, and the node's result."""
        for script in scripts:
            script.send(record(FINISH))
        answers = [script.read() for script in scripts]
        for answer in answers:
            with mmap.mmap(answer.fd, 0, prot=mmap.PROT_READ) as memory:
                answer.mean = list(array.array("f", memory[:4 * TRAINED]))
        for script in scripts:
            script.close()
        return answers, node.result()

    def test_a_rank_that_is_far_from_all_others_is_in_no_mean_and_ends_no_run(self):
        for once in (True, False):
            words = ("--gradients", "0", "--sample-seconds", "0.05")
            with self.subTest(once=once), Node(2, *words) as node:
                wrong, sound = self.two(node)
                wrong.fill([1e30] * TRAINED + START[TRAINED:])
                wrong.step()
                def told():
                    sound.step(change=0.01, loss=1.0)
                    wrong.step(change=None if once else 1e30, loss=1.0)
                    return "it is in no mean until" in node.said()
                until("the rank is told to be apart", told)
                for _ in range(100):
                    told()
                self.assertLess(max(map(abs, sound.values()[:TRAINED])), 100)
                answers, result = self.finished(node, (wrong, sound))
                self.assertFalse(result["diverged"], node.said())
                self.assertEqual(node.process.returncode, 0, node.said())
                for answer in answers:
                    self.assertEqual(answer.ranks, 1)
                    self.assertLess(max(map(abs, answer.mean)), 100)

    def test_losses_that_no_script_can_have_end_no_run(self):
        with Node(2, "--gradients", "0", "--sample-seconds", "0.05") as node:
            wrong, sound = self.two(node)
            for loss in (1e308, 1e308, -1e308, float("inf"), NAN) * 20:
                self.assertEqual(wrong.step(change=0.01, loss=loss).kind, FRONT)
                self.assertEqual(sound.step(change=0.01, loss=1.0).kind, FRONT)
            _, result = self.finished(node, (wrong, sound))
            self.assertFalse(result["diverged"], node.said())
            self.assertEqual(node.process.returncode, 0, node.said())


class Socket(unittest.TestCase):
    def test_sixty_four_scripts_are_served_and_one_more_when_one_has_gone(self):
        with Node(1) as node:
            founder = node.script()
            founder.join()  # and does not fill its front yet: the others wait for that
            def waits():
                script = node.script()
                script.send(record(JOIN, count=len(LAYOUT)) + LAYOUT.encode())
                self.assertEqual(script.read(waits=(WAIT,)).kind, WAIT)
                return script
            others = [node.script() for _ in range(63)]
            for script in others:
                script.send(record(JOIN, count=len(LAYOUT)) + LAYOUT.encode())
            for script in others:
                self.assertEqual(script.read(waits=(WAIT,)).kind, WAIT)
            with self.assertRaisesRegex(Refused, "64 scripts are connected already"):
                node.script().read()
            others[5].close()
            def served():
                try:
                    return waits()
                except (Refused, ConnectionError) as why:
                    return None
            until("there is room again", served)
            founder.fill(START)
            self.assertEqual(founder.ask(STEP, number=0).number, 0)
            self.assertEqual(founder.step(change=1).number, 1)

    def test_who_says_nothing_is_let_go_of_and_scripts_leave_descriptors_for_the_operator(self):
        with Node(1, "--node-name", "a", descriptors=64) as node:
            founder = node.script()
            founder.begin(START)
            until("the run has begun", lambda: "epoch " in node.said())
            silent = [node.script() for _ in range(40)]
            self.assertEqual(node.status()["node"], "a")
            said = set()
            for script in silent:
                with self.assertRaises((Refused, ConnectionError)) as why:
                    script.read()
                said.add(str(why.exception))
            self.assertIn("no join in 5 s", said)
            self.assertIn("8 scripts are connected already with 64 descriptors (ulimit -n)", said)
            self.assertEqual(founder.step(change=1).number, 1)

    def test_a_question_that_comes_byte_by_byte_is_let_go_of(self):
        with Node(1, "--node-name", "a", descriptors=64) as node:
            founder = node.script()
            founder.begin(START)
            begun = record(JOIN, rank=ANY, count=len(LAYOUT))
            slow = {node.script().socket: begun[:k] for k in (1, 40, len(begun))}
            for script, part in slow.items():
                script.sendall(part)
            end = time.monotonic() + PATIENCE_S
            while slow:
                self.assertLess(time.monotonic(), end, "a slow question still holds its place")
                for script in select.select(slow, [], [], 0.3)[0]:
                    self.assertEqual(script.recv(1), b"")
                    del slow[script]
                for script in slow:
                    with contextlib.suppress(OSError):
                        script.send(b"\0")
            self.assertEqual(founder.step(change=1).number, 1)

    def test_another_user_is_refused_although_the_file_would_let_it_in(self):
        if os.geteuid() != 0:
            return print("SKIPPED: another user: only root can be one")
        program = (
            "import os, socket, sys\n"
            "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
            "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n"
            "print(s.recv(1000)[80:].decode())\n")
        with Node(1) as node:
            os.chmod(node.folder, 0o711)
            os.chmod(node.socket, 0o666)
            done = subprocess.run([sys.executable, "-c", program, node.socket], text=True,
                                  capture_output=True, timeout=PATIENCE_S)
            self.assertEqual(done.stdout, "this node is another user's\n", done.stderr)

    def test_memory_that_a_script_only_announces_is_not_touched_and_must_be_there(self):
        with Node(1) as node:
            with open("/proc/meminfo") as file:
                left = int(re.search(r"MemAvailable: +(\d+)", file.read())[1]) << 10
            before = node.memory()

            def refusal(numbers):
                script = node.script()
                text = "\ntrained w %d\n" % numbers
                with self.assertRaises(Refused) as refused:
                    script.send(record(JOIN, count=len(text)) + text.encode())
                    script.read()
                    self.assertLess(node.memory() - before, 1 << 28)
                    script.ask(STEP, number=0)
                script.close()
                self.assertLess(node.memory() - before, 1 << 28)
                return str(refused.exception)

            for numbers, answer in ((min(left // 4, 1 << 34), "bytes of memory, of which"),
                                    (1 << 27, "pages were never written")):
                # Until the node has seen the end of the last script, the run has its layout.
                until(answer, lambda: answer in refusal(numbers))
            script = joins(node, resumed=False, refusals=("a layout of",))
            script.fill(START)
            self.assertEqual(script.ask(STEP, number=0).number, 0)
            self.assertEqual(script.step(change=1).number, 1)

    def test_half_sent_layouts_of_many_take_little_memory_and_keep_no_script_out(self):
        def sends_half(script):
            half = record(JOIN, count=16 << 20) + bytes(15 << 20)
            with contextlib.suppress(OSError):  # it is refused meanwhile
                script.send(half)
        if SANITIZED:
            return print("SKIPPED: the memory of half-sent layouts: the sanitizer keeps some")
        with Node(1) as node:
            before = node.memory()
            scripts = [node.script() for _ in range(60)]
            sending = [threading.Thread(target=sends_half, args=(script,)) for script in scripts]
            for thread in sending:
                thread.start()
            honest = node.script()
            honest.begin(START)
            self.assertEqual(honest.step(change=1).number, 1)
            for thread in sending:
                thread.join()
            more = (node.most_memory() - before) >> 20
            print("%d MiB of 60 half-sent layouts of 16 MiB" % more)
            self.assertLess(more, 100)
            honest.ask(LEAVE)
            long = LAYOUT + "".join("tied %s w 2 2 2 1\n" % ("t%d" % k * 50) for k in range(4000))
            self.assertGreater(len(long), 1 << 19)
            for script in scripts:
                script.close()
            with self.assertRaisesRegex(Refused, "differs|layout|tied"):
                node.script().join(long)

    def test_half_a_record_has_five_seconds_and_then_its_seat_is_free(self):
        with Node(1) as node:
            script = node.script()
            script.begin(START)
            script.send(record(STEP, number=1)[:40])
            self.assertEqual(joins(node).number, 0)
            self.assertEqual(script.socket.recv(1), b"")

    def test_answers_that_a_script_never_takes_in_cost_it_its_seat(self):
        with Node(1) as node:
            script = node.script()
            script.begin(START)
            script.socket.settimeout(0.5)
            with contextlib.suppress(TimeoutError, OSError):
                while True:
                    script.send(record(KEPT) * 100)
            self.assertEqual(joins(node).number, 0)

    def test_of_the_descriptors_beside_a_question_the_first_is_used_and_none_stays(self):
        with Node(1) as node:
            script = node.script()
            script.begin(START)
            def count():
                return len(os.listdir("/proc/%d/fd" % node.process.pid))
            blobs = [blob_of(b"abc"), blob_of(b"xyz"), blob_of(b"uvw")]
            def keep():
                socket.send_fds(script.socket, [record(KEEP, number=1, count=3)], blobs)
                self.assertEqual(script.read().kind, KEPT)
            keep()
            self.assertEqual(os.pread(script.ask(KEPT).fd, 9, 0), b"abc")
            before = count()
            for _ in range(50):
                keep()
            self.assertLess(count(), before + 50)


class Deaths(unittest.TestCase):
    def test_a_script_that_dies_before_it_has_begun_leaves_the_node_to_the_next(self):
        with Node(2) as node:
            dying = [node.script() for _ in range(3)]
            dying[1].send(record(JOIN)[:17])
            dying[2].join("\ntrained another 2 4\n")
            for script in dying:
                script.close()
            meanwhile = ("no seat", "a layout of")  # of one whose end is not yet seen
            joins(node, False, meanwhile).close()
            self.assertEqual(joins(node, False, meanwhile).ask(STEP).number, 0)

    def test_whatever_a_script_is_doing_when_it_dies_its_rank_stays_as_it_was(self):
        with Node(1) as node:
            script = node.script()
            script.begin(START)
            for k, last_words in enumerate([b"", record(STEP)[:40], record(MEAN)]):
                script.step(change=1)
                script.fill([1e30] * (TRAINED + ASIDE))  # half-way through a step of its own
                script.send(last_words)
                script.close()
                script = joins(node)
                self.assertEqual(script.values()[0], 2 + k)
                self.assertEqual(script.number, k + 1)
            self.assertEqual(script.step(change=1).number, 4)

    def test_a_script_that_dies_while_it_waits_for_the_others_frees_its_seat(self):
        with Node(2) as node:
            first, second = node.script(), node.script()
            first.begin(START)
            second.join()
            first.send(record(FINISH))
            self.assertEqual(first.read(waits=[WAIT]).kind, WAIT)
            first.close()
            self.assertEqual(joins(node).number, 0)

    def test_a_killed_script_frees_its_seat_though_a_child_has_its_socket(self):
        with Node(1) as node:
            program = (
                "import os, socket, sys, time\n"
                "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n"
                "s.sendall(bytes.fromhex(sys.argv[2])); s.recv(80)\n"
                "child = os.fork()\n"
                "print(child, flush=True) if child else None\n"
                "time.sleep(600)\n")
            text = LAYOUT.encode()
            founder = node.script()
            founder.begin(START)
            founder.ask(LEAVE)
            until("the seat is free", lambda: "has left" in node.said())
            join = (record(JOIN, count=len(text)) + text).hex()
            script = subprocess.Popen([sys.executable, "-c", program, node.socket, join],
                                      stdout=subprocess.PIPE)
            child = int(script.stdout.readline())
            with self.assertRaises(Refused):
                node.script().join()
            began = time.monotonic()
            script.kill()
            joins(node)
            print("seat free %.0f ms after SIGKILL, a child still has the socket"
                  % (1e3 * (time.monotonic() - began)))
            os.kill(child, signal.SIGKILL)
            script.wait()
            script.stdout.close()


class Launch(unittest.TestCase):
    """`launch --guests` with scripts that speak by hand: `s` has joined, and takes steps."""

    JOINED = (
        "import os, signal, sys, time\n"
        "sys.path.insert(0, %r)\n"
        "words, sys.argv = sys.argv[1:], ['', '/bin/true']\n"
        "import guests_test as g\n"
        "class Node: socket = os.environ['GRAPEVINE_NODE']\n"
        "seat = int(os.environ['GRAPEVINE_SEAT'])\n"
        "def say(*what): print(*what, flush=True)\n"
        "def wait(name):\n"
        "    while not os.path.exists(name): time.sleep(0.005)\n"
        "def join():\n"
        "    s = g.Script(Node); w = s.join(rank=seat, flags=g.SEAT)\n"
        "    if not w.flags & g.RESUMED: s.fill(g.START); s.ask(g.STEP)\n"
        "    return s\n"
        "def finish(): s.ask(g.FINISH); s.ask(g.LEAVE)\n"
        % os.path.dirname(os.path.abspath(__file__)))
    SCRIPT = JOINED + (
        "say('at', os.environ['GRAPEVINE_NODE'] != '')\n"
        "s = join()\n"
        "[s.step(change=1) for _ in range(5)]\n"
        "finish()\n")

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="grapevine-guests-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def command(self, *command, guests=2, options=("--json",)):
        return [PROGRAM, "launch", "--guests", str(guests), *options, "--", *command]

    def launch(self, *command, **how):
        return subprocess.run(
            self.command(*command, **how), text=True, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=2 * PATIENCE_S, cwd=self.folder,
            env={**os.environ, "XDG_RUNTIME_DIR": self.folder})

    def run_script(self, program, **how):
        return self.launch(sys.executable, "-c", self.JOINED + program, **how)

    @contextlib.contextmanager
    def launched(self, *command, **how):
        """It runs meanwhile; `said()` is what it has said on standard error, `shown()` the rest."""
        class Running:
            def text(self, file):
                with open(file.name, errors="replace", newline="") as again:
                    return again.read()
            said = lambda self: self.text(self.err)
            shown = lambda self: self.text(self.out)
            def until_said(self, words):
                until(words, lambda: words in self.said())
        running = Running()
        with open(os.path.join(self.folder, "err"), "w+") as running.err, \
                open(os.path.join(self.folder, "out"), "w+") as running.out:
            running.process = subprocess.Popen(
                self.command(*command, **how), stdin=subprocess.DEVNULL, stdout=running.out,
                stderr=running.err, cwd=self.folder,
                env={**os.environ, "XDG_RUNTIME_DIR": self.folder})
            try:
                yield running
            finally:
                running.process.kill()
                running.process.wait()

    def touch(self, name):
        with open(os.path.join(self.folder, name), "w"):
            pass

    def numbers_in(self, name):
        """Of processes, which scripts have written down."""
        path = os.path.join(self.folder, name)
        if not os.path.exists(path):
            return []
        with open(path) as file:
            return [int(line) for line in file.read().split("\n")[:-1]]

    def test_launch_starts_a_node_and_scripts_and_passes_on_what_they_say(self):
        done = self.launch(sys.executable, "-c", self.SCRIPT)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["gradients"], 10)
        self.assertIn("[0] at True\n", done.stderr)
        self.assertIn("[1] at True\n", done.stderr)

    def test_scripts_share_the_cores_write_unbuffered_and_have_an_input_that_is_over(self):
        program = ("names = ('OMP_NUM_THREADS', 'PYTHONUNBUFFERED')\n"
                   "cores = len(os.sched_getaffinity(0))\n"
                   "say(*map(os.environ.get, names), repr(sys.stdin.read()), cores)\n"
                   "s = join(); finish()\n")
        done = self.run_script(program)
        cores = len(os.sched_getaffinity(0))
        self.assertIn(f"[0] {max(1, cores // 2)} 1 '' {cores}\n", done.stderr)
        given = {"OMP_NUM_THREADS": "3", "PYTHONUNBUFFERED": ""}
        with unittest.mock.patch.dict(os.environ, given):
            self.assertIn(f"[1] 3  '' {cores}\n", self.run_script(program).stderr)

    def test_what_has_no_end_of_line_yet_is_shown_and_carriage_returns_are_passed_on(self):
        program = ("sys.stdout.write('how many? '); sys.stdout.flush(); wait('one')\n"
                   "sys.stdout.write('two\\n'); sys.stdout.flush()\n"
                   "sys.stderr.write('\\r 10%|#'); sys.stderr.flush(); wait('two')\n"
                   "sys.stderr.write('\\r 20%|##'); sys.stderr.flush(); wait('three')\n"
                   "sys.stderr.write('\\n'); s = join(); finish()\n")
        command = (sys.executable, "-c", self.JOINED + program)
        with self.launched(*command, guests=1, options=("--no-save",)) as running:
            until("a question", lambda: "[0] how many? " in running.shown())
            self.touch("one")
            running.until_said("[0]  10%|#")
            self.touch("two")
            running.until_said("\r[0]  20%|##")
            self.touch("three")
            self.assertEqual(running.process.wait(PATIENCE_S), 0)
            self.assertIn("[0] how many? two\n", running.shown())
            self.assertIn("[0]  20%|##\r\n", running.said())

    def test_no_line_of_the_log_shares_one_with_what_a_script_has_not_ended(self):
        program = ("sys.stdout.write('how many? '); sys.stdout.flush(); wait('one')\n"
                   "s = join(); wait('two'); say('two'); finish()\n")
        command = self.command(sys.executable, "-c", self.JOINED + program, guests=1,
                               options=("--no-save",))
        for shown in (os.pipe, pty.openpty):
            with self.subTest(shown.__name__):
                ours, theirs = shown()
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
                    cwd=self.folder, env={**os.environ, "XDG_RUNTIME_DIR": self.folder})
                os.close(theirs)
                text = ""
                for words, name in (("[0] how many? ", "one"), ("epoch", "two"), (None, None)):
                    while words is None or words not in text:
                        try:
                            more = os.read(ours, 4096)
                        except OSError:  # the end of a terminal
                            more = b""
                        text += more.decode()
                        if not more:
                            break
                    if name:
                        self.touch(name)
                self.assertEqual(process.wait(PATIENCE_S), 0, text)
                os.close(ours)
                os.unlink(os.path.join(self.folder, "one"))
                os.unlink(os.path.join(self.folder, "two"))
                lines = re.split(r"[\r\n]+(?:\x1b\[K)?", text)
                self.assertIn("[0] how many? ", lines)
                self.assertIn("[0] two", lines)
                for line in lines:
                    self.assertNotRegex(line, r".\d\d:\d\d:\d\d ")

    def test_what_scripts_write_is_not_kept(self):
        if SANITIZED:
            return print("SKIPPED: the memory of launch: the sanitizer keeps some")
        program = ("line = '\\r' + 1000 * '#'\n"
                   "for _ in range(100): sys.stderr.write(1000 * line)\n"
                   "say('all of it'); wait('end'); s = join(); finish()\n")
        command = (sys.executable, "-c", self.JOINED + program)
        with self.launched(*command, guests=1, options=("--no-save",)) as running:
            until("all of it", lambda: "all of it" in running.shown())
            with open("/proc/%d/status" % running.process.pid) as status:
                most = int(re.search(r"VmHWM:\s*(\d+) kB", status.read()).group(1)) >> 10
            print("%d MiB of launch after 100 MB of a script's words" % most)
            self.assertLess(most, 90)
            self.touch("end")
            self.assertEqual(running.process.wait(PATIENCE_S), 0)

    def test_in_a_log_of_JSON_a_line_is_an_event_and_a_bar_none_of_many(self):
        program = ("for k in range(1000): sys.stderr.write('\\r%d' % k)\n"
                   "sys.stderr.write('\\n'); say('a line'); s = join(); finish()\n")
        options = ("--no-save", "--json", "--log-format", "json")
        done = self.run_script(program, guests=1, options=options)
        events = [json.loads(line)["event"] for line in done.stderr.split("\n")[:-1]
                  if '"event"' in line]
        self.assertIn("[0] a line", events)
        self.assertIn("[0] 999", events)
        self.assertLess(len([event for event in events if event.startswith("[0]")]), 10)

    def test_an_interrupt_drains_and_the_scripts_end_as_they_hear_of_it(self):
        program = ("s = join(); say('steps')\n"
                   "while not s.step(change=1).flags & g.END: pass\n"
                   "finish()\n")
        with self.launched(sys.executable, "-c", self.JOINED + program) as running:
            running.until_said("[0] steps")
            running.until_said("[1] steps")
            running.process.send_signal(signal.SIGINT)
            self.assertEqual(running.process.wait(PATIENCE_S), 0, running.said())
            self.assertTrue(json.loads(running.shown())["interrupted"])
            self.assertIn("the script of rank 1 has ended with status 0", running.said())

    def test_a_script_that_does_not_hear_of_an_interrupt_is_sent_it_and_may_save(self):
        for first, name in ((signal.SIGINT, "INT"), (signal.SIGTERM, "TERM")):
            program = ("def saves(*_): say('saves'); wait('saved'); os._exit(3)\n"
                       "[signal.signal(n, saves) for n in (signal.SIGINT, signal.SIGTERM)]\n"
                       "s = join(); say('steps')\n"
                       "while True: time.sleep(0.01)\n")
            command = (sys.executable, "-c", self.JOINED + program)
            with self.subTest(name), self.launched(*command, guests=1) as running:
                running.until_said("[0] steps")
                running.process.send_signal(first)
                running.until_said("[0] saves")
                self.touch("saved")
                self.assertEqual(running.process.wait(PATIENCE_S), 0, running.said())
                self.assertIn("the script of rank 0 still runs, and is", running.said())
                os.unlink(os.path.join(self.folder, "saved"))

    def test_a_notice_to_all_processes_of_a_job_ends_no_script_that_handles_it(self):
        program = ("heard = []\n"
                   "[signal.signal(n, lambda n, _: heard.append(n))\n"
                   " for n in (signal.SIGUSR1, signal.SIGUSR2)]\n"
                   "s = join(); open('processes', 'w').write('%d\\n%d\\n'\n"
                   "                                       % (os.getppid(), os.getpid()))\n"
                   "while len(heard) < 2: s.step(change=1); time.sleep(0.01)\n"
                   "say('heard', *sorted(heard)); finish()\n")
        command = (sys.executable, "-c", self.JOINED + program)
        with self.launched(*command, guests=1, options=("--no-save", "--json")) as running:
            guard, script = until("the script", lambda: self.numbers_in("processes")[1:]
                                  and self.numbers_in("processes"))
            for process in (guard, script):
                for notice in (signal.SIGUSR1, signal.SIGUSR2):
                    os.kill(process, notice)
            running.until_said("[0] heard 10 12")
            self.assertEqual(running.process.wait(PATIENCE_S), 0, running.said())

    def test_scripts_that_go_on_after_the_run_are_waited_for(self):
        for closes in (True, False):
            program = ("s = join(); s.step(change=1); s.ask(g.FINISH)\n"
                       f"if {closes}: s.ask(g.LEAVE)\n"
                       "say('tests'); wait('tested'); open('model', 'w').close()\n")
            command = (sys.executable, "-c", self.JOINED + program)
            with self.subTest(closes=closes), self.launched(*command, guests=1) as running:
                running.until_said("[0] tests")
                until("the result", lambda: running.shown().endswith("}\n"))
                self.touch("tested")
                self.assertEqual(running.process.wait(PATIENCE_S), 0, running.said())
                os.unlink(os.path.join(self.folder, "model"))
                os.unlink(os.path.join(self.folder, "tested"))

    def test_a_script_that_tests_for_long_before_it_asks_has_the_mean_of_the_run(self):
        program = ("s = join(); s.step(change=1)\n"
                   "say('tests'); wait('tested'); m = s.ask(g.FINISH); s.ask(g.LEAVE)\n"
                   "say('mean', *g.array.array('f', os.pread(m.fd, 8, 0)))\n")
        command = (sys.executable, "-c", self.JOINED + program)
        options = ("--json", "--gradients", "1")
        with self.launched(*command, guests=1, options=options) as running:
            running.until_said("[0] tests")
            running.until_said("waiting for scripts that have not asked for its mean")
            self.touch("tested")
            self.assertEqual(running.process.wait(PATIENCE_S), 0, running.said())
            self.assertIn("[0] mean 2.0 3.0", running.said())

    def test_the_others_do_the_share_of_a_script_that_crashes_and_finish(self):
        program = ("s = join(); n = 0\n"
                   "while True:\n"
                   "    n += 1\n"
                   "    flags = s.step(change=1).flags\n"
                   "    if seat == 1 and n == 3: sys.exit('no memory')\n"
                   "    if seat == 0 and n == 3: wait('crashed')\n"
                   "    if flags & g.END: break\n"
                   "finish()\n")
        command = (sys.executable, "-c", self.JOINED + program)
        with self.launched(*command, options=("--json", "--gradients", "20")) as running:
            line = ("the script of rank 1 has ended with status 1 before its work was done: "
                    "the others take the remaining steps")
            running.until_said(line)
            self.touch("crashed")
            self.assertEqual(running.process.wait(PATIENCE_S), 1)
            self.assertEqual(json.loads(running.shown())["gradients_by_rank"], [17, 3])
            self.assertIn("[1] no memory\n", running.said())
            self.assertTrue(running.said().endswith(f"grapevine: {line}\n"), running.said())

    def test_nobody_waits_at_the_end_for_a_script_that_stands_still(self):
        program = ("s = join()\n"
                   "if seat == 1: s.step(change=1); open('stands', 'w'); wait('over'); finish()\n"
                   "if seat == 0:\n"
                   "    wait('stands')\n"
                   "    while not s.step(change=1).flags & g.END: pass\n"
                   "    finish(); open('over', 'w')\n")
        done = self.run_script(program, options=("--json", "--gradients", "20"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["gradients_by_rank"], [19, 1])

    def test_the_run_waits_with_its_mean_for_a_script_that_comes_when_all_is_done(self):
        program = ("if seat == 1: wait('over')\n"
                   "s = join()\n"
                   "if seat == 0:\n"
                   "    while not s.step(change=1).flags & g.END: pass\n"
                   "m = s.ask(g.FINISH); open('over', 'w'); s.ask(g.LEAVE)\n"
                   "say('mean', *g.array.array('f', os.pread(m.fd, 4, 0)))\n")
        done = self.run_script(program, options=("--json", "--gradients", "20"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["gradients_by_rank"], [20, 0])
        for seat in (0, 1):
            self.assertRegex(done.stderr, rf"\[{seat}\] mean ")

    def test_scripts_say_how_many_gradients_there_are_and_one_that_says_another_number_fails(self):
        program = ("if seat == 1: wait('begun')\n"
                   "s = g.Script(Node)\n"
                   "s.join(rank=seat, flags=g.SEAT, gradients=12 + seat)\n"
                   "s.fill(g.START); s.ask(g.STEP); open('begun', 'w')\n"
                   "while not s.step(change=1).flags & g.END: pass\n"
                   "finish()\n")
        done = self.run_script(program)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("Refused: gradients is 13, accepted: 12, as in this run, or none\n",
                      done.stderr)
        self.assertEqual(json.loads(done.stdout)["gradients"], 12)

    def test_nobody_waits_for_a_script_that_does_not_come_or_closes_without_a_finish(self):
        for program in ("if seat == 1: sys.exit('no GPU')\n"
                        "s = join(); s.step(change=1); finish()\n",
                        "s = join(); s.step(change=1)\n"
                        "if seat == 0: finish()\n"
                        "s.close()\n"):
            for method in ("a2cid2", "d_psgd", "all_reduce"):
                with self.subTest(program=program, method=method):
                    done = self.run_script(program, options=("--json", "--method", method))
                    self.assertEqual(done.returncode, 1, done.stderr)
                    self.assertRegex(done.stderr, "grapevine: the script of rank 1 has ended with "
                                                  "status [01] before its work was done")
                    self.assertEqual(json.loads(done.stdout)["ranks"], 2)

    def test_a_script_that_crashes_is_started_again_as_often_as_is_asked_for(self):
        program = ("s = join()\n"
                   "if s.number < 2: s.step(change=1); sys.exit(7)\n"
                   "finish()\n")
        done = self.run_script(program, guests=1, options=("--json", "--restarts", "2"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("has ended with status 7: it is started again, 2 of 2", done.stderr)
        self.assertEqual(json.loads(done.stdout)["gradients_by_rank"], [2])
        done = self.run_script(program, guests=1, options=("--json", "--restarts", "1"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("grapevine: the script of rank 0 has ended with status 7 before", done.stderr)

    def test_a_script_that_fails_behind_its_share_is_the_status(self):
        done = self.run_script("s = join(); finish(); sys.exit(5)\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("grapevine: the script of rank", done.stderr)
        self.assertIn("has ended with status 5\n", done.stderr)

    def test_scripts_that_all_fail_before_they_join_are_told(self):
        done = self.launch(sys.executable, "-c", "import sys; sys.exit('no such model')")
        self.assertIn("[1] no such model", done.stderr)
        self.assertIn("the script of rank 0 has ended with status 1", done.stderr)
        self.assertEqual(done.returncode, 1)

    def test_scripts_that_never_join_end_the_launch_with_a_sentence(self):
        done = self.launch("true")
        self.assertIn("every script has ended and none has joined", done.stderr)
        self.assertEqual(done.returncode, 1)
        done = self.launch("no-such-program")
        self.assertIn("no-such-program", done.stderr)
        self.assertEqual(done.returncode, 1)

    def alive(self, process):
        try:
            with open("/proc/%d/stat" % process) as stat:
                return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):  # it may go between the two calls
            return False

    def test_what_a_wrapper_starts_ends_with_the_launch_however_that_ends(self):
        inner = ("s = join(); open('started', 'a').write('%d\\n' % os.getpid())\n"
                 "while True: s.step(change=1); time.sleep(0.01)\n")
        with open(os.path.join(self.folder, "inner.py"), "w") as file:
            file.write(self.JOINED + inner)
        python = f"{sys.executable} inner.py"
        for wrapper in (f"{python}; true", f"setsid -w {python}; true"):
            for ends in (signal.SIGKILL, signal.SIGINT):
                with self.subTest(wrapper=wrapper, ends=ends), \
                        self.launched("bash", "-c", wrapper) as running:
                    started = until("two scripts", lambda: self.numbers_in("started")[1:]
                                    and self.numbers_in("started"))
                    running.process.send_signal(ends)
                    if ends == signal.SIGINT:
                        running.until_said("stopping:")
                        running.process.send_signal(ends)  # at once
                    running.process.wait(PATIENCE_S)
                    until("the end of what was started",
                          lambda: not any(map(self.alive, started)))
                    os.unlink(os.path.join(self.folder, "started"))

    def test_what_a_script_leaves_behind_ends_with_it(self):
        program = ("if os.fork() == 0:\n"
                   "    os.setsid(); open('left', 'a').write('%d\\n' % os.getpid())\n"
                   "    time.sleep(600)\n"
                   "s = join(); wait('left'); finish()\n")
        done = self.run_script(program, guests=1)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse(any(map(self.alive, self.numbers_in("left"))))

    def test_a_script_that_closes_its_output_goes_on(self):
        program = ("s = join(); sys.stdout.close(); sys.stderr.close(); os.close(1); os.close(2)\n"
                   "[s.step(change=1) for _ in range(5)]\n"
                   "finish()\n")
        done = self.run_script(program)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["gradients"], 10)

    def test_nothing_is_told_of_what_nobody_has_measured(self):
        done = self.launch(sys.executable, "-c", self.SCRIPT)
        told = json.loads(done.stdout)
        for name in ("accuracy", "worst_rank_accuracy", "test_loss", "validation_accuracy",
                     "validation_loss", "suboptimality", "best"):
            self.assertIsNone(told[name], name)
        with open(os.path.join(self.folder, told["run_dir"], "run.json")) as file:
            options = json.load(file)["options"]
        for name in ("lr", "momentum", "optimizer", "schedule", "model", "dataset", "batch"):
            self.assertNotIn(name, options)
        done = self.launch(sys.executable, "-c", self.SCRIPT, options=("--no-save",))
        for word in ("accuracy", "loss", "testing"):
            self.assertNotIn(word, done.stdout)
        self.assertRegex(done.stdout, "gradients +10 ")

    def test_what_the_run_cannot_use_is_refused_before_a_script_is_started(self):
        self.touch("file")
        self.run_script("s = join(); finish()\n", guests=1, options=("--out", "used"))
        for words, status, line in (
            (["--out", "used"], 2, 'out is "used", which holds a run already'),
            (["--out", "file/run"], 1, 'out is "file/run", which cannot be written'),
            (["--key", "none"], 2, "run key none: "),
            (["--device", "cuda:99"], 2, "no GPU 99"),
            (["--resume", "none"], 2, 'resume is "none", which has no checkpoint'),
        ):
            with self.subTest(words):
                done = self.launch("touch", "started", options=words)
                self.assertEqual(done.returncode, status)
                self.assertIn(line, done.stderr)
                self.assertFalse(os.path.exists(os.path.join(self.folder, "started")))

    def test_a_launch_without_a_folder_makes_one(self):
        done = self.run_script("s = join(); finish()\n", guests=1)
        self.assertEqual(done.returncode, 0, done.stderr)
        folder, = os.listdir(os.path.join(self.folder, "runs"))
        self.assertEqual(json.loads(done.stdout)["run_dir"], "runs/" + folder)

    def test_an_interrupted_launch_is_resumed_by_its_folder(self):
        program = ("s = join(); say('steps')\n"
                   "while not s.step(change=1).flags & g.END and words[0] == 'first': pass\n"
                   "finish()\n")
        command = (sys.executable, "-c", self.JOINED + program)
        with self.launched(*command, "first", guests=1, options=("--out", "mine")) as running:
            until("it steps", lambda: "steps" in running.shown())
            running.process.send_signal(signal.SIGINT)
            running.process.wait(PATIENCE_S)
        done = self.launch(*command, "second", guests=1, options=("--resume", "mine", "--json"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(json.loads(done.stdout)["resumed_at"], 0)

    def test_options_that_scripts_would_not_heed_are_refused(self):
        for words in (["--nodes", "2"], ["--ranks", "3"], ["--lr", "0.1"], ["--optimizer", "adam"],
                      ["--model", "mlp"], ["--batch", "32"], ["--momentum", "0"],
                      ["--data", "x"], ["--sample", "x"]):
            done = self.launch("true", options=words)
            self.assertEqual(done.returncode, 2, words)
            line = f"grapevine: {words[0][2:]} is {words[1]} with guests, accepted: none, because "
            self.assertTrue(done.stderr.startswith(line), done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)
        done = subprocess.run([PROGRAM, "launch", "--guests", "2", "python", "train.py"], text=True,
                              capture_output=True, timeout=PATIENCE_S)
        self.assertEqual(done.returncode, 2)
        line = 'unexpected argument "python" of launch, accepted: options, scripts behind --'
        self.assertIn(line, done.stderr)
        done = subprocess.run([PROGRAM, "launch", "--restarts", "2"], text=True,
                              capture_output=True, timeout=PATIENCE_S)
        self.assertIn("restarts is 2, accepted: 0 without guests", done.stderr)


if __name__ == "__main__":
    program = unittest.main(exit=False, verbosity=1, warnings="ignore")
    bad = len(program.result.failures) + len(program.result.errors)
    good = program.result.testsRun - bad
    print("test cases: %d | %d passed | %d failed" % (good + bad, good, bad))
    sys.exit(bad != 0)
