#!/usr/bin/env python3
"""gpu.sh and its steps where no GPU is: scripts that print what programs do stand for a build."""
import json
import os
import pathlib
import select
import subprocess
import sys
import tarfile
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import gpu_steps

TESTS = "All tests passed (5120 assertions in 4 test cases)\n"
FACTS = """fact learn                  yes: us after 100 us of work: a bell on a twin stream 31.0
fact priority               NO: a jump of 44.7 MB: alone 88 us | beside a full GPU 900 us
fact copy                   GB/s of 400 MiB: within the GPU 3010
fact vmm                    no answer: sharing.cpp:40: out of memory
1 questions without an answer
"""
PASSES = """A GPU, {} MB a vector, fp32
pass                words     GB/s  of the copy
device copy             2   3000.0         1.00
extrapolate, no x~      2   2900.5         0.97
mix_and_jump            6   2000.0         {}
"""
TRAINING = "".join(
    f"row {name:<36}  ours {ours:.1f} other 100.0 ratio {ours / 100:.3f} required 0.95"
    "  (1.00 exchanges a step)\n" for name, ours in (
        ("lone fp32 128", 99), ("lone bf16 128", 98), ("lone fp32 32", 97), ("lone bf16 32", 96),
        ("with a partner on the CPU, fp32 128", 95.5), ("64 ranks, fp32 32", 95),
        ("64 ranks, fp32 32 beside no exchanges", 96)))
TRAINED = {"accuracy": 0.7, "seconds": 12.0, "consensus_distance": 0.01, "gradients": 4000}
DEVICES = json.dumps({"healthy": True, "devices": {"gpus": [{"name": "A GPU"}]}})


class Build:
    """Programs of a build, each a text that it prints and the status that it ends with."""

    def __init__(self, folder, **programs):
        self.folder = pathlib.Path(folder)
        (self.folder / "bin").mkdir()
        for name, (text, status) in programs.items():
            self.add("grapevine" if name == "grapevine" else f"bin/{name}",
                     f"cat <<'END'\n{text}\nEND\nexit {status}\n")

    def add(self, name, script):
        path = self.folder / name
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(0o755)
        return path

    def log(self, step):
        with tarfile.open(self.folder / "out" / "logs.tar.gz") as logs:
            return logs.extractfile(f"logs/{step}.log").read().decode()

    def run(self, *steps, **environment):
        done = subprocess.run(
            [sys.executable, HERE / "gpu_steps.py", self.folder, self.folder / "out", *steps],
            env={**os.environ, **environment}, capture_output=True, text=True)
        report = self.folder / "out" / "gpu.json"
        self.report = json.loads(report.read_text()) if report.exists() else None
        self.steps = {step["step"]: step for step in self.report["steps"]} if self.report else {}
        return done


def ends(process):
    """Whether it does within a minute; one that nobody has asked after yet has ended, too."""
    try:
        handle = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], 60)[0])
    finally:
        os.close(handle)


class StepsTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name

    def test_every_step_that_is_built_is_run_and_the_others_are_left_out(self):
        build = Build(self.folder, kernels_test=(TESTS, 0), grapevine=(DEVICES, 0))
        done = build.run(COMPUTE_SANITIZER="", PATH="/bin:/usr/bin", GRAPEVINE_TEST_DATA="/nowhere")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(list(build.steps), ["doctor", "tests"])
        self.assertTrue(build.steps["tests"]["holds"])
        self.assertEqual(build.steps["tests"]["figures"], {"cases": 4})
        text = (build.folder / "out" / "gpu.md").read_text()
        self.assertIn("| equality: passes on CUDA = CPU, to the bit | tests | All tests", text)
        self.assertNotIn("compute-sanitizer", text)

    def test_tests_that_were_skipped_or_failed_have_shown_nothing(self):
        for text, status in (("SKIPPED: a pass: no CUDA device\n" + TESTS, 0), ("Segfault", 139),
                             ("test cases: 4 | 3 passed | 1 failed\n", 1)):
            self.assertFalse(gpu_steps.read_tests(text, status).holds, text)

    def test_a_fact_that_says_no_is_an_answer_and_one_without_an_answer_is_named(self):
        answered = FACTS.replace("no answer: ", "")
        self.assertTrue(gpu_steps.read_facts(answered, 0).holds)
        found = gpu_steps.read_facts(FACTS, 1)
        self.assertFalse(found.holds)
        self.assertEqual(found.words, "1 NO, 1 for the record, 1 no answer, 1 yes")
        self.assertTrue(found.figures["priority"].startswith("NO: a jump"))

    def test_a_pass_far_below_a_copy_is_named(self):
        good = PASSES.format(400, 0.91) + PASSES.format(4, 0.75)
        found = gpu_steps.read_passes(good, 0)
        self.assertTrue(found.holds, found)
        self.assertEqual(found.figures["400 MB"]["mix_and_jump"],
                         {"words": 6, "gb_per_s": 2000.0, "of_the_copy": 0.91})
        slow = gpu_steps.read_passes(PASSES.format(400, 0.89) + PASSES.format(4, 0.75), 0)
        self.assertFalse(slow.holds)
        self.assertIn("at least 0.89 of a copy (mix_and_jump)", slow.words)
        dot = PASSES.replace("mix_and_jump", "dot         ")
        short = gpu_steps.read_passes(dot.format(400, 0.91) + dot.format(4, 0.2), 0)
        self.assertTrue(short.holds, short)
        self.assertEqual(short.figures["4 MB"]["dot"]["of_the_copy"], 0.2)
        self.assertFalse(gpu_steps.read_passes(dot.format(400, 0.2) + dot.format(4, 0.9), 0).holds)
        one_size = gpu_steps.read_passes(PASSES.format(400, 0.95), 0)
        self.assertFalse(one_size.holds)

    def test_links_in_place_gain_a_fifth_and_survive_the_kill(self):
        text = ("exchange of 44.7 MB by host      9.000 ms\n"
                "exchange of 44.7 MB in place     1.500 ms\n"
                "in place/host {}, kill -9 of the exporter {}\n")
        good = gpu_steps.read_links(text.format("1.21", "survived"), 0)
        self.assertTrue(good.holds, good)
        self.assertEqual(good.figures, {"by host": [9.0], "in place": [1.5]})
        self.assertFalse(gpu_steps.read_links(text.format("1.19", "survived"), 0).holds)
        self.assertFalse(gpu_steps.read_links(text.format("1.21", "NOT survived"), 1).holds)
        skipped = gpu_steps.read_links("SKIPPED: no CUDA device: two processes\n", 77)
        self.assertFalse(skipped.holds)
        self.assertIn("no CUDA device", skipped.words)

    def test_training_that_is_slower_than_required_is_named(self):
        found = gpu_steps.read_training(TRAINING, 0)
        self.assertTrue(found.holds, found)
        self.assertEqual(found.figures["64 ranks, fp32 32"]["samples_per_s"], 95)
        slow = gpu_steps.read_training(TRAINING.replace("ratio 0.970", "ratio 0.940"), 0)
        self.assertFalse(slow.holds)
        self.assertEqual(slow.words, "lone fp32 32: 0.940 < 0.95")
        self.assertFalse(gpu_steps.read_training(TRAINING, 1).holds)
        self.assertFalse(gpu_steps.read_training("no row\n", 0).holds)

    def test_a_process_that_loses_its_gpu_must_be_the_only_one_that_is_lost(self):
        said = "lost: yes; gone after 3.4 s; the other's ranks took 900 gradients before and 1200"
        self.assertTrue(gpu_steps.read_lost("a line\n" + said + "\n", 0).holds)
        self.assertFalse(gpu_steps.read_lost(said, 1).holds)
        self.assertFalse(gpu_steps.read_lost(said.replace("yes", "NO"), 0).holds)

    def test_two_methods_train_side_by_side_and_stand_in_the_report(self):
        data = pathlib.Path(self.folder) / "cifar10"
        data.mkdir()
        build = Build(self.folder)
        build.add("grapevine",
                  f"echo \"$@\" >>{self.folder}/asked; echo '{json.dumps(TRAINED)}'\n")
        done = build.run("cifar", GRAPEVINE_TEST_DATA=self.folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        figures = build.steps["cifar"]["figures"]
        self.assertEqual(figures, {"a2cid2": TRAINED, "all_reduce": TRAINED})
        self.assertIn("| a2cid2 | 0.7 | 12.0 |", (build.folder / "out" / "gpu.md").read_text())
        asked = (build.folder / "asked").read_text()
        for words in ("--ranks 16", "--epochs 5", "--topology ring", "--model resnet18",
                      "--device cuda", f"--data {data}"):
            self.assertEqual(asked.count(words), 2, asked)
        build.add("grapevine", "echo 'no GPU 0'; exit 2\n")
        done = build.run("cifar", GRAPEVINE_TEST_DATA=self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(build.run("cifar", GRAPEVINE_TEST_DATA="/nowhere").returncode, 1)

    def test_a_sanitizer_is_clean_only_where_it_has_counted_nothing(self):
        read = gpu_steps.read_sanitizer
        self.assertTrue(read(TESTS + "========= ERROR SUMMARY: 0 errors\n", 0).holds)
        self.assertTrue(read("========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 "
                             "warnings)\n", 0).holds)
        self.assertFalse(read("========= ERROR SUMMARY: 3 errors\n", 99).holds)
        self.assertFalse(read("========= ERROR SUMMARY: 0 errors\n", 1).holds)  # the tests failed
        refused = read("========= COMPUTE-SANITIZER\n========= Error: Device not supported\n", 0)
        self.assertFalse(refused.holds)
        self.assertEqual(refused.words, "Error: Device not supported")

    def test_sanitizers_run_over_the_tests(self):
        build = Build(self.folder, kernels_test=(TESTS, 0))
        tool = build.add("tool", 'echo "$@"; echo "========= ERROR SUMMARY: 0 errors"\n')
        self.assertEqual(build.run("racecheck", COMPUTE_SANITIZER=str(tool)).returncode, 0)
        log = build.log("racecheck")
        self.assertIn("--tool racecheck --error-exitcode 99", log)
        self.assertIn("kernels_test [gpu]~[large]", log)
        self.assertEqual(build.run("memcheck", COMPUTE_SANITIZER=str(tool)).returncode, 0)
        self.assertIn("--tool memcheck --report-api-errors no --error-exitcode 99",
                      build.log("memcheck"))

    def test_a_step_that_hangs_is_killed_with_its_children_and_named_and_the_others_go_on(self):
        build = Build(self.folder, gpu_facts=(FACTS, 1))
        child = build.folder / "child"
        hangs = build.add("bin/kernels_test", f"sleep 600 & echo $! >{child}; wait\n")
        step = gpu_steps.STEPS[1]._replace(limit_s=1)
        (build.folder / "out").mkdir()
        result = gpu_steps.perform(step, [str(hangs)], build.folder, build.folder / "out")
        self.assertFalse(result["holds"])
        self.assertEqual(result["ended"], "no end within 1 s")
        self.assertTrue(ends(int(child.read_text())))
        done = build.run("facts")
        self.assertEqual(done.returncode, 1)
        self.assertIn("1 no answer", done.stdout)
        self.assertIn("alone 88 us \\| beside", (build.folder / "out" / "gpu.md").read_text())

    def test_a_step_that_nobody_knows_is_refused_in_one_line(self):
        done = Build(self.folder).run("nonsense")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn("nonsense", done.stderr)

    def test_what_would_not_end_in_time_is_left_out_and_what_was_found_before_stands(self):
        build = Build(self.folder, kernels_test=(TESTS, 0), gpu_facts=(FACTS, 0))
        limits = {step.name: step.limit_s for step in gpu_steps.STEPS}
        within = max(limits["tests"], limits["facts"]) - 1
        done = build.run("tests", "facts", GPU_WITHIN=str(within))
        self.assertIn("facts       left out: it may take", done.stdout)
        self.assertEqual(list(build.steps), ["tests"])
        self.assertIn("All tests passed", build.log("tests"))
        self.assertEqual(len(list((build.folder / "out").iterdir())), 3)

    def test_steps_run_in_the_order_in_which_they_are_asked_for(self):
        build = Build(self.folder, kernels_test=(TESTS, 0), gpu_facts=(FACTS, 0))
        build.run("facts", "tests")
        self.assertEqual(list(build.steps), ["facts", "tests"])

    def test_programs_from_elsewhere_have_their_own_libraries_and_commit(self):
        build = Build(self.folder)
        build.add("bin/kernels_test", f"echo $LD_LIBRARY_PATH; echo '{TESTS.strip()}'\n")
        build.run("tests", GPU_LIBRARIES="/pack/lib", GPU_COMMIT="abc1234")
        self.assertTrue(build.steps["tests"]["holds"])
        self.assertTrue(build.log("tests").startswith("/pack/lib\n"))
        self.assertEqual(build.report["commit"], "abc1234")

    def test_where_no_gpu_is_the_command_says_so_in_one_line_and_ends_with_77(self):
        Build(self.folder).add("bin/nvidia-smi", "echo 'No devices were found'; exit 6\n")
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        done = subprocess.run([HERE / "gpu.sh"], env={**os.environ, "PATH": path},
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 77)
        self.assertEqual(done.stdout, "SKIPPED: no CUDA device: nvidia-smi names none\n")
        self.assertEqual(done.stderr, "")


if __name__ == "__main__":
    unittest.main()
