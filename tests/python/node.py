"""A real node for a test, its socket, and waiting for what no event tells."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

PATIENCE_S = 60
PROGRAM = os.environ.get("GRAPEVINE", "grapevine")


def until(what, holds, patience_s=PATIENCE_S):
    """Asks until it holds; returns what it gave."""
    end = time.monotonic() + patience_s
    while True:
        answer = holds()
        if answer:
            return answer
        if time.monotonic() > end:
            raise TimeoutError(f"in vain for {patience_s} s: {what}")
        time.sleep(0.005)


class Node:
    """`grapevine node --guests N` in a folder of its own; `path` is its socket."""

    def __init__(self, guests=1, *options, **environment):
        self.folder = tempfile.mkdtemp(prefix="gv-")
        os.chmod(self.folder, 0o700)
        self.path = os.path.join(self.folder, "scripts.sock")
        self.command = [PROGRAM, "node", "--guests", str(guests), "--door", self.path, *options]
        self.environment = {**os.environ, "TMPDIR": self.folder, **environment}
        self.log = os.path.join(self.folder, "log")
        self.process = None
        self.start()

    def start(self):
        """Starts the node, again after `kill`."""
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                env=self.environment,
            )
        until("the socket of a node", self.__open)

    def __open(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"the node ended: {self.said()}")
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(self.path) == 0

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()

    def signal(self, number):
        self.process.send_signal(number)
        if number == signal.SIGSTOP:  # a busy machine lets it go on for a while
            os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)

    def kill(self):
        """As a machine that fails: SIGKILL; the socket's file is there at the next start."""
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()
        if os.path.exists(self.path):
            os.unlink(self.path)

    def close(self):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
