"""A node of a run on each of N machines of a Ray cluster: python ray_nodes.py N KEY [OPTION...]

KEY is a run key (grapevine keygen). Ray places and starts the processes, and no more: they find
each other, and a node that dies costs the others nothing. Each machine has the program on its PATH.
"""

import os
import subprocess
import sys
import tempfile

import ray

CORES = RANKS = 4
FIRST_PORT = 7001


@ray.remote(num_cpus=CORES, scheduling_strategy="SPREAD")
class Machine:
    def address(self, number):
        return f"{ray.util.get_node_ip_address()}:{FIRST_PORT + number}"

    def run(self, number, addresses, key, options):
        """The node's exit status. The node leaves when its standard input ends: with this actor."""
        words = ("--node-name", f"ray-{number}", "--listen", addresses[number], "--join",
                 ",".join(addresses), "--ranks", str(RANKS), "--threads", str(CORES),
                 "--total-ranks", str(RANKS * len(addresses)), "--ends-with-input")
        with tempfile.NamedTemporaryFile() as file:  # its owner's alone, as a key must be
            file.write(key)
            file.flush()
            command = ["grapevine", "node", "--key", file.name, *words, *options]
            node = subprocess.Popen(command, stdin=subprocess.PIPE)
            return abs(node.wait())


def status_of(ended):
    try:
        return ray.get(ended)
    except ray.exceptions.RayError as lost:  # the machine, or its process: the others go on
        print(lost, file=sys.stderr)
        return 1


def main():
    count, key, *options = sys.argv[1:]
    with open(key, "rb") as file:
        text = file.read()
    ray.init(address=os.environ.get("RAY_ADDRESS", "auto"))
    machines = [Machine.remote() for _ in range(int(count))]
    addresses = ray.get([each.address.remote(k) for k, each in enumerate(machines)])
    ended = [each.run.remote(k, addresses, text, options) for k, each in enumerate(machines)]
    sys.exit(max([status_of(each) for each in ended]))


if __name__ == "__main__":
    main()
