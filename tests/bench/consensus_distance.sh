#!/usr/bin/env bash
# The consensus distance of the main job on the virtual clock, A2CiD2 against AD-PSGD: its mean over
# gradients 15,000 to 25,000, same seed. Some four minutes on two cores.
#
#   tests/bench/consensus_distance.sh [PROGRAM] [SEED]
set -euo pipefail
program=${1:-build/release/grapevine}
seed=${2:-1}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

for pairing in poisson free; do
  for method in a2cid2 ad_psgd; do
    "$program" simulate --objective network --pairing "$pairing" --method "$method" --seed "$seed" \
      --gradients 40000 --sample-seconds 10 --out "$folder/$pairing-$method" --quiet >/dev/null &
  done
  wait
  python3 - "$folder/$pairing" "$pairing" <<'END'
import json, sys
def mean(method):
    distances = []
    for line in open(f"{sys.argv[1]}-{method}/metrics.jsonl"):
        sample = json.loads(line)
        if 15000 <= sample.get("gradients", 0) <= 25000 and "consensus_distance" in sample:
            distances.append(sample["consensus_distance"])
    return sum(distances) / len(distances)
ours, plain = mean("a2cid2"), mean("ad_psgd")
print(f"pairing {sys.argv[2]:8} a2cid2 {ours:.4f}   ad_psgd {plain:.4f}   ratio {ours / plain:.3f}")
END
done
