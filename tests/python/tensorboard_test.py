"""What --tensorboard writes, as TensorBoard's own reader has it. Needs no torch."""

import importlib.util
import math
import os
import tempfile
import unittest

import grapevine

HAS_READER = importlib.util.find_spec("tensorboard") is not None


@unittest.skipUnless(HAS_READER, "tensorboard cannot be imported")
class EventFiles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="gv-")
        out = os.path.join(cls.folder.name, "run")
        cls.told = grapevine.simulate(
            ranks=4, objective="quadratic", noise=0.1, until=20, sample_seconds=5, out=out,
            tensorboard=True,
        )
        cls.events = os.path.join(out, "tensorboard")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def read(self, name):
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        read = EventAccumulator(os.path.join(self.events, name))
        read.Reload()
        return read

    def test_the_curves_of_the_mean_are_those_of_the_run(self):
        mean = self.read("mean")
        rows = [row for row in self.told.rows if row["loss"] is not None]
        losses = mean.Scalars("loss")
        self.assertEqual([e.step for e in losses], [row["gradients"] for row in rows])
        for event, row in zip(losses, rows):
            self.assertTrue(math.isclose(event.value, row["loss"], rel_tol=1e-6))
        self.assertGreater(mean.Scalars("exchanges")[-1].value, 0)

    def test_each_rank_has_a_run_of_its_own(self):
        for rank in range(4):
            read = self.read(f"rank-{rank}")
            self.assertGreater(read.Scalars("gradients")[-1].value, 0)

    def test_the_settings_are_hyper_parameters(self):
        from tensorboard.plugins.hparams import plugin_data_pb2

        content = self.read("mean").SummaryMetadata("_hparams_/session_start_info")
        self.assertEqual(content.plugin_data.plugin_name, "hparams")
        data = plugin_data_pb2.HParamsPluginData.FromString(content.plugin_data.content)
        settings = data.session_start_info.hparams
        self.assertEqual(settings["method"].string_value, "a2cid2")
        self.assertEqual(settings["noise"].number_value, 0.1)
        self.assertFalse(settings["nesterov"].bool_value)


if __name__ == "__main__":
    unittest.main()
