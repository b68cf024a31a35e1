"""Reads two pages of metrics with Prometheus' own readers: metrics_reader.py PLAIN OPENMETRICS.

Exit status 77 where the package prometheus_client is not there."""
import sys

try:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open
    from prometheus_client.parser import text_string_to_metric_families as read_plain
except ImportError:
    sys.exit(77)

with open(sys.argv[1]) as page:
    plain = {family.name: family for family in read_plain(page.read())}
with open(sys.argv[2]) as page:
    opened = {family.name: family for family in read_open(page.read())}

assert plain["grapevine_gradients"].type == opened["grapevine_gradients"].type == "counter"
assert opened["grapevine_node"].type == "info"
assert len(opened["grapevine_gradients"].samples) == 2
different = {name.removesuffix("_info") for name in plain} ^ set(opened)
assert not different, different
