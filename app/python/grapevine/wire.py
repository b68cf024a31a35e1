"""The protocol between a script and its node: records of 80 bytes over a unix stream socket.

A record is one Cap'n Proto struct without pointers, in one segment (messages/guest.capnp), so
`struct` reads and writes it. The script asks and the node answers, one question at a time. Before
an answer that takes longer, the node sends `wait` once a second. A descriptor is sent beside the
record that announces it.
"""

from __future__ import annotations

import array
import enum
import os
import re
import socket
import struct
import time
from typing import Callable, NamedTuple, Optional, Tuple

VERSION = 2
RECORD = struct.Struct("<16sHHHHIIQQQQdQ")
# One segment of nine words; its root is a struct of eight words without pointers.
HEAD = struct.pack("<IIIHH", 0, 9, 0, 8, 0)
ANY_RANK = 0xFFFFFFFF
SILENCE_S = 5.0  # without a record, after which the node counts as gone
LONGEST_TEXT = 16 << 20
_NO_NODE = "the process at %s is no node of Grapevine: it does not answer with records"


class Kind(enum.IntEnum):
    """What a record asks or answers."""

    JOIN = 0
    WELCOME = 1
    REFUSED = 2
    STEP = 3
    FRONT = 4
    MEAN = 5
    KEEP = 6
    KEPT = 7
    FINISH = 8
    LEAVE = 9
    BYE = 10
    WAIT = 11
    CHECKPOINT = 12
    SAVED = 13
    SHARE = 14
    REPORT = 15


class Flag(enum.IntFlag):
    """All but SEAT are flags of an answer."""

    RESUMED = 1  # of `welcome`: the rank has parameters, the script takes them over
    END = 2  # no more steps are taken
    NOT_FINITE = 4  # of `front`: values that were not finite were left out
    NOT_SAVED = 8  # of `saved`: there is no checkpoint, the text says why
    ASIDE = 16  # of `welcome`: the rank has buffers aside, too
    OVER = 32  # the run has ended here, and `finish` is answered at once
    MOVED = 64  # the script has changed the front since the last STEP
    EMPTY = 128  # of `wait`: the rank that it names has no script
    SEAT = 256  # of `join`: the rank is a seat of this node, counted from 0


class Record(NamedTuple):
    """The fields of a record, in the order in which they travel."""

    head: bytes = HEAD
    version: int = VERSION
    kind: int = 0
    flags: int = 0
    dtype: int = 0
    rank: int = 0
    ranks: int = 0
    number: int = 0
    run_steps: int = 0
    exchanges: int = 0
    size: int = 0  # `count` in guest.capnp: bytes of the text or of the blob
    value: float = 0.0
    epoch: int = 0


class NodeGone(ConnectionError):
    """The node does not answer. The model keeps the parameters of the last step."""


class Refused(ValueError):
    """The node refuses what the script asks; the text says why."""


class Overdue(Exception):
    """No answer came before the deadline. The question is still open."""


def socket_of(node: str) -> str:
    """The path of the socket for scripts; `node` is that path or the name of a node here."""
    path = node[len("unix:") :] if node.startswith("unix:") else node
    host, colon, port = path.rpartition(":")
    if colon and port.isdigit() and "/" not in host:
        raise ValueError(
            "node is %r, accepted: a script joins by a path on this machine, or by the name of a "
            "node here" % node
        )
    if "/" not in path and not os.path.exists(path):
        # A node uses the second folder if it cannot use the first, or has another environment.
        runtime = os.environ.get("XDG_RUNTIME_DIR", "")
        folders = [runtime + "/grapevine"] if runtime.startswith("/") else []
        folders.append("/tmp/grapevine-%d" % os.geteuid())
        paths = ["%s/%s.door" % (folder, path) for folder in folders]
        return next(filter(os.path.exists, paths), paths[0])
    if path.endswith(".sock"):  # that for nodes and consoles: NAME.sock, NAME.PROCESS.sock
        name = path[: -len(".sock")]
        for stem in (name, re.sub(r"\.\d+$", "", name)):
            if os.path.exists(stem + ".door"):
                return stem + ".door"
    return path


class Connection:
    """A socket to a node, and the one question that may be open on it.

    A signal, for example Ctrl+C, may end any wait by an exception. The buffer itself shows whether
    an answer has come, so `answer` may be called again and loses nothing.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._buffer = bytearray(RECORD.size)
        self._filled = 0  # bytes of an answer that came in pieces
        self._open = False
        self.text = ""  # what came with the last answer
        self._descriptor: Optional[int] = None
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.settimeout(SILENCE_S)
            self._socket.connect(self.path)
        except OSError as error:
            self._socket.close()
            why = error.strerror or error
            raise NodeGone("no node answers at %s: %s" % (self.path, why)) from None

    def ask(
        self,
        question: Record,
        text: bytes = b"",
        descriptor: Optional[int] = None,
        deadline: Optional[float] = None,
        on_wait: Callable[[Record], None] = lambda _: None,
    ) -> Record:
        """Sends a question and waits for its answer; `take_descriptor` has what came with it.

        The answer to an earlier question that is still open is read first and dropped. Raises
        `NodeGone`, `Refused` with the node's words, or `Overdue` after `deadline` (as
        `time.monotonic`).
        """
        if self._open:
            self.read_open_answer()
        self.send(question, text, descriptor)
        return self.answer(deadline, on_wait)

    def send(self, question: Record, text: bytes = b"", descriptor: Optional[int] = None) -> None:
        self._forget()
        data = RECORD.pack(*question) + text
        try:
            self._open = True
            if descriptor is None:
                self._socket.sendall(data)
            else:
                socket.send_fds(self._socket, [data], [descriptor])
        except OSError as error:
            raise NodeGone(self._gone(error)) from None

    def answer(
        self,
        deadline: Optional[float] = None,
        on_wait: Callable[[Record], None] = lambda _: None,
    ) -> Record:
        """The answer to the open question; `on_wait` is called with each `wait` before it."""
        while True:
            self._receive()
            record = Record._make(RECORD.unpack(self._buffer))
            if record.head != HEAD:
                raise NodeGone(_NO_NODE % self.path)
            if record.version != VERSION:
                raise Refused(
                    "the node at %s speaks version %d of records, this package version %d: "
                    "install both from one release" % (self.path, record.version, VERSION)
                )
            if record.kind > max(Kind):
                raise NodeGone(_NO_NODE % self.path)
            if record.kind == Kind.REFUSED:
                raise Refused(self._read_text(record.size))
            if record.kind != Kind.WAIT:
                self._open = False
                self.text = self._read_text(record.size) if record.kind == Kind.SAVED else ""
                return record
            self._forget()
            on_wait(record)
            if deadline is not None and time.monotonic() >= deadline:
                raise Overdue()

    def read_open_answer(self, seconds: float = SILENCE_S) -> Optional[Record]:
        """Reads the answer to the open question, if there is one; None where there is none."""
        if not self._open:
            return None
        self._socket.settimeout(seconds)
        try:
            return self.answer(time.monotonic() + seconds)
        except (Overdue, Refused) as error:
            raise NodeGone(self._gone(error)) from None
        finally:
            self._socket.settimeout(SILENCE_S)

    def take_descriptor(self) -> int:
        """The descriptor that came with the last answer; the caller closes it."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            raise NodeGone("%s sent an answer without its memory" % self.path)
        return descriptor

    def close(self) -> None:
        self._forget()
        self._socket.close()

    def _gone(self, error: BaseException) -> str:
        silent = isinstance(error, (socket.timeout, Overdue))
        return "%s: %s" % (self.path, "it says nothing" if silent else error)

    def _forget(self) -> None:
        """Marks the buffer as empty. Byte 4 of every record is 9, of the segment's length."""
        self._buffer[4] = self._filled = 0
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _receive(self) -> None:
        """Fills the buffer with a record, unless one is in it."""
        if self._buffer[4] != 0 and not self._filled:
            return
        while self._filled < RECORD.size:
            try:
                size, beside, _, _ = self._socket.recvmsg_into(
                    [memoryview(self._buffer)[self._filled :]],
                    socket.CMSG_SPACE(4),
                    socket.MSG_CMSG_CLOEXEC,
                )
            except OSError as error:
                raise NodeGone(self._gone(error)) from None
            if beside:
                self._keep_descriptor(beside[0])
            if size == 0:
                raise NodeGone("%s has closed the connection" % self.path)
            if size == RECORD.size:
                return
            self._filled += size
        self._filled = 0

    def _keep_descriptor(self, message: Tuple[int, int, bytes]) -> None:
        level, kind, data = message
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            numbers = array.array("i", data[: len(data) - len(data) % 4])
            self._descriptor = numbers[0] if len(numbers) else None

    def _read_text(self, count: int) -> str:
        self._open = False
        text = b""
        while len(text) < min(count, LONGEST_TEXT):
            try:
                more = self._socket.recv(min(count, LONGEST_TEXT) - len(text))
            except OSError as error:
                raise NodeGone(self._gone(error)) from None
            if not more:
                break
            text += more
        return text.decode("utf-8", "replace")
