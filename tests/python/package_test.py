"""The package `grapevine-guest`: a pure, typed wheel from its folder. Needs no torch."""

import ast
import glob
import graphlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, "app", "python")


class Package(unittest.TestCase):
    @unittest.skipUnless(
        all(importlib.util.find_spec(name) for name in ("pip", "setuptools", "wheel")),
        "pip, setuptools or wheel cannot be imported",
    )
    def test_the_folder_builds_one_pure_typed_wheel(self):
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "source")  # setuptools leaves traces there
            subprocess.run(["cp", "-r", FOLDER, source], check=True)
            command = [
                *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index"),
                *("--no-build-isolation", "--wheel-dir", folder, source),
            ]
            subprocess.run(command, check=True, capture_output=True)
            (wheel,) = glob.glob(folder + "/*.whl")
            self.assertRegex(os.path.basename(wheel), "^grapevine_guest-.*-py3-none-any.whl$")
            names = zipfile.ZipFile(wheel).namelist()
            self.assertIn("grapevine/py.typed", names)
            self.assertIn("grapevine/rank.py", names)
            code = "import sys; sys.path[:0] = [%r]; import grapevine as g; print(g.join.__doc__)"
            if importlib.util.find_spec("torch"):
                ran = subprocess.run(
                    [sys.executable, "-I", "-c", code % wheel], capture_output=True, text=True
                )
                self.assertIn("Joins the run of a node", ran.stdout)

    def test_what_needs_no_torch_is_imported_without_it(self):
        code = (
            "import sys; sys.path.insert(0, %r); sys.modules['torch'] = None; import grapevine; "
            "print(sorted(n for n in grapevine.__all__ if n in vars(grapevine)))" % FOLDER
        )
        ran = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
        self.assertIn("simulate", ran.stdout)
        self.assertNotIn("join", ran.stdout)

    def test_no_two_modules_import_each_other_and_be_it_for_their_types(self):
        arrows = {}
        for path in glob.glob(FOLDER + "/grapevine/*.py"):
            with open(path) as file:
                tree = ast.walk(ast.parse(file.read()))
            froms = [n for n in tree if isinstance(n, ast.ImportFrom) and n.level == 1]
            name = os.path.basename(path)[: -len(".py")]
            arrows[name] = {m for n in froms for m in [n.module or n.names[0].name]}
        self.assertIn("wire", arrows["rank"])
        graphlib.TopologicalSorter(arrows).prepare()  # raises where there is a circle

    def test_lines_have_at_most_a_hundred_columns(self):
        here = os.path.dirname(os.path.abspath(__file__))
        folders = (FOLDER, os.path.join(FOLDER, "grapevine"), here)
        for path in (path for folder in folders for path in glob.glob(folder + "/*.py")):
            with open(path, encoding="utf-8") as file:
                for number, line in enumerate(file, 1):
                    self.assertLessEqual(len(line.rstrip("\n")), 100, f"{path}:{number}")


if __name__ == "__main__":
    unittest.main()
