"""What the tests of examples/deploy share: the program, its files, and nodes that run."""

import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

PROGRAM = os.path.abspath(sys.argv.pop(1))
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
DEPLOY = os.path.join(ROOT, "examples/deploy")
PATIENCE_S = 60  # for what takes a second on a machine that has nothing else to do
# A job that ends when it is told to.
JOB = ["--objective", "quadratic", "--gradients", "0", "--until", "600", "--sample-seconds", "0"]


def text_of(name):
    with open(os.path.join(DEPLOY, name), encoding="utf-8") as file:
        return file.read()


def objects_in(name):
    """Those of a manifest, by their kind."""
    import yaml

    return {found["kind"]: found for found in yaml.safe_load_all(text_of(name))}


def run(*words, **options):
    return subprocess.run(words, capture_output=True, text=True, check=False, **options)


def make_key(path):
    subprocess.run([PROGRAM, "keygen", path], check=True, capture_output=True)


def record_in(folder):
    with open(os.path.join(folder, "run.json"), encoding="utf-8") as file:
        return json.load(file)


def gradients_saved_in(folder):
    """Of all ranks, in the newest checkpoint."""
    newest = {"serial": -1}
    for path in glob.glob(os.path.join(folder, "checkpoints/*/manifest.json")):
        with open(path, encoding="utf-8") as file:
            newest = max(newest, json.load(file), key=lambda manifest: manifest["serial"])
    return sum(rank["gradients"] for rank in newest["ranks"])


def gone_on_from(folder):
    """How many gradients each later life of a run that has ended says that it began with."""
    with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as file:
        told = re.findall(r"resumes from \S+/checkpoints/\d+, after ([\d,]+) ", file.read())
    return [int(number.replace(",", "")) for number in told]


class Started:
    """A command in a process group of its own, and all that it says."""

    def __init__(self, words, **options):
        self.log = tempfile.TemporaryFile("w+", encoding="utf-8")
        self.process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT,
            start_new_session=True, **options,
        )

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def wait(self, patience_s=PATIENCE_S):
        """Its exit status, within the time that whoever runs it would leave it."""
        return self.process.wait(patience_s)

    def end(self):
        """Whatever is left of it."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # the whole group has ended
        self.process.wait()
        self.log.close()


class Lives(unittest.TestCase):
    """Tests whose nodes are stopped and started again."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="grapevine-deploy-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.environment = {**os.environ, "XDG_RUNTIME_DIR": self.folder}
        for name in list(self.environment):
            if name.startswith("SLURM_"):
                del self.environment[name]  # those of a job that the tests themselves are in

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def start(self, words, **variables):
        return self.start_with(words, env={**self.environment, **variables}, cwd=self.folder)

    def start_with(self, words, **options):
        started = Started(words, **options)
        self.addCleanup(started.end)
        return started

    def await_checkpoint(self, started, folder):
        end = time.monotonic() + PATIENCE_S
        while not glob.glob(os.path.join(folder, "checkpoints/*/manifest.json")):
            try:  # who watches leaves the cores to what is watched
                self.fail(f"ended with status {started.process.wait(0.05)}:\n{started.said()}")
            except subprocess.TimeoutExpired:
                self.assertLess(time.monotonic(), end, started.said())

    def await_training(self, started, address, key, nodes=1, above=0):
        """Waits until the node there knows so many nodes and has computed: each of its ranks, and
        all together more gradients than it is said to have had before."""
        end = time.monotonic() + PATIENCE_S
        while True:
            told = run(PROGRAM, "ctl", address, "--key", key, "status", "--json")
            status = json.loads(told.stdout) if told.returncode == 0 else {"members": []}
            alive = [m for m in status["members"] if m["state"] == "alive"]
            if len(alive) == nodes and all(status["gradients"]):
                if sum(status["gradients"]) > above:
                    return
            if time.monotonic() > end or started.process.poll() is not None:
                said = told.stderr + started.said()
                self.fail(f"at {address} none that trains, of {nodes} nodes:\n{said}")

    def await_probe(self, started, url):
        """Waits until it is green."""
        end, said = time.monotonic() + PATIENCE_S, ""
        while True:
            try:
                with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
                    self.assertEqual(answer.status, 200)
                    return
            except urllib.error.HTTPError as red:
                said = red.read().decode()
            if time.monotonic() > end or started.process.poll() is not None:
                self.fail(f"{url}: {said}{started.said()}")

    def stop_run(self, address, key):
        told = run(PROGRAM, "ctl", address, "--key", key, "stop")
        self.assertEqual(told.returncode, 0, told.stderr)
