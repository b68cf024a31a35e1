"""The program, called from Python: simulate, topology, compare, status. Needs no torch."""

import importlib.util
import json
import os
import subprocess
import tempfile
import unittest

import grapevine
from node import PROGRAM, until

RING = 3.414213562373095  # chi1 of a ring of 8: 1 / (2 - 2 cos(pi / 4)) over the rate of an edge


def needs(module):
    """Skips, aloud, where a module cannot be imported."""
    there = importlib.util.find_spec(module) is not None
    return unittest.skipUnless(there, f"{module} cannot be imported")


class Program(unittest.TestCase):
    def test_a_graph_is_a_dict_with_a_row_a_rank(self):
        graph = grapevine.topology("ring", ranks=8)
        self.assertAlmostEqual(graph["chi1"], RING)
        self.assertEqual([row["degree"] for row in graph.rows], [2] * 8)
        self.assertEqual(json.loads(json.dumps(graph)), dict(graph))

    def test_a_simulation_repeats_to_the_bit_and_its_options_have_underscores(self):
        options = {"ranks": 4, "until": 20, "sample_seconds": 5, "relay_lr": False}
        one, other = grapevine.simulate(**options), grapevine.simulate(**options)
        self.assertEqual(one["parameter_hash"], other["parameter_hash"])
        self.assertEqual([round(row["at"]) for row in one.rows][:4], [5, 10, 15, 20])
        self.assertNotEqual(
            one["parameter_hash"], grapevine.simulate(**options, seed=2)["parameter_hash"]
        )

    def test_what_the_program_refuses_is_a_ValueError_with_its_line(self):
        with self.assertRaisesRegex(ValueError, "unknown option --foo of simulate"):
            grapevine.simulate(foo=1)
        with self.assertRaisesRegex(ValueError, "one value"):
            grapevine.simulate(seed=[1, 2])

    def test_a_program_that_is_not_there_is_said_with_the_way_out(self):
        named = os.environ.get("GRAPEVINE")
        os.environ["GRAPEVINE"] = "/nowhere/grapevine"
        try:
            with self.assertRaisesRegex(FileNotFoundError, "set GRAPEVINE"):
                grapevine.topology()
        finally:
            del os.environ["GRAPEVINE"]
            if named:
                os.environ["GRAPEVINE"] = named

    def compare(self, **options):
        return grapevine.compare(
            methods=[{"name": "d_psgd"}, {"name": "relaysgd", "topology": "chain"}],
            objective="quadratic",
            dim=10,
            zeta2=1,
            lr=0.1,
            until=20,
            ranks=4,
            seeds=[1, 2],
            **options,
        )

    def test_a_comparison_has_a_row_a_run_and_resumes_where_it_is_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            first = self.compare(out=folder)
            self.assertEqual((first["finished"], first["reused"]), (4, 0))
            self.assertEqual({row["label"] for row in first.rows}, {"d_psgd", "relaysgd"})
            again = self.compare(out=folder)
            self.assertEqual((again["finished"], again["reused"]), (4, 4))
            self.assertEqual(
                [row["parameter_hash"] for row in first.rows],
                [row["parameter_hash"] for row in again.rows],
            )

    def test_a_job_is_a_file_or_a_dict_and_never_a_file_with_options(self):
        job = {"objective": "consensus", "until": 5, "ranks": 4, "method": [{"name": "a2cid2"}]}
        self.assertEqual(grapevine.compare(job)["runs"], 1)
        with self.assertRaisesRegex(ValueError, "a job file and options, accepted"):
            grapevine.compare("job.toml", lr=0.1)

    @needs("pandas")
    def test_data_frames_have_the_rows(self):
        frame = grapevine.topology("chain", ranks=5).frame()
        self.assertEqual(list(frame["degree"]), [1, 2, 2, 2, 1])

    @needs("matplotlib")
    def test_plots_have_a_line_for_each_curve(self):
        import matplotlib

        matplotlib.use("Agg")
        axes = self.compare().plot()
        self.assertEqual(len(axes.get_lines()), 4)
        self.assertGreater(len(axes.get_lines()[0].get_xdata()), 3)
        groups = self.compare(noise=[0, 0.1]).plot()  # of one label, told apart by an option
        self.assertEqual(len(groups.get_lines()), 8)

    def test_a_node_tells_its_status(self):
        with tempfile.TemporaryDirectory() as folder:
            address = "unix:" + os.path.join(folder, "node.sock")
            command = [
                *(PROGRAM, "node", "--ranks", "2", "--objective", "consensus", "--until", "600"),
                *("--listen", address, "--out", os.path.join(folder, "out"), "--quiet"),
            ]
            os.chmod(folder, 0o700)
            node = subprocess.Popen(command, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
            try:
                until("its socket", lambda: os.path.exists(address[len("unix:") :]))
                status = until("an edge", lambda: self.status_with_edges(address))
                self.assertEqual(status.rows[0]["ranks"], [0, 1])
            finally:
                node.terminate()
                node.wait()
            with self.assertRaises(RuntimeError):
                grapevine.status(address)

    @staticmethod
    def status_with_edges(address):
        try:
            status = grapevine.status(address)
        except RuntimeError:  # the socket is there a moment before somebody listens
            return None
        return status if status["edges"] else None


if __name__ == "__main__":
    unittest.main()
