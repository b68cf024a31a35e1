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
from deploy_lives import Container, JobSet, Kubernetes, SkyPilot, Slurm, Systemd  # noqa: F401
from deploy_tools import DEPLOY, PATIENCE_S, PROGRAM, objects_in, run, text_of


def options_in(text):
    """Those of `grapevine node` in a text."""
    return set(re.findall(r"(?<=[\s\"])--[a-z-]+", text[re.search(r" node\s", text).end():]))


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
        for name in ("grapevine@.service", "slurm.sh", "kubernetes.yaml", "jobset.yaml",
                     "skypilot.yaml", "ray_nodes.py"):
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

    def check_pods(self, template, replicas, budget, volumes=()):
        """What a manifest's parts say of each other, and what a careful cluster asks of a pod."""
        spec = template["spec"]
        self.assertEqual(budget["spec"]["selector"]["matchLabels"], template["metadata"]["labels"])
        container, = spec["containers"]
        mounts = {m["name"] for m in container["volumeMounts"]}
        self.assertEqual(mounts, {v["name"] for v in spec["volumes"]} | set(volumes))
        words = container["args"][0].split()
        total, ranks = (int(words[words.index(o) + 1]) for o in ("--total-ranks", "--ranks"))
        self.assertEqual(total, ranks * replicas)
        ports = {p["name"]: p["containerPort"] for p in container["ports"]}
        self.assertEqual(words[words.index("--metrics") + 1], f"$ADDRESS:{ports['metrics']}")
        self.assertEqual(words[words.index("--listen") + 1], f"$ADDRESS:{ports['links']}")
        self.assertEqual(container["livenessProbe"]["httpGet"]["path"], "/healthz")
        self.assertEqual(container["readinessProbe"]["httpGet"]["path"], "/readyz")
        self.assertTrue(spec["securityContext"]["runAsNonRoot"])
        self.assertGreater(spec["securityContext"]["runAsUser"], 0)
        self.assertTrue(container["securityContext"]["readOnlyRootFilesystem"])
        self.assertFalse(container["securityContext"]["allowPrivilegeEscalation"])
        self.assertEqual(container["securityContext"]["capabilities"], {"drop": ["ALL"]})
        self.assertLessEqual({"cpu", "memory"}, set(container["resources"]["requests"]))

    @unittest.skipUnless(importlib.util.find_spec("yaml"), "no module yaml here")
    def test_kubernetes_objects_belong_together(self):
        objects = objects_in("kubernetes.yaml")
        service, nodes = objects["Service"], objects["StatefulSet"]["spec"]
        self.assertEqual(service["metadata"]["name"], nodes["serviceName"])
        self.assertEqual(service["spec"]["clusterIP"], "None")
        self.assertEqual(service["spec"]["selector"], nodes["selector"]["matchLabels"])
        self.assertEqual(nodes["selector"]["matchLabels"], nodes["template"]["metadata"]["labels"])
        claims = {c["metadata"]["name"] for c in nodes["volumeClaimTemplates"]}
        budget = objects["PodDisruptionBudget"]
        self.check_pods(nodes["template"], nodes["replicas"], budget, claims)

    @unittest.skipUnless(importlib.util.find_spec("yaml"), "no module yaml here")
    def test_the_objects_of_a_jobset_belong_together(self):
        objects = objects_in("jobset.yaml")
        spec = objects["JobSet"]["spec"]
        self.assertTrue(spec["network"]["enableDNSHostnames"])
        replicated, = spec["replicatedJobs"]
        job = replicated["template"]["spec"]
        self.assertEqual(job["completions"], job["parallelism"])
        self.check_pods(job["template"], job["completions"], objects["PodDisruptionBudget"])

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
