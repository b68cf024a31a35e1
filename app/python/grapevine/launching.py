"""`launch`: a node, and processes that call a function, for notebooks and scripts.

No process outlives the caller: the processes end with their parent, and the node ends with its
standard input.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
from typing import IO, Any, Callable, Dict, List, NamedTuple, Sequence

from .given import whole
from .program import Option, option_words, program

SCRIPTS_AT, LISTENS = "scripts come in at ", "listening on "
TERM_S = 2.0  # for a process that is ended, then it is killed
LEAVE_S = 8.0  # for a node, likewise
PR_SET_PDEATHSIG = 1


def launch(
    function: Callable[..., Any], ranks: int = 4, args: Sequence[Any] = (), **options: Option
) -> List[Any]:
    """Starts a node and `ranks` processes, each of which calls `function(*args)`, which joins.

        def train():
            rank = grapevine.join(model, optimizer)
            ...
            return rank.finish()

        mean = grapevine.launch(train, ranks=4)[0]

    Returns what they return, in the order of their seats. Options are those of `grapevine node`:
    `topology="ring"`, `gradients=4000`; without `out` nothing is saved.

    A function of a module, or of a script that is guarded by `if __name__ == "__main__":`, is
    called by new processes; one of a notebook by copies of this one, which must not have used a
    GPU.

    If one of them fails, ends the others and raises RuntimeError with the traceback. Raises
    ValueError if the node refuses an option.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SystemExit(
            "grapevine: a process that launch has started imports this script and would launch "
            'again: put the call under `if __name__ == "__main__":`'
        )
    if not callable(function):
        kind = type(function).__name__
        raise ValueError("function is a %s, accepted: a function that each process calls" % kind)
    count = whole(ranks, 1)
    if count is None:
        raise ValueError("ranks is %s, accepted: 1 or more processes" % (ranks,))
    node = _Node(count, options)
    processes: List[_Process] = []
    try:
        for seat in range(count):
            work = _Work(function, tuple(args), seat, count, node.socket)
            processes.append(_Process(work, node.input))  # before `start`, which Ctrl+C may end
            processes[-1].start()
        return _results(processes, node)
    finally:
        for process in processes:
            process.end()
        node.end()


class _Work(NamedTuple):
    """What a process is given."""

    function: Callable[..., Any]
    args: Sequence[Any]
    seat: int
    ranks: int
    socket: str

    def environment(self) -> Dict[str, str]:
        return {"GRAPEVINE_NODE": self.socket, "GRAPEVINE_SEAT": str(self.seat)}


class _Node:
    """`grapevine node`, which leaves when this process ends."""

    def __init__(self, guests: int, options: Dict[str, Option]) -> None:
        saves = {} if "out" in options else {"save": False}
        words = option_words("node", {"guests": guests, "quiet": True, **saves, **options})
        self._process = subprocess.Popen(
            [program(), "node", "--ends-with-input", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl+C is this process's to pass on
        )
        assert self._process.stdin is not None and self._process.stderr is not None
        self.input, self._said = self._process.stdin, self._process.stderr
        try:
            self.socket = self._await_socket()
        except BaseException:
            self.end()
            raise
        threading.Thread(target=self._pass_on, daemon=True).start()

    def _await_socket(self) -> str:
        last = ""
        for line in self._said:
            if SCRIPTS_AT in line:
                return line.split(SCRIPTS_AT, 1)[1].rstrip("\n")
            last = line.strip()
        kind = ValueError if self._process.wait() == 2 else RuntimeError
        raise kind(last or "the node ended before it accepted scripts")

    def _pass_on(self) -> None:
        """Prints what the node says, for example alarms; not that it listens, or how it leaves."""
        for line in self._said:
            if not self.input.closed and LISTENS not in line:
                sys.stderr.write(line)

    def leave_seat(self, seat: int) -> None:
        """The process of a seat has ended, perhaps without `finish`: the others do not wait for it,
        and take the steps that are left."""
        with contextlib.suppress(BrokenPipeError):  # the node has left: the run is over
            self.input.write("left %d\n" % seat)
            self.input.flush()

    def end(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.input.close()
        try:
            self._process.wait(LEAVE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class _Process:
    def __init__(self, work: _Work, input_of_node: IO[str]) -> None:
        method = "spawn" if _can_be_imported(work.function) else "fork"
        context: Any = multiprocessing.get_context(method)
        self.seat = work.seat
        self.results, self._answers = context.Pipe(duplex=False)
        inherited = input_of_node.fileno() if method == "fork" else -1
        call = (work, os.getpid(), self._answers, inherited)
        self._process = context.Process(target=_call, args=call, name="grapevine-%d" % work.seat)

    def start(self) -> None:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # until _call ignores it
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._answers.close()

    def result(self) -> Any:
        """What the function returned. Raises RuntimeError if it failed, or its process ended."""
        try:
            well, value = pickle.loads(self.results.recv_bytes())
        except EOFError:
            self._process.join()
            ended = "rank %d ended with status %s" % (self.seat, self._process.exitcode)
            raise RuntimeError(ended) from None
        if not well:
            raise RuntimeError("rank %d failed:\n%s" % (self.seat, value))
        return value

    def end(self) -> None:
        """Ends the process if it still runs."""
        if self._process.pid is None:
            return
        if self._process.is_alive():
            self._process.terminate()
            self._process.join(TERM_S)
            self._process.kill()
        self._process.join()
        self.results.close()


def _can_be_imported(function: Callable[..., Any]) -> bool:
    """Whether a new process can; not what a notebook or an interactive session has defined."""
    try:
        pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    in_main = getattr(function, "__module__", None) == "__main__"
    return not in_main or hasattr(sys.modules["__main__"], "__file__")


def _results(processes: Sequence[_Process], node: _Node) -> List[Any]:
    values: Dict[int, Any] = {}
    while len(values) < len(processes):
        waiting = {p.results: p for p in processes if p.seat not in values}
        for ready in multiprocessing.connection.wait(list(waiting)):
            process = waiting[ready]
            values[process.seat] = process.result()
            node.leave_seat(process.seat)
    return [values[process.seat] for process in processes]


def _call(work: _Work, parent: int, answers: Any, inherited: int) -> None:
    """In the process: calls the function, and sends what comes of it."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # the parent ended before prctl
    if inherited >= 0:
        os.close(inherited)  # else the node's input would not end
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for the parent, which ends this
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    os.environ.update(work.environment())
    _take_share_of_cores(work, inherited >= 0)
    try:
        outcome = pickle.dumps((True, work.function(*work.args)))
    except BaseException:
        outcome = pickle.dumps((False, traceback.format_exc()))
    answers.send_bytes(outcome)  # by value: shared tensors would be lost with this process


def _take_share_of_cores(work: _Work, is_copy: bool) -> None:
    if "OMP_NUM_THREADS" in os.environ:
        return
    share = max(1, len(os.sched_getaffinity(0)) // work.ranks)
    os.environ["OMP_NUM_THREADS"] = str(share)
    torch = sys.modules.get("torch")
    if torch is not None:  # a copy does not have the threads that its parent has started
        torch.set_num_threads(1 if is_copy else share)
