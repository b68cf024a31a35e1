// A node in your own program: here two nodes in one process train one model over loopback.
//
// `grapevine node` also calls run_node. It listens, joins the given addresses, trains the ranks of
// this process together with those of all others, and returns when the run is over. Put one call
// into each process or, as here, into each of two threads; the second node joins the first. At the
// end both have the mean over the ranks of both.
//
// To build and run: ninja -C build/release 7_two_nodes && build/release/bin/7_two_nodes
// It prints:
//
//   first: the mean of 8 ranks at 2 nodes
//   second: the mean of 8 ranks at 2 nodes
//   gradients: 40000
//   both have the same mean: yes
//   excess loss below 1e-6: yes
#include <future>
#include <thread>

#include "examples/example.hpp"

using namespace grapevine;

Settings half_of_a_run() {
  Settings settings;  // a2cid2 on a ring, as fast as the machine allows
  settings.objective.objective = "quadratic";
  settings.objective.mu = 0.5;
  settings.rule.optimizer = {};
  settings.ranks = 8;        // of the run
  settings.local_ranks = 4;  // of each node
  settings.threads = 1;
  return settings;
}

NodeResult train(const std::string& name, const std::string& join,
                 std::function<void(const std::string&)> on_listening) {
  const Settings settings = half_of_a_run();
  NodeSettings node;
  node.name = name;
  node.total_ranks = settings.ranks;  // it waits for this number of ranks
  node.patience_s = 60;
  if (!join.empty()) node.join = {join};
  NodeHooks hooks;
  hooks.on_listening = std::move(on_listening);
  const auto objective = example::or_exit(make_objective(settings));
  return example::or_exit(run_node(settings, node, objective, std::move(hooks)));
}

int main() {
  std::promise<std::string> address;
  std::future<NodeResult> second = std::async(
      std::launch::async, [&] { return train("second", address.get_future().get(), {}); });
  const NodeResult one =
      train("first", "", [&](const std::string& where) { address.set_value(where); });
  const NodeResult two = second.get();

  std::printf("first: the mean of %d ranks at %d nodes\n", one.ranks, one.nodes);
  std::printf("second: the mean of %d ranks at %d nodes\n", two.ranks, two.nodes);
  std::printf("gradients: %lu\n", one.outcome.gradients + two.outcome.gradients);
  std::printf("both have the same mean: %s\n",
              fnv1a(one.mean->vec()) == fnv1a(two.mean->vec()) ? "yes" : "no");
  const auto objective = example::or_exit(make_objective(half_of_a_run()));
  const double loss = objective->evaluate(0, -1, one.mean->vec()).loss;
  std::fprintf(stderr, "excess loss %.3g\n", loss);
  std::printf("excess loss below 1e-6: %s\n", loss < 1e-6 ? "yes" : "no");
}
