#!/usr/bin/env python3
"""The steps of gpu.sh: runs them one by one, each with a time limit, and writes what they gave.

    tests/bench/gpu_steps.py BUILD FOLDER [STEP...]    into FOLDER/gpu.json and gpu.md
    tests/bench/gpu_steps.py --programs                what the steps run

A step is a line of STEPS: its name, the claim that it shows, its limit in seconds, what it runs in
BUILD, and what reads the output. They run in the order in which they are asked for. A step whose
program is not built is left out, and so is one that might not end within GPU_WITHIN seconds of the
first. One that does not end in time is killed and named, and the others go on. All files (the two
and logs.tar.gz) are written after every step: whoever is stopped half-way has what was found till
then. Status 1 where a step that was run did not hold.
"""
import collections
import datetime
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

AFTER_KILL_S = 10

# The result of reading an output: whether the claim holds, the finding in words, and the figures.
Found = collections.namedtuple("Found", "holds words figures")
Step = collections.namedtuple("Step", "name claim limit_s command read")


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it says nothing"


def read_tests(text, status):
    """Catch2's last line; a test that was skipped has shown nothing."""
    skipped = re.findall(r"^SKIPPED: .*$", text, re.M)
    count = re.search(r"All tests passed \(.* in (\d+) test case", text)
    holds = status == 0 and count is not None and not skipped
    figures = {"cases": int(count[1])} if count else {}
    return Found(holds, skipped[0] if skipped else last_line(text), figures)


def read_sanitizer(text, status):
    """What compute-sanitizer counts at its end; where it counts nothing, why."""
    summary = re.findall(r"SUMMARY: (.*)$", text, re.M)
    told = [line.strip("= ") for line in text.splitlines() if line.startswith("=====")]
    words = summary[-1] if summary else (told[-1] if told else last_line(text))
    return Found(status == 0 and words.startswith("0 "), words, {})


def read_facts(text, status):
    """The lines `fact NAME  answer`; a NO holds, too: it is an answer."""
    facts = dict(re.findall(r"^fact (\S+) +(.*)$", text, re.M))
    kinds = collections.Counter(verdict_of(answer) for answer in facts.values())
    words = ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items()))
    return Found(status == 0, words or last_line(text), facts)


def verdict_of(answer):
    for word in ("yes", "NO", "no answer"):
        if answer.startswith(word):
            return word
    return "for the record"


LEAST_OF_COPY = {400: 0.9, 4: 0.7}  # by the MB of a vector
SHORT_MB = 10  # here the host's calls take longer than the work of a pass of two launches
TWO_LAUNCHES = {"mix_and_take", "dot", "all_finite"}


def read_passes(text, status):
    """The tables of kernels_cuda_bench, one for each size; no pass may be far below a copy, but for
    short ones of two launches, which are told and not judged."""
    figures, worst, size = {}, {}, None
    for line in text.splitlines():
        if header := re.match(r".*, (\S+) MB a vector", line):
            size = float(header[1])
        elif size and (row := re.match(r"(\S.*?) +(\d+) +([\d.]+) +([\d.]+)$", line)):
            figures.setdefault(f"{size:g} MB", {})[row[1]] = {
                "words": int(row[2]), "gb_per_s": float(row[3]), "of_the_copy": float(row[4])}
            judged = size > SHORT_MB or row[1] not in TWO_LAUNCHES
            if judged and (size not in worst or float(row[4]) < worst[size][0]):
                worst[size] = float(row[4]), row[1]
    words = "; ".join(f"{size:g} MB: at least {share:.2f} of a copy ({name})"
                      for size, (share, name) in worst.items())
    holds = status == 0 and worst.keys() >= LEAST_OF_COPY.keys() and all(
        worst[size][0] >= least for size, least in LEAST_OF_COPY.items())
    return Found(holds, words or last_line(text), figures)


LEAST_IN_PLACE = 1.2  # times as fast as by the host's memory, or it is not worth its code


def read_links(text, status):
    """The last line of vmm_bench, and an exchange's milliseconds each way."""
    row = re.search(r"^in place/host ([\d.]+), kill -9 of the exporter (.*)$", text, re.M)
    times = re.findall(r"^exchange of \S+ MB (in place|by host) +([\d.]+) ms$", text, re.M)
    figures = {way: [float(ms) for name, ms in times if name == way] for way, _ in times}
    holds = status == 0 and row is not None and float(row[1]) >= LEAST_IN_PLACE
    return Found(holds, row[0] if row else last_line(text), figures)


def read_training(text, status):
    """The rows of gpu_training_bench: none may be below what it requires."""
    rows, figures = re.findall(r"^row (.+?) +ours (\S+) other (\S+) ratio (\S+) required (\S+)"
                               r"  \((\S+) exchanges a step\)$", text, re.M), {}
    for name, *numbers in rows:
        keys = ["samples_per_s", "of_the_other", "ratio", "required", "exchanges_a_step"]
        figures[name] = dict(zip(keys, map(float, numbers)))
    short = [f"{name}: {row['ratio']:.3f} < {row['required']:.2f}"
             for name, row in figures.items() if row["ratio"] < row["required"]]
    words = "; ".join(short or [f"{name}: {row['ratio']:.3f}" for name, row in figures.items()])
    return Found(status == 0 and bool(figures) and not short,
                 words or last_line(text), figures)


def read_lost(text, status):
    """gpu_lost_bench's last line."""
    return Found(status == 0 and last_line(text).startswith("lost: yes"), last_line(text), {})


def read_cifar(text, status):
    """gpu_cifar.py's table as JSON, by method."""
    figures = json.loads(last_line(text))
    words = "; ".join(f"{name}: {row['accuracy']:.4f} in {row['seconds']:.1f} s, distance "
                      f"{row['consensus_distance']:.3g}" for name, row in figures.items())
    return Found(status == 0 and len(figures) == 2, words, figures)


def read_doctor(text, status):
    """The machine; a doctor that finds something wrong is no failure of the GPU's."""
    devices = json.loads(text)["devices"]
    return Found(bool(devices["gpus"]), f"{len(devices['gpus'])} GPUs", devices)


def sanitized(tool, *options):
    return ["compute-sanitizer", "--tool", tool, *options, "--error-exitcode", "99",
            "bin/kernels_test", "[gpu]~[large]"]


GPU_TESTS = ["bin/kernels_test", "[gpu]"]
CLEAN, SAME = "order: compute-sanitizer is clean", "equality: passes on CUDA = CPU, to the bit"
LINKS = "two processes on one GPU by VMM: 1.2 times the host link; kill -9 of the exporter survived"
RULES = "equality: rules on CUDA = CPU, to the bit"
PASSES = "passes: 0.9 of a device copy at 400 MB, 0.7 at 4 MB"
TRAINING = ("a lone rank: 0.98 of a bare loop's samples at batch 128, also of a good one's; 0.95 "
            "at 32")
PARTNER = "a lone rank with a partner on the CPU: 0.95 of a bare loop's samples"
MANY = "64 ranks on one GPU: 0.9 of one model's samples"
NETWORKS = "a network's gradient on the GPU is the CPU's to rounding, on both lanes at once"
LOST = "failures: an illegal address in one process: its ranks die, the others train on"
CIFAR = "CIFAR-10, 16 ranks on a ring, 5 epochs: A2CiD2 and all-reduce side by side"


def data():
    """Where real data is, as the tests look for it."""
    beside = pathlib.Path(__file__).resolve().parents[3] / "shared" / "data"
    return pathlib.Path(os.environ.get("GRAPEVINE_TEST_DATA") or beside) / "cifar10"


# The most important steps come first. A refused call is an expected answer of a test, not an error.
STEPS = [
    Step("doctor", "", 40, ["grapevine", "doctor", "--json"], read_doctor),
    Step("tests", SAME, 60, GPU_TESTS, read_tests),
    Step("rules", RULES, 30, ["bin/actors_device_test", "[gpu]"], read_tests),
    Step("networks", NETWORKS, 60, ["bin/actors_networks_test", "[gpu]"], read_tests),
    Step("facts", "", 90, ["bin/gpu_facts"], read_facts),
    Step("passes", PASSES, 30, ["bin/kernels_cuda_bench", "400", "45", "4"], read_passes),
    Step("lone", TRAINING, 140,
         ["bin/gpu_training_bench", "cuda", "3", "2", "64", "128,32", "lone"], read_training),
    Step("links", LINKS, 60, ["bin/vmm_bench", "cuda", "1"], read_links),
    Step("many", MANY, 150, ["bin/gpu_training_bench", "cuda", "2", "6", "64", "128,32", "many"],
         read_training),
    Step("lost", LOST, 45, ["bin/gpu_lost_bench", "cuda", "6"], read_lost),
    Step("memcheck", CLEAN, 60, sanitized("memcheck", "--report-api-errors", "no"), read_sanitizer),
    Step("initcheck", CLEAN, 180, sanitized("initcheck"), read_sanitizer),
    Step("racecheck", CLEAN, 180, sanitized("racecheck"), read_sanitizer),
    Step("synccheck", CLEAN, 60, sanitized("synccheck"), read_sanitizer),
    Step("partner", PARTNER, 90, ["bin/gpu_training_bench", "cuda", "2", "4", "64", "128,32",
                                  "partner"], read_training),
    Step("cifar", CIFAR, 90, ["cifar", "grapevine", "data"], read_cifar),
]


def programs_of(step):
    """Those of ours that it needs, by the names of their targets."""
    return [word.removeprefix("bin/") for word in step.command
            if word.startswith("bin/") or word == "grapevine"]


def command_of(step, build):
    """Ready to be run, or nothing where a part of it is not here."""
    tool = os.environ.get("COMPUTE_SANITIZER") or shutil.which("compute-sanitizer")
    elsewhere = {
        "compute-sanitizer": tool,
        "cifar": str(pathlib.Path(__file__).resolve().with_name("gpu_cifar.py")),
        "data": str(data()) if data().is_dir() else None}
    words = [elsewhere.get(word, word) for word in step.command]
    ours = ["grapevine" if name == "grapevine" else f"bin/{name}" for name in programs_of(step)]
    if None in words or not all((build / name).exists() for name in ours):
        return None
    return [str(build / word) if word in ours else word for word in words]


def run(command, build, log, limit_s):
    """(status, how it ended): the status is None where it was killed."""
    libraries = os.environ.get("GPU_LIBRARIES")  # of a build from elsewhere: for its programs alone
    own = {**os.environ, "LD_LIBRARY_PATH": libraries} if libraries else None
    with open(log, "w") as out:
        child = subprocess.Popen(command, cwd=build, stdin=subprocess.DEVNULL, stdout=out,
                                 stderr=subprocess.STDOUT, start_new_session=True, env=own)
        try:
            status = child.wait(limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            try:
                child.wait(AFTER_KILL_S)
            except subprocess.TimeoutExpired:
                return None, f"no end within {limit_s} s, and it cannot be killed"
            return None, f"no end within {limit_s} s"
    return status, f"signal {-status}" if status < 0 else f"status {status}"


def perform(step, command, build, logs):
    """A step as the JSON has it."""
    log, begun = logs / f"{step.name}.log", time.monotonic()
    status, ended = run(command, build, log, step.limit_s)
    text = log.read_text(errors="replace")
    try:
        found = step.read(text, status)
    except (ValueError, KeyError):
        found = Found(False, last_line(text), {})
    words = found.words if status is not None else f"{ended}; {found.words}"
    return {"step": step.name, "claim": step.claim, "holds": found.holds and status is not None,
            "found": words, "ended": ended, "seconds": round(time.monotonic() - begun, 1),
            "limit_s": step.limit_s, "command": " ".join(command), "figures": found.figures}


def perform_all(build, logs, wanted, write):
    results, begun = [], time.monotonic()
    within_s = float(os.environ.get("GPU_WITHIN") or "inf")
    known = {step.name: step for step in STEPS}
    for step in [known[name] for name in wanted or known]:
        command = command_of(step, build)
        if command is None:
            continue
        if time.monotonic() - begun + step.limit_s > within_s:
            print(f"{step.name:<12}left out: it may take {step.limit_s} s", flush=True)
            continue
        print(f"{step.name:<12}", end="", flush=True)
        result = perform(step, command, build, logs)
        print(f"{result['seconds']:>7.1f} s  {'ok  ' if result['holds'] else 'FAIL'}  "
              f"{result['found']}", flush=True)
        results.append(result)
        write(results)


def said_by(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |"
                     for line in lines) + "\n"


def markdown(report):
    steps = report["steps"]
    parts = [f"# On a GPU: {report['device']}\n\n{report['made']}, commit {report['commit']}.\n",
             "## Claims\n\n" + table(
                 ["claim", "shown by", "found", "holds"],
                 [[s["claim"], s["step"], s["found"], "yes" if s["holds"] else "NO"]
                  for s in steps if s["claim"]])]
    for step in steps:
        if step["step"] in ("lone", "partner", "many"):
            parts.append(f"## ResNet-18, samples per second: {step['step']}\n\n" + table(
                ["", "ours", "the other", "ratio", "required", "exchanges a step"],
                [[name, *row.values()] for name, row in step["figures"].items()]))
        if step["step"] == "cifar":
            parts.append("## CIFAR-10\n\n" + table(
                ["", "accuracy", "seconds", "consensus distance", "gradients"],
                [[name, *row.values()] for name, row in step["figures"].items()]))
        if step["step"] == "facts":
            parts.append("## Facts\n\n" + table(["fact", "answer"], step["figures"].items()))
        if step["step"] == "passes":
            parts.append("## Passes, fp32\n\n" + table(
                ["a vector", "pass", "words", "GB/s", "of a copy"],
                [[size, name, *row.values()] for size, rows in step["figures"].items()
                 for name, row in rows.items()]))
    parts.append("## Steps\n\n" + table(
        ["step", "seconds", "limit", "ended", "found"],
        [[s["step"], s["seconds"], s["limit_s"], s["ended"], s["found"]] for s in steps]))
    return "\n".join(parts)


def main():
    if sys.argv[1:] == ["--programs"]:
        print("\n".join(sorted({name for step in STEPS for name in programs_of(step)})))
        return 0
    build, folder = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
    wanted, known = sys.argv[3:], [step.name for step in STEPS]
    for name in wanted:
        if name not in known:
            print(f"no step is named {name}, accepted: {' '.join(known)}", file=sys.stderr)
            return 2
    folder.mkdir(parents=True, exist_ok=True)
    report = {"device": said_by("nvidia-smi", "--query-gpu=name,memory.total,driver_version",
                                "--format=csv,noheader") or "unknown",
              "made": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "commit": (os.environ.get("GPU_COMMIT")
                         or said_by("git", "rev-parse", "--short", "HEAD") or "unknown"),
              "steps": []}

    with tempfile.TemporaryDirectory() as logs:
        def write(steps):
            report["steps"] = steps
            (folder / "gpu.json").write_text(json.dumps(report, indent=1) + "\n")
            (folder / "gpu.md").write_text(markdown(report))
            with tarfile.open(folder / "logs.tar.gz", "w:gz") as archive:
                archive.add(logs, "logs")

        perform_all(build, pathlib.Path(logs), wanted, write)
    print(f"{folder}/gpu.json, gpu.md and logs.tar.gz")
    return 0 if report["steps"] and all(step["holds"] for step in report["steps"]) else 1


if __name__ == "__main__":
    sys.exit(main())
