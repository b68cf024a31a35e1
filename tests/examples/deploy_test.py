"""The files of examples/deploy, with what can be had without a cluster: deploy_test.py PROGRAM."""

import glob
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

# Every class of tests that is a name here is run.
from deploy_lives import Container, Kubernetes, Slurm, Systemd  # noqa: F401
from deploy_tools import DEPLOY, PATIENCE_S, PROGRAM, run, text_of


def options_in(text):
    """Those of `grapevine node` in a text."""
    return set(re.findall(r"(?<=\s)--[a-z-]+", text[re.search(r" node\s", text).end():]))


def options_of_node():
    return set(re.findall(r"--[a-z][a-z-]*", run(PROGRAM, "node", "--help").stdout))


class Files(unittest.TestCase):
    @unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd-analyze here")
    def test_systemd_takes_the_unit(self):
        unit = text_of("grapevine@.service").replace("/usr/local/bin/grapevine", PROGRAM)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "grapevine@a.service")
            with open(path, "w", encoding="utf-8") as file:
                file.write(unit)
            verdict = run("systemd-analyze", "verify", path)
        self.assertEqual((verdict.returncode, verdict.stderr), (0, ""))

    def test_each_file_gives_node_options_that_it_has(self):
        known = options_of_node()
        for name in ("grapevine@.service", "slurm.sh", "kubernetes.yaml"):
            exec_line = "\n".join(
                line for line in text_of(name).splitlines() if not line.lstrip().startswith("#")
            )
            self.assertLessEqual(options_in(exec_line), known, name)

    def test_the_shell_takes_the_script(self):
        checkers = [["bash", "-n"]]
        if shutil.which("shellcheck"):
            checkers.append(["shellcheck"])
        for checker in checkers:
            verdict = run(*checker, os.path.join(DEPLOY, "slurm.sh"))
            self.assertEqual((verdict.returncode, verdict.stdout), (0, ""))

    @unittest.skipUnless(importlib.util.find_spec("yaml"), "no module yaml here")
    def test_kubernetes_objects_belong_together(self):
        import yaml

        service, nodes = yaml.safe_load_all(text_of("kubernetes.yaml"))
        spec = nodes["spec"]["template"]["spec"]
        self.assertEqual(service["metadata"]["name"], nodes["spec"]["serviceName"])
        self.assertEqual(service["spec"]["selector"], nodes["spec"]["selector"]["matchLabels"])
        volumes = {v["name"] for v in spec["volumes"] + nodes["spec"]["volumeClaimTemplates"]
                   if "name" in v}
        volumes |= {c["metadata"]["name"] for c in nodes["spec"]["volumeClaimTemplates"]}
        mounts = {m["name"] for m in spec["containers"][0]["volumeMounts"]}
        self.assertLessEqual(mounts, volumes)
        words = spec["containers"][0]["args"][0].split()
        total = int(words[words.index("--total-ranks") + 1])
        ranks = int(words[words.index("--ranks") + 1])
        self.assertEqual(total, ranks * nodes["spec"]["replicas"])

    def test_the_dashboard_shows_metrics_that_a_node_has(self):
        wanted = set(re.findall(r"grapevine_[a-z_]+", text_of("grafana-dashboard.json")))
        self.assertGreater(len(wanted), 15)
        self.assertEqual(json.loads(text_of("grafana-dashboard.json"))["title"], "Grapevine")
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "XDG_RUNTIME_DIR": folder}
            node = subprocess.Popen(
                [PROGRAM, "node", "--objective", "quadratic", "--ranks", "2", "--until", "600",
                 "--gradients", "0", "--threads", "1", "--no-save", "--quiet", "--node-name", "a"],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env=environment,
            )
            try:
                end = time.monotonic() + PATIENCE_S
                while True:  # the loss is there after the first sample
                    page = run(PROGRAM, "ctl", "a", "metrics", env=environment).stdout
                    missing = wanted - set(re.findall(r"^# TYPE (\S+)", page, re.MULTILINE))
                    if not missing or time.monotonic() > end:
                        break
                self.assertEqual(missing, set())
            finally:
                node.kill()
                node.wait()

    def test_the_page_names_every_file(self):
        page = text_of("README.md")
        for path in glob.glob(os.path.join(DEPLOY, "*")):
            name = os.path.basename(path)
            if name not in ("README.md", "Containerfile.dockerignore"):
                self.assertIn(f"`{name}`", page)


class Outcome(unittest.TextTestResult):
    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        print(f"SKIPPED: {test.id().split('.')[-1].replace('_', ' ')}: {reason}", flush=True)


if __name__ == "__main__":
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__])
    outcome = unittest.TextTestRunner(sys.stdout, resultclass=Outcome, verbosity=2).run(suite)
    failed = len(outcome.failures) + len(outcome.errors)
    passed = outcome.testsRun - failed - len(outcome.skipped)
    print(f"test cases: {outcome.testsRun} | {passed} passed | {failed} failed")
    sys.exit(0 if outcome.wasSuccessful() else 1)
