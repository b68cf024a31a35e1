"""The program `grapevine`, called from Python: simulations, graphs, comparisons, a node's status.

It is found by `$GRAPEVINE`, in the wheel that this package came with, then in `PATH`. What comes
back is the object that `--json` prints: a dict, whose names `app/JSON.md` explains, with `frame()`
where pandas can be imported and `plot()` where matplotlib can. Options are those of the command
(`grapevine simulate --help`), with `_` for `-`.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import tempfile
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

Option = Union[str, int, float, bool, Sequence[Union[str, int, float, bool]]]


# The path of the program in a wheel.
BESIDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "grapevine")


class Result(Dict[str, Any]):
    """What the program printed. `rows` is its table, of which `frame` and `plot` are made."""

    rows: List[Dict[str, Any]]

    def __init__(
        self,
        values: Mapping[str, Any],
        rows: Sequence[Mapping[str, Any]],
        curves: Optional[Mapping[str, Sequence[Tuple[float, float]]]] = None,
        axes: Tuple[str, str] = ("", ""),
    ) -> None:
        super().__init__(values)
        self.rows = [dict(row) for row in rows]
        self._curves = {name: list(points) for name, points in (curves or {}).items()}
        self._axes = axes

    def frame(self) -> Any:
        """`rows` as a pandas data frame; ImportError without pandas."""
        return importlib.import_module("pandas").DataFrame(self.rows)

    def plot(self, axes: Any = None, logarithmic: bool = True) -> Any:
        """The curves, drawn on matplotlib `axes` (or new ones), which are returned."""
        if axes is None:
            axes = importlib.import_module("matplotlib.pyplot").subplots()[1]
        for name, points in self._curves.items():
            shown = [(x, y) for x, y in points if y is not None]
            axes.plot([x for x, _ in shown], [y for _, y in shown], label=name)
        axes.set_xlabel(self._axes[0])
        axes.set_ylabel(self._axes[1])
        if logarithmic:
            axes.set_yscale("log")
        if len(self._curves) > 1:
            axes.legend()
        return axes


def simulate(**options: Option) -> Result:
    """Runs the actors on the virtual clock: `simulate(topology="ring", ranks=64, target=1e-3)`.

    Repeatable to the bit. Rows are the samples, if `sample_seconds` asked for some. Raises
    ValueError with the program's line if it refuses an option.
    """
    values = _call("simulate", options)
    samples = values.get("samples", [])
    points = [(sample["at"], sample["consensus_distance"]) for sample in samples]
    named = "%s on %s" % (values["method"], values["topology"])
    return Result(values, samples, {named: points}, ("seconds", "consensus distance"))


def topology(spec: str = "ring", **options: Option) -> Result:
    """A graph: degrees, spectrum, chi1, chi2, eta, alpha~: `topology("torus:4x8", ranks=32)`.

    A row is a rank with its degree, and the eigenvalue of the same place in the spectrum.
    """
    values = _call("topology", {"topology": spec, **options})
    spectrum = list(zip(values["degrees"], values["eigenvalues"]))
    rows = [
        {"rank": rank, "degree": degree, "eigenvalue": eigenvalue}
        for rank, (degree, eigenvalue) in enumerate(spectrum)
    ]
    points = [(float(row["rank"]), row["eigenvalue"]) for row in rows[1:]]
    return Result(values, rows, {spec: points}, ("place", "eigenvalue of the Laplacian"))


def compare(
    job: Union[str, Mapping[str, Any], None] = None,
    methods: Sequence[Mapping[str, Any]] = (),
    out: Optional[str] = None,
    threads: int = 0,
    **options: Option,
) -> Result:
    """Methods x lists of options x seeds: `compare(methods=[{"name": "d_psgd"}], seeds=3, lr=0.1)`.

    job       a job file, or its content as a dict; or give `methods` and options
    methods   a dict each: `name`, `label`, and any option in place of the shared one
    out       the folder of the results, from which the next call resumes; None: a temporary one
    threads   how many runs at a time; 0: one per core

    A row is a run, with its figures.
    """
    with tempfile.TemporaryDirectory(prefix="grapevine-") as folder:
        if not isinstance(job, str):
            content = {**(job or {}), **options}
            content["method"] = [*content.get("method", []), *methods]
            job = os.path.join(folder, "job.toml")
            with open(job, "w", encoding="utf-8") as file:
                file.write(_toml(content))
        elif options or methods:
            raise ValueError("compare is given a job file and options, accepted: one of the two")
        results = out or os.path.join(folder, "results")
        values = _call("compare", {"job": job, "out": results, "threads": threads})
        curves = {}
        for cell in values["cells"]:
            points = _curve(os.path.join(values["results"], cell["file"]), values["measure"])
            if points:
                curves["%s, seed %d" % (cell["group"], cell["seed"])] = points
    return Result(values, values["cells"], curves, ("virtual seconds", values["measure"]))


def status(address: str, key: Optional[str] = None) -> Result:
    """What a node knows of its run: `status("a")`, a name, host:port or unix:/path.

    A row is an edge of a rank of that node. `key` is the file of the run's key, if it has one.
    """
    options: Dict[str, Option] = {"address": address, "verb": "status"}
    if key is not None:
        options["key"] = key
    values = _call("ctl", options)
    return Result(values, values.get("edges", []))


def program() -> str:
    """The path of `grapevine`."""
    named = os.environ.get("GRAPEVINE", "grapevine")
    in_wheel = BESIDE if "GRAPEVINE" not in os.environ and os.path.exists(BESIDE) else None
    found = in_wheel or shutil.which(named)
    if found is None:
        raise FileNotFoundError(
            "%s: no such program; set GRAPEVINE to the path of `grapevine`, or put it in PATH"
            % named
        )
    return found


def option_words(command: str, options: Mapping[str, Option]) -> List[str]:
    """The options as words of a command line."""
    words = []
    for name, value in options.items():
        option = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(("--" if value else "--no-") + option)
        elif isinstance(value, (list, tuple)):
            raise ValueError(
                "%s: %s is a list, accepted: one value (compare takes lists)" % (command, name)
            )
        else:
            words += ["--" + option, str(value)]
    return words


def _call(command: str, options: Mapping[str, Option]) -> Dict[str, Any]:
    """What a command prints. Raises ValueError if it refuses an option, RuntimeError if it fails,
    both with its line."""
    words = [program(), command, "--json", *option_words(command, options)]
    ran = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if ran.returncode == 0:
        values: Dict[str, Any] = json.loads(ran.stdout)
        return values
    lines = ran.stderr.strip().splitlines() or ["it ended with status %d" % ran.returncode]
    if ran.returncode == 2:
        raise ValueError(lines[-1])
    raise RuntimeError(lines[-1])


def _curve(path: str, measure: str) -> List[Tuple[float, float]]:
    """The samples of a cell of `compare`."""
    try:
        with open(path, encoding="utf-8") as file:
            samples = json.load(file)["result"].get("samples", [])
    except (OSError, ValueError):
        return []  # a run that has failed has no file
    return [(sample["at"], sample[measure]) for sample in samples]


def _toml(content: Mapping[str, Any]) -> str:
    """A job file. JSON's strings, numbers and lists are TOML's."""
    lines = ["%s = %s" % (key, json.dumps(v)) for key, v in content.items() if key != "method"]
    for method in content.get("method", []):
        lines += ["[[method]]", *("%s = %s" % (key, json.dumps(v)) for key, v in method.items())]
    return "\n".join(lines) + "\n"
