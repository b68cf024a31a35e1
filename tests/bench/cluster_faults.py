"""What is done to running processes, and what the others make of it. See cluster.py."""
import random
import signal
import statistics
import subprocess
import time

from cluster_tools import (Cluster, Machines, edges_of, key_in, mean_of, model_of, scratch,
                           state_of, wait)

QUADRATIC = ["--objective=quadratic", "--gradients=0", "--until=900"]


def both_ends_agree(results):
    """Edges between two nodes whose ends counted different numbers of exchanges."""
    wrong, seen = 0, {}
    for r in results:
        for edge, n in edges_of(r).items():
            wrong += seen.setdefault(edge, n) != n
    return wrong


def kill(program, tell):
    """kill -9 of each of four processes in turn, the first included."""
    notices, kept, wrong, broken = [], [], 0, 0
    for dead in range(4):
        with Cluster(program, 4, 4, QUADRATIC + ["--pacing=poisson"]) as c:
            c.together()
            before = c.rates(4)
            killed = time.monotonic()
            c.nodes[dead].signal(signal.SIGKILL)
            left = [n for k, n in enumerate(c.nodes) if k != dead]
            for n in left:
                at = wait("the death is told", lambda n=n: n.said(f"n{dead}.* dead", killed), 30)
                notices.append(1e3 * (at - killed))
            after = c.rates(4)
            kept += [after[n.name] / before[n.name] for n in left]
            c.nodes[dead].kill()
            results = c.stop()
            gone = range(4 * dead, 4 * dead + 4)
            among = [dict(r, exchanges_by_edge=[e for e in r["exchanges_by_edge"]
                                                if e[0] not in gone and e[1] not in gone])
                     for r in results]
            wrong += both_ends_agree(among) + sum(r["protocol_errors"] for r in results)
            broken += sum(r["broken_exchanges"] for r in results)
            wrong += len({r["mean_hash"] for r in results}) != 1
    tell("noticed, median of 12", "< 50 ms", f"{statistics.median(notices):.0f} ms",
         statistics.median(notices) < 50)
    tell("rate of a survivor, after / before, least", ">= 0.95",
         f"{min(kept):.2f} (median {statistics.median(kept):.2f})", min(kept) >= 0.95)
    tell("edges of survivors with unequal ends, other errors", "0", wrong, wrong == 0)
    tell("exchanges broken with the dead, counted", ">= 0", broken, True)


def pause(program, tell, seconds=30):
    """SIGSTOP for half a minute, then SIGCONT."""
    with Cluster(program, 4, 4, QUADRATIC + ["--pacing=poisson"]) as c:
        c.together()
        before = c.rates(4)
        still, others = c.nodes[1], [c.nodes[k] for k in (0, 2, 3)]
        stopped = time.monotonic()
        still.signal(signal.SIGSTOP)
        first = wait("a suspicion", lambda: min((at for n in others if
                                                 (at := n.said("n1.* suspected", stopped))),
                                                default=None), 10) - stopped
        counts = [(time.monotonic(), n.gradients()) for n in others]
        time.sleep(max(0, seconds - (time.monotonic() - stopped)))
        kept = min((n.gradients() - count) / (time.monotonic() - at) / before[n.name]
                   for n, (at, count) in zip(others, counts))
        still.signal(signal.SIGCONT)
        woken = time.monotonic()
        for n in c.nodes:
            wait("it is back", lambda n=n: state_of(n.status(), "n1") == "alive" and
                 n.status().get("graph_ranks") == 16, 30)
        back = time.monotonic() - woken
        known = sum(still.status()["exchanges"])
        wait("it exchanges again", lambda: sum(still.status()["exchanges"]) > known + 20, 30)
        results = c.stop()
        tell("suspected after", "< 1 s", f"{first:.2f} s", first < 1)
        tell("rate of the others meanwhile / before, least", ">= 0.95", f"{kept:.2f}", kept >= 0.95)
        tell("all see it alive again after", "", f"{back:.1f} s", True)
        tell("different means at the end", "0", len({r['mean_hash'] for r in results}) - 1,
             len({r["mean_hash"] for r in results}) == 1)


def distance(a, b):
    return sum((x - y) ** 2 for x, y in zip(a, b))


def distance(a, b):
    return sum((x - y) ** 2 for x, y in zip(a, b))


def partition(program, tell, seconds=10):
    """Two machines and two machines, the cable between them out, and in again."""
    machines = Machines(4, 2)
    try:
        with scratch() as folder:
            key = key_in(program, folder)
            words = QUADRATIC + ["--zeta2=1", "--lr=0.0001"]
            with Cluster(program, 4, 4, words, machines, key, folder) as c:
                c.together()
                if machines.real:
                    apart(c, machines, folder, tell, seconds)
    finally:
        machines.close()


def one_view(c, ranks):
    views = [n.status() for n in c.nodes]
    return all(v.get("graph_ranks") == ranks and v.get("epoch") == views[0].get("epoch") and
               v.get("topology") == views[0].get("topology") for v in views)


def apart(c, machines, folder, tell, seconds):
    machines.cable(False)
    out = time.monotonic()
    for n in c.nodes:
        wait("a half", lambda n=n: n.status().get("graph_ranks") == 8, 60)
    halved = time.monotonic() - out
    before = [n.gradients() for n in c.nodes]
    time.sleep(max(2, seconds - halved))
    trained = [n.gradients() - b for n, b in zip(c.nodes, before)]
    halves = []
    for k in (0, 3):
        path = f"{folder}/half-{k}.safetensors"
        wait("a snapshot", lambda: c.nodes[k].ctl("snapshot", path), 20)
        halves.append(model_of(path))
    machines.cable(True)
    healed = time.monotonic()
    wait("one view", lambda: one_view(c, 16), 60)
    took = time.monotonic() - healed
    time.sleep(5)
    for n in c.nodes:  # each ends with the mean of its own ranks
        n.signal(signal.SIGINT)
    results = [n.result() for n in c.nodes]
    means = [mean_of(c, n.name) for n in c.nodes]
    tell("each half alone after", "", f"{halved:.1f} s", True)
    tell("gradients of each node meanwhile, least", "> 0", min(trained), min(trained) > 0)
    tell("one membership, graph and epoch after", "< 30 s", f"{took:.1f} s", took < 30)
    parted, together = distance(*halves), max(distance(means[0], m) for m in means[1:])
    tell("|mean - mean|^2 of the halves, of nodes at the end", "falls back",
         f"{parted:.3g}, {together:.3g}", together < 0.1 * parted)
    errors = sum(r["protocol_errors"] for r in results)
    tell("protocol errors", "0", errors, errors == 0)


def cut(program, tell, cuts=200):
    """A cable that is pulled 200 times in mid-exchange. Nothing but gossip moves the models."""
    machines = Machines(2, 1)
    try:
        with scratch() as folder:
            words = ["--objective=consensus", "--method=ad_psgd", "--dim=50000", "--topology=chain"]
            subprocess.run([program, "simulate", *words, "--ranks=16", "--until=1e-9", "--quiet",
                            f"--out={folder}/start"], check=True, capture_output=True)
            words += ["--rate=20", "--gradients=0", "--until=900"]
            with Cluster(program, 2, 8, words, machines, key_in(program, folder), folder) as c:
                c.together()
                pull(machines, cuts)
                known = sum(c.nodes[1].status()["exchanges"])
                wait("they go on", lambda: sum(c.nodes[1].status()["exchanges"]) > known + 100)
                lost = sum(k["lost"] for n in c.nodes for k in n.status()["links"])
                results = c.stop()
                start = model_of(f"{folder}/start/model.safetensors")
                moved = max(abs(x - y) for x, y in zip(start, mean_of(c, "n0")))
    finally:
        machines.close()
    wrong = both_ends_agree(results)
    tell("exchanges over the cable, payloads lost on it", "",
         f"{edges_of(results[0]).get((7, 8), 0)}, {lost}", True)
    tell("edges whose ends disagree, exchanges broken", "0",
         f"{wrong}, {sum(r['broken_exchanges'] for r in results)}", wrong == 0)
    tell("the mean of all ranks has moved by", "< 1e-12", f"{moved:.1e}", moved < 1e-12)
    errors = sum(r["protocol_errors"] for r in results)
    tell("protocol errors", "0", errors, errors == 0)


def pull(machines, cuts):
    draw = random.Random(1)
    for k in range(cuts if machines.real else 0):
        machines.cable(False)
        time.sleep(3.5 if k % 40 == 20 else draw.uniform(0.01, 0.12))
        machines.cable(True)
        time.sleep(draw.uniform(0.02, 0.2))


def joiner(program, tell):
    """A late joiner whose source is killed half-way. Each node is a machine of its own."""
    machines = Machines(4, 4)
    try:
        with scratch() as folder:
            key = key_in(program, folder)
            words = QUADRATIC + ["--dim=2000000"]
            with Cluster(program, 3, 1, words, machines, key) as c:
                c.together()
                c.total = 0
                source_dies(c, tell)
    finally:
        machines.close()


def source_dies(c, tell):
    late = c.add("late", 3)

    def half_way():
        for link in late.status().get("links", []):
            if link["bytes_received"] > 12e6:  # of x and x~, 16 MB each
                return link["node"], link["bytes_received"]
        return None
    source, came = wait("half of the state", half_way, 60)
    killed = time.monotonic()
    next(n for n in c.nodes if n.name == source).kill()
    at = wait("it begins", lambda: late.said("start with the state of another"), 90)
    said = [line.split(" ", 1)[1] for _, line in late.lines if "state from" in line]
    from_others = sum(link["bytes_received"] for link in late.status()["links"])
    tell("killed after, state complete after", "",
         f"{came / 1e6:.0f} MB, {at - killed:.1f} s; {from_others / 1e6:.0f} MB from others", True)
    tell("what the newcomer says of its first source", "", " | ".join(said) or "nothing",
         bool(said))
    trained = late.gradients()
    wait("it trains", lambda: late.gradients() > trained + 5)
