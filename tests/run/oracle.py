#!/usr/bin/env python3
"""What every method computes, by another program: nothing here is shared with the C++ sources.

All ranks of a run in plain lists of floats, round by round, written from the papers' equations as
the methods' headers quote them. Prints the rows of oracle.inc beside it, which methods_test.cpp
compares whole runs of the actors with:

    tests/run/oracle.py >tests/run/oracle.inc

The problem, of RANKS ranks: x is a matrix W of 4 x 5 numbers and a vector b of 3, of which W alone
decays. Rank i has f_i(x) = 1/2 sum_k c_ik (x_k - t_ik)^2, c_ik = 0.6 + 0.4 sin(1 + 0.7 i + 1.1 k),
t_ik = sin(2 + 1.3 i + 0.9 k), and starts at x_ik = 0.3 cos(2 k) + 0.2 sin(1 + i + 0.3 i k); under
all-reduce all start where rank 0 does. A row ends in two numbers of all ranks' parameters after
ROUNDS rounds: sum_ik x_ik cos(1 + SIZE i + k) and sum_ik x_ik^2.

Left out is what draws random numbers (random-k, low-rank, moniqua's rounding), whose stream is the
program's own; PowerGossip begins with cosines. What depends on when frames arrive is here where
that is known: asynchronous RelaySGD with links that take no time, in the order of ORDER; pairs
that exchange and compute no gradients (PAIRS), or compute and never meet.
"""

from math import cos, pi, sin, sqrt

RANKS, ROWS, COLUMNS, VECTOR, ROUNDS = 6, 4, 5, 3, 20
SIZE = ROWS * COLUMNS + VECTOR
DECAY, MOMENTUM = 0.02, 0.9
ORDER = [5, 3, 4, 2, 0, 1]  # in which the ranks of an asynchronous run end their gradients
PAIR_EXCHANGES = 12
OPTIMIZERS = ("sgd", "nesterov", "adam", "adamw")
SCHEDULES = ("constant", "step", "cosine", "warm-up")
ALL = range(RANKS)
K = range(SIZE)


def rate(schedule, round_):
    done, peak = round_ / ROUNDS, 0.05
    if schedule == "step":
        return peak if done < 0.5 else peak / 10 if done < 0.75 else peak / 100
    if schedule == "cosine":
        return peak * (1 + cos(pi * done)) / 2
    if schedule == "warm-up":
        return peak * min(1.0, done / 0.25)
    return peak


def gradient(i, x):
    return [(0.6 + 0.4 * sin(1 + 0.7 * i + 1.1 * k)) * (x[k] - sin(2 + 1.3 * i + 0.9 * k))
            for k in K]


def decay(k):
    return DECAY if k < ROWS * COLUMNS else 0


def start(i):
    return [0.3 * cos(2 * k) + 0.2 * sin(1 + i + 0.3 * i * k) for k in K]


class Optimizer:
    """The step u of one rank, which is added to x."""

    def __init__(self, kind):
        self.kind, self.t = kind, 0
        self.m, self.v = [0.0] * SIZE, [0.0] * SIZE

    def step(self, x, g, lr):
        self.t += 1
        return [-lr * self.direction(k, x[k], g[k]) for k in K]

    def direction(self, k, x, g):
        if self.kind != "adamw":
            g += decay(k) * x
        if self.kind in ("sgd", "nesterov"):
            self.v[k] = MOMENTUM * self.v[k] + g
            return self.v[k] if self.kind == "sgd" else g + MOMENTUM * self.v[k]
        self.m[k] = 0.9 * self.m[k] + 0.1 * g
        self.v[k] = 0.999 * self.v[k] + 0.001 * g * g
        s = self.m[k] / (1 - 0.9 ** self.t) / (sqrt(self.v[k] / (1 - 0.999 ** self.t)) + 1e-8)
        return s + decay(k) * x if self.kind == "adamw" else s


def add(*vectors):
    return [sum(parts) for parts in zip(*vectors)]


def times(a, v):
    return [a * value for value in v]


# --- graphs and their matrices


def ring():
    return [sorted({(i - 1) % RANKS, (i + 1) % RANKS}) for i in ALL]


def of_edges(edges):
    near = [[] for _ in ALL]
    for i, j in edges:
        near[i].append(j)
        near[j].append(i)
    return [sorted(n) for n in near]


def halving_tree():
    return of_edges([(i // 2, i) for i in range(1, RANKS)])


def halving_tree_reversed():
    return of_edges([(RANKS - 1 - i // 2, RANKS - 1 - i) for i in range(1, RANKS)])


def metropolis(near, lazy=False):
    w = [[0.0] * RANKS for _ in ALL]
    for i in ALL:
        for j in near[i]:
            w[i][j] = 1 / (1 + max(len(near[i]), len(near[j]))) * (0.5 if lazy else 1)
        w[i][i] = 1 - sum(w[i])
    return w


def averaged(w, x):
    return [add(*(times(w[i][j], x[j]) for j in ALL)) for i in ALL]


def hops_from(near, i):
    hops, found = {i: 0}, [i]
    for j in found:
        for k in near[j]:
            if k not in hops:
                hops[k] = hops[j] + 1
                found.append(k)
    return hops.values()


def mean_delay(near):
    return sum(max(h - 1, 0) for i in ALL for h in hops_from(near, i)) / RANKS ** 2


# --- compressors, tensor by tensor


def tensors(v):
    return [v[:ROWS * COLUMNS], v[ROWS * COLUMNS:]]


def compressed(spec, v):
    name, _, value = spec.partition(":")
    out = []
    for part in tensors(v):
        if name == "sign":
            size = sum(map(abs, part)) / len(part)
            out += [size if value_k >= 0 else -size for value_k in part]
        elif name == "top-k":
            kept = sorted(range(len(part)), key=lambda k: (-abs(part[k]), k))
            kept = set(kept[:max(1, int(float(value) * len(part)))])
            out += [part[k] if k in kept else 0.0 for k in range(len(part))]
        elif name == "quantise":
            most, levels = max(map(abs, part)), 2 ** int(value) - 1
            out += [round((p + most) / (2 * most) * levels) / levels * 2 * most - most
                    for p in part]
        else:
            out += part
    return out


# --- the methods: state and one round each; u(i) is the step of rank i on its own gradient


class Method:
    def __init__(self, optimizer, compress="", gamma=1.0):
        self.kind, self.compress, self.gamma = optimizer, compress, gamma
        self.x = [start(i) for i in ALL]
        self.optimizers = [Optimizer(optimizer) for _ in ALL]
        self.near = ring()
        self.w = metropolis(self.near)
        self.begin()

    def begin(self):
        pass

    def steps(self, lr):
        return [self.optimizers[i].step(self.x[i], gradient(i, self.x[i]), lr) for i in ALL]


class DPsgd(Method):
    def round(self, _, lr):
        self.x = averaged(self.w, [add(x, u) for x, u in zip(self.x, self.steps(lr))])


class Alone(Method):
    def round(self, _, lr):
        self.x = [add(x, u) for x, u in zip(self.x, self.steps(lr))]


class AllReduce(Method):
    def begin(self):
        self.x = [start(0) for _ in ALL]

    def round(self, _, lr):
        g = times(1 / RANKS, add(*(gradient(i, self.x[i]) for i in ALL)))
        u = self.optimizers[0].step(self.x[0], g, lr)
        self.x = [add(x, u) for x in self.x]


class D2(Method):
    def begin(self):
        self.w = metropolis(self.near, lazy=True)
        self.c = [[0.0] * SIZE for _ in ALL]

    def round(self, _, lr):
        h = [add(x, u) for x, u in zip(self.x, self.steps(lr))]
        self.x = averaged(self.w, [add(a, c) for a, c in zip(h, self.c)])
        self.c = [add(x, times(-1, a)) for x, a in zip(self.x, h)]


class GradientTracking(Method):
    def begin(self):
        self.c = [[0.0] * SIZE for _ in ALL]

    def round(self, _, lr):
        u = self.steps(lr)
        z = [add(c, s) for c, s in zip(self.c, u)]
        self.x = averaged(self.w, [add(x, a) for x, a in zip(self.x, z)])
        self.c = [add(a, times(-1, s)) for a, s in zip(averaged(self.w, z), u)]


class QuasiGlobal(Method):
    def begin(self):
        self.m = [[0.0] * SIZE for _ in ALL]

    def round(self, _, lr):
        h, before, mu = [], self.x, MOMENTUM
        for i in ALL:
            g = [a + decay(k) * self.x[i][k] for k, a in enumerate(gradient(i, self.x[i]))]
            a, b = (1 + mu, mu ** 2) if self.kind == "nesterov" else (1, mu)
            h.append(add(self.x[i], times(-lr * a, g), times(-lr * b, self.m[i])))
        self.x = averaged(self.w, h)
        if lr > 0:
            self.m = [add(times(mu, m), times((1 - mu) / lr, old), times(-(1 - mu) / lr, new))
                      for m, old, new in zip(self.m, before, self.x)]


class Choco(Method):
    def begin(self):
        self.hat = [[0.0] * SIZE for _ in ALL]

    def round(self, _, lr):
        h = [add(x, u) for x, u in zip(self.x, self.steps(lr))]
        q = [compressed(self.compress, add(a, times(-1, b))) for a, b in zip(h, self.hat)]
        self.hat = [add(b, c) for b, c in zip(self.hat, q)]
        pull = averaged(self.w, self.hat)
        self.x = [add(a, times(self.gamma, p), times(-self.gamma, b))
                  for a, p, b in zip(h, pull, self.hat)]


class DeepSqueeze(Method):
    def begin(self):
        self.left = [[0.0] * SIZE for _ in ALL]

    def round(self, _, lr):
        h = [add(x, u) for x, u in zip(self.x, self.steps(lr))]
        v = [add(a, d) for a, d in zip(h, self.left)]
        q = [compressed(self.compress, a) for a in v]
        self.left = [add(a, times(-1, b)) for a, b in zip(v, q)]
        pull = averaged(self.w, q)
        self.x = [add(a, times(self.gamma, p), times(-self.gamma, b))
                  for a, p, b in zip(h, pull, q)]


class PushSum(Method):
    def round(self, round_, lr):
        self.x = [add(x, u) for x, u in zip(self.x, self.steps(lr))]
        period = (RANKS - 1).bit_length()
        for phase in range(2):
            hop = 2 ** ((2 * round_ + phase) % period)
            self.x = [times(0.5, add(self.x[i], self.x[(i - hop) % RANKS])) for i in ALL]


class RelaySgd(Method):
    """Tree by tree: tree k of K has the coordinates k, k + K, ..."""

    def trees(self):
        return [halving_tree()]

    def begin(self):
        self.lanes = [(near, [k for k in K if k % len(self.trees()) == n])
                      for n, near in enumerate(self.trees())]
        self.speed = 1 + mean_delay(self.lanes[0][0])
        self.said = [{} for _ in self.lanes]  # (from, to): what came last, of how many ranks

    def relay(self, y, n):
        near, mine = self.lanes[n]
        now = {}
        for i in ALL:
            for j in near[i]:
                heard = [self.said[n][k, i] for k in near[i] if k != j and (k, i) in self.said[n]]
                now[i, j] = ([y[i][c] + sum(m[p] for m, _ in heard) for p, c in enumerate(mine)],
                             1 + sum(count for _, count in heard))
        self.said[n] = now
        return [([y[i][c] + sum(now[j, i][0][p] for j in near[i]) for p, c in enumerate(mine)],
                 1 + sum(now[j, i][1] for j in near[i])) for i in ALL]

    def round(self, _, lr):
        y = [add(x, u) for x, u in zip(self.x, self.steps(lr * self.speed))]
        for n, (_, mine) in enumerate(self.lanes):
            for i, (total, count) in enumerate(self.relay(y, n)):
                for p, c in enumerate(mine):
                    self.x[i][c] = total[p] / count


class RelaySgdTwice(RelaySgd):
    def trees(self):
        return [halving_tree(), halving_tree_reversed()]


class RelaySumGrad(RelaySgd):
    def round(self, _, lr):
        u = self.steps(lr)
        for n, (_, mine) in enumerate(self.lanes):
            for i, (total, _) in enumerate(self.relay(u, n)):
                for p, c in enumerate(mine):
                    self.x[i][c] += total[p] / RANKS


class RelaySumGradTwice(RelaySumGrad):
    trees = RelaySgdTwice.trees


class RelaySgdAsync(RelaySgd):
    """One rank after the other; what it says is there before the next one's gradient ends."""

    def begin(self):
        super().begin()
        self.pulled = [gradient(i, self.x[i]) for i in ALL]  # taken where the last step left x

    def round(self, _, lr):
        for i in ORDER:
            u = self.optimizers[i].step(self.x[i], self.pulled[i], lr * self.speed)
            y = add(self.x[i], u)
            for n, (near, mine) in enumerate(self.lanes):
                said = self.said[n]
                heard = [said[j, i] for j in near[i] if (j, i) in said]
                count = 1 + sum(c for _, c in heard)
                for p, c in enumerate(mine):
                    self.x[i][c] = (y[c] + sum(m[p] for m, _ in heard)) / count
                for j in near[i]:
                    rest = [said[k, i] for k in near[i] if k != j and (k, i) in said]
                    said[i, j] = ([y[c] + sum(m[p] for m, _ in rest) for p, c in enumerate(mine)],
                                  1 + sum(c for _, c in rest))
            self.pulled[i] = gradient(i, self.x[i])


class RelaySgdAsyncTwice(RelaySgdAsync):
    trees = RelaySgdTwice.trees


# --- power iterations on the difference of two matrices


def matrix_of(v):
    return [v[r * COLUMNS:(r + 1) * COLUMNS] for r in range(ROWS)]


def product(a, b):
    return [[sum(a[r][k] * b[k][c] for k in range(len(b))) for c in range(len(b[0]))]
            for r in range(len(a))]


def transposed(a):
    return [list(column) for column in zip(*a)]


def orthonormal(a):
    """Column by column; one that is zero, since there is no difference yet, begins anew."""
    columns = [column if any(column) else [cos(r * c) for r in range(len(column))]
               for c, column in enumerate(transposed(a))]
    for k, column in enumerate(columns):
        norm = sqrt(sum(v * v for v in column)) + 1e-8
        columns[k] = column = [v / norm for v in column]
        for later in range(k + 1, len(columns)):
            share = sum(v * o for v, o in zip(column, columns[later]))
            columns[later] = [o - share * v for v, o in zip(column, columns[later])]
    return transposed(columns)


class Factors:
    """Of one edge: what stands in place of the difference x - x' in its k-th iteration."""

    def __init__(self, rank):
        self.right = orthonormal([[0.0] * rank for _ in range(COLUMNS)])
        self.left, self.made = None, 0

    def of(self, difference, with_vector):
        d = matrix_of(difference)
        if self.made % 2 == 0:
            self.left = product(d, self.right)
            approximate = product(self.left, transposed(self.right))
            self.left = orthonormal(self.left)
        else:
            self.right = product(transposed(d), self.left)
            approximate = product(self.left, transposed(self.right))
            self.right = orthonormal(self.right)
        self.made += 1
        vector = difference[ROWS * COLUMNS:] if with_vector else [0.0] * VECTOR
        return sum(approximate, []) + vector


def power_spec(spec):
    values = dict(part.split("=") for part in spec.split(":")[1].split(","))
    return int(values["rank"]), int(values.get("iterations", 1))


class PowerGossip(Method):
    def begin(self):
        rank, self.iterations = power_spec(self.compress)
        self.edges = {(i, j): Factors(rank) for i in ALL for j in self.near[i] if i < j}

    def round(self, _, lr):
        gossiped, u = self.x, self.steps(lr)
        for phase in range(self.iterations):
            moved = [list(x) for x in gossiped]
            for (i, j), factors in self.edges.items():
                difference = add(gossiped[j], times(-1, gossiped[i]))
                d = factors.of(difference, factors.made % self.iterations == 0)
                a = self.gamma * self.w[i][j]
                moved[i] = add(moved[i], times(a, d))
                moved[j] = add(moved[j], times(-a, d))
            gossiped = moved
        self.x = [add(x, s) for x, s in zip(gossiped, u)]


def fingerprint(x):
    return (sum(v * cos(1 + SIZE * i + k) for i, row in enumerate(x) for k, v in enumerate(row)),
            sum(v * v for row in x for v in row))


COMPRESSORS = ("identity", "sign", "top-k:0.3", "quantise:6")
POWER = tuple(f"powergossip:rank={r},iterations={s},start=cosines"
              for r, s in ((1, 1), (2, 1), (1, 2)))
RUNS = [(DPsgd, "d_psgd", "ring", "", 1.0), (D2, "d2", "ring", "", 1.0),
        (GradientTracking, "gradient_tracking", "ring", "", 1.0),
        (QuasiGlobal, "qgm", "ring", "", 1.0), (PushSum, "sgp", "ring", "", 1.0),
        (AllReduce, "all_reduce", "ring", "", 1.0),
        (RelaySgd, "relaysgd", "relay-tree", "", 1.0),
        (RelaySgdTwice, "relaysgd", "double-binary-trees", "", 1.0),
        (RelaySumGrad, "relaysum_grad", "relay-tree", "", 1.0),
        (RelaySumGradTwice, "relaysum_grad", "double-binary-trees", "", 1.0),
        (RelaySgdAsync, "relaysgd_async", "relay-tree", "", 1.0),
        (RelaySgdAsyncTwice, "relaysgd_async", "double-binary-trees", "", 1.0),
        (Alone, "ad_psgd", "ring", "", 1.0), (Alone, "a2cid2", "ring", "", 1.0)]
RUNS += [(Choco, "choco", "ring", c, 0.3) for c in COMPRESSORS]
RUNS += [(DeepSqueeze, "deepsqueeze", "ring", c, 0.05) for c in COMPRESSORS]
RUNS += [(PowerGossip, "powergossip", "ring", c, 0.9) for c in POWER]


def row(words, numbers):
    shown = ", ".join(f'"{w}"' if isinstance(w, str) else repr(w) for w in words)
    print("    {" + shown + ",\n     " + ", ".join(repr(n) for n in numbers) + "},")


def main():
    print("// Written by oracle.py beside this file.\n#ifdef GRAPEVINE_ORACLE_RUNS")
    for method, name, topology, compress, gamma in RUNS:
        for optimizer in OPTIMIZERS:
            if method is QuasiGlobal and optimizer.startswith("adam"):
                continue  # its momentum is its own
            for schedule in SCHEDULES:
                run = method(optimizer, compress, gamma)
                for round_ in range(ROUNDS):
                    run.round(round_, rate(schedule, round_))
                row((name, topology, compress, gamma, optimizer, schedule), fingerprint(run.x))
    print("#else  // two ranks that only exchange, after 1, 2, ... exchanges")
    for compress in ("",) + tuple(f"powergossip:rank={r},start=cosines" for r in (1, 2)):
        x = [[sin(1 + 1.7 * k + 0.9 * i) for k in K] for i in range(2)]
        factors = Factors(power_spec(compress)[0]) if compress else None
        for exchange in range(1, PAIR_EXCHANGES + 1):
            d = add(x[1], times(-1, x[0]))
            if factors:
                d = factors.of(d, True)
            x = [add(x[0], times(0.5, d)), add(x[1], times(-0.5, d))]
            row((compress, exchange), fingerprint(x))
    print("#endif")


if __name__ == "__main__":
    main()
