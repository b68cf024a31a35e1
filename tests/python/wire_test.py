"""Records as Python makes and reads them. Needs neither torch nor a node: the other end is here."""

import os
import socket
import struct
import tempfile
import threading
import unittest
import unittest.mock

from grapevine.wire import RECORD, Connection, Kind, NodeGone, Overdue, Record, Refused, socket_of


class Records(unittest.TestCase):
    def test_a_record_has_80_bytes_and_each_field_its_place(self):
        self.assertEqual(RECORD.size, 80)
        record = Record(
            kind=Kind.STEP, flags=5, rank=6, ranks=7, number=8, run_steps=9, exchanges=10, size=11,
            value=0.5, epoch=12,
        )
        data = RECORD.pack(*record)
        self.assertEqual(data[:16], bytes([0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0]))
        self.assertEqual(struct.unpack_from("<HHHH", data, 16), (2, 3, 5, 0))
        self.assertEqual(struct.unpack_from("<II", data, 24), (6, 7))
        self.assertEqual(struct.unpack_from("<QQQQ", data, 32), (8, 9, 10, 11))
        self.assertEqual(struct.unpack_from("<d", data, 64), (0.5,))
        self.assertEqual(struct.unpack_from("<Q", data, 72), (12,))
        self.assertEqual(Record._make(RECORD.unpack(data)), record)


class Answers(unittest.TestCase):
    """What a node may say, one thing after the other, whatever it is asked."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(self.listener.close)
        path = os.path.join(folder.name, "node")
        self.listener.bind(path)
        self.listener.listen()
        self.connection = Connection(socket_of("unix:" + path))
        self.addCleanup(self.connection.close)
        self.node, _ = self.listener.accept()
        self.addCleanup(self.node.close)

    def say(self, text=b"", descriptor=None, **fields):
        data = [RECORD.pack(*Record(**fields)) + text]
        socket.send_fds(self.node, data, [] if descriptor is None else [descriptor])

    def ask(self, **options):
        return self.connection.ask(Record(kind=Kind.STEP, number=3), **options)

    def test_an_answer_after_waits(self):
        self.say(kind=Kind.WAIT, value=1.0)
        self.say(kind=Kind.FRONT, number=3)
        self.assertEqual(self.ask().number, 3)
        self.assertEqual(self.node.recv(200), RECORD.pack(*Record(kind=Kind.STEP, number=3)))

    def test_an_answer_in_pieces(self):
        data = RECORD.pack(*Record(kind=Kind.FRONT, number=3))
        self.node.sendall(data[:30])
        timer = threading.Timer(0.01, self.node.sendall, (data[30:],))
        timer.start()
        self.assertEqual(self.ask().number, 3)
        timer.join()

    def test_a_refusal_has_its_text(self):
        self.say(b"no seat is free", kind=Kind.REFUSED, size=15)
        with self.assertRaisesRegex(Refused, "^no seat is free$"):
            self.ask()

    def test_a_text_in_pieces_is_whole(self):
        words = b"no seat is free"
        self.say(words[:7], kind=Kind.REFUSED, size=len(words))
        timer = threading.Timer(0.01, self.node.sendall, (words[7:],))
        timer.start()
        with self.assertRaisesRegex(Refused, "^no seat is free$"):
            self.ask()
        timer.join()

    def test_a_question_that_is_given_up_ends_at_its_time_and_the_next_has_its_own(self):
        self.say(kind=Kind.WAIT)
        with self.assertRaises(Overdue):
            self.ask(deadline=0.0)
        with self.assertRaisesRegex(NodeGone, "it says nothing"):
            self.connection.read_open_answer(0.01)
        timer = threading.Timer(0.05, self.say, kwargs={"kind": Kind.FRONT, "number": 5})
        timer.start()
        self.assertEqual(self.connection.answer().number, 5)
        timer.join()

    def test_an_overdue_question_stays_open_and_its_answer_is_not_the_next_ones(self):
        self.say(kind=Kind.WAIT)
        with self.assertRaises(Overdue):
            self.ask(deadline=0.0)
        self.say(kind=Kind.FRONT, number=3)
        self.say(kind=Kind.FRONT, number=4)
        self.assertEqual(self.ask().number, 4)

    def test_a_descriptor_comes_with_its_record_and_is_closed_when_nobody_takes_it(self):
        before = len(os.listdir("/proc/self/fd"))
        with tempfile.TemporaryFile() as file:
            self.say(kind=Kind.WELCOME, descriptor=file.fileno())
            self.ask()
            taken = self.connection.take_descriptor()
            self.assertTrue(os.path.sameopenfile(taken, file.fileno()))
            self.assertFalse(os.get_inheritable(taken))
            os.close(taken)
            self.say(kind=Kind.WELCOME, descriptor=file.fileno())
            self.ask()
            self.say(kind=Kind.FRONT)
            self.ask()
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)
        with self.assertRaises(NodeGone):
            self.connection.take_descriptor()

    def test_what_is_no_record_of_this_version_ends_the_connection(self):
        for wrong in ({"head": bytes([9]) * 16}, {"kind": 99}):
            with self.subTest(wrong=wrong):
                self.say(**{"kind": Kind.FRONT, **wrong})
                with self.assertRaisesRegex(NodeGone, "no node of Grapevine"):
                    self.ask()

    def test_a_node_of_another_version_refuses_the_script(self):
        self.say(b"version 2, accepted: 1", kind=Kind.REFUSED, version=1, size=22)
        with self.assertRaisesRegex(Refused, "version 1 of records, this package version 2"):
            self.ask()

    def test_each_wait_is_told_before_the_answer(self):
        heard = []
        self.say(kind=Kind.WAIT, rank=3)
        self.say(kind=Kind.WAIT, rank=4)
        self.say(kind=Kind.FRONT, number=3)
        self.assertEqual(self.ask(on_wait=lambda wait: heard.append(wait.rank)).number, 3)
        self.assertEqual(heard, [3, 4])

    def test_an_end_in_the_middle_of_a_record_is_an_end(self):
        self.node.sendall(b"\0\0\0\0\x09half")
        self.node.close()
        with self.assertRaises(NodeGone):
            self.ask()


class Sockets(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.join(folder.name, "grapevine")
        os.mkdir(self.folder)
        environment = unittest.mock.patch.dict(os.environ, {"XDG_RUNTIME_DIR": folder.name})
        environment.start()
        self.addCleanup(environment.stop)

    def touch(self, name):
        path = os.path.join(self.folder, name)
        with open(path, "w"):
            return path

    def test_a_node_is_called_by_its_name_or_by_any_path_of_its(self):
        path = self.touch("vm-4.1.door")
        for called in ("vm-4.1", path, "unix:" + path, self.touch("vm-4.1.77.sock"),
                       os.path.join(self.folder, "vm-4.1.sock")):
            self.assertEqual(socket_of(called), path)

    def test_a_socket_without_one_for_scripts_beside_it_is_taken_as_given(self):
        path = self.touch("own.sock")
        self.assertEqual(socket_of(path), path)
        self.assertEqual(socket_of("b"), os.path.join(self.folder, "b.door"))

    def test_a_node_that_could_not_use_the_runtime_folder_is_found_in_tmp(self):
        folder = "/tmp/grapevine-%d" % os.geteuid()
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, suffix=".door") as door:
            name = os.path.basename(door.name)[: -len(".door")]
            self.assertEqual(socket_of(name), door.name)
            with unittest.mock.patch.dict(os.environ, {"XDG_RUNTIME_DIR": "/run/user/99999999"}):
                self.assertEqual(socket_of(name), door.name)

    def test_an_address_of_another_machine_is_refused_in_a_line(self):
        for called in ("10.0.0.1:7001", "[::1]:7001", "host:7001"):
            with self.assertRaisesRegex(ValueError, "accepted: a script joins by a path on this"):
                socket_of(called)


if __name__ == "__main__":
    unittest.main()
