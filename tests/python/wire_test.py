"""Records as Python makes and reads them. Needs neither torch nor a node: the other end is here."""

import os
import socket
import struct
import tempfile
import threading
import unittest

from grapevine.wire import RECORD, Connection, Kind, NodeGone, Overdue, Record, Refused


class Records(unittest.TestCase):
    def test_a_record_has_80_bytes_and_each_field_its_place(self):
        self.assertEqual(RECORD.size, 80)
        record = Record(
            kind=Kind.STEP, flags=5, rank=6, ranks=7, number=8, run_steps=9, exchanges=10, size=11,
            value=0.5, epoch=12,
        )
        data = RECORD.pack(*record)
        self.assertEqual(data[:16], bytes([0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0]))
        self.assertEqual(struct.unpack_from("<HHHH", data, 16), (1, 3, 5, 0))
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
        self.door = socket.socket(socket.AF_UNIX)
        self.addCleanup(self.door.close)
        path = os.path.join(folder.name, "door")
        self.door.bind(path)
        self.door.listen()
        self.connection = Connection("unix:" + path)
        self.addCleanup(self.connection.close)
        self.node, _ = self.door.accept()
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

    def test_a_question_that_is_given_up_is_settled_at_its_time_and_the_next_has_its_own(self):
        self.say(kind=Kind.WAIT)
        with self.assertRaises(Overdue):
            self.ask(deadline=0.0)
        with self.assertRaisesRegex(NodeGone, "it says nothing"):
            self.connection.settle(0.01)
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
        for wrong in ({"head": bytes([9]) * 16}, {"version": 2}, {"kind": 12}):
            with self.subTest(wrong=wrong):
                self.say(**{"kind": Kind.FRONT, **wrong})
                with self.assertRaisesRegex(NodeGone, "no record"):
                    self.ask()

    def test_an_end_in_the_middle_of_a_record_is_an_end(self):
        self.node.sendall(b"\0\0\0\0\x09half")
        self.node.close()
        with self.assertRaises(NodeGone):
            self.ask()


if __name__ == "__main__":
    unittest.main()
