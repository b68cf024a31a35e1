"""The package for scripts, as its files stand there. Needs no torch."""

import ast
import glob
import graphlib
import os
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, "app", "python")


class Package(unittest.TestCase):
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


if __name__ == "__main__":
    unittest.main()
