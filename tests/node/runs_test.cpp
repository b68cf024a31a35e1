// Several processes train one model: they find each other, agree, change the graph, and end.
#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>

#include "app/system/ask_node.hpp"
#include "tests/app/tools.hpp"
#include "tests/catch.hpp"
#include "tests/eventually.hpp"
#include "tests/node/tools.hpp"
#include "tests/skipped.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

/// The address of the second node of a launch.
std::string address_of_second(Process& launcher) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const std::string says = ".1 listens on ";
  for (;;) {
    INFO(launcher.err());
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    REQUIRE_FALSE(launcher.ended());
    ChildProcess::wait_any({&launcher.child()}, 100);
    const std::string err = launcher.err();
    const size_t at = err.find(says), end = err.find('\n', at);
    if (at != err.npos && end != err.npos)
      return err.substr(at + says.size(), end - at - says.size());
  }
}

bool nobody_listens_on(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_ANY);
  at.sin_port = htons(static_cast<uint16_t>(port));
  const bool free = ::bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0;
  ::close(fd);
  return free;
}

/// One that Slurm's job of the same number without its first digit has, with a free one behind it.
std::string free_port_of_jobs() {
  int port = 20000 + getpid() % 9000;
  while (!nobody_listens_on(port) || !nobody_listens_on(port + 1)) {
    port += 2;
    REQUIRE(port < 29999);
  }
  return std::to_string(port);
}

}  // namespace

TEST_CASE("a run ends at all nodes where the tests of one find nothing better") {
  auto nodes = start_nodes(2, 2,
                           {"--until=600", "--gradients=0", "--lr=0", "--sample-seconds=0.05",
                            "--test-every=0.05s", "--early-stop=3"});
  bool stopped = false;
  for (auto& node : nodes) {
    CHECK(node->end() == 0);
    CHECK(node->result()["ranks"] == 4);
    stopped = stopped || node->result()["stopped_early"] == true;
  }
  CHECK(stopped);
}

TEST_CASE("the tests of one node that find nothing better end the run at nodes that test nothing") {
  const std::vector<std::string> job = {
      "node",   "--objective=quadratic", "--ranks=2", "--until=600", "--gradients=0",
      "--lr=0", "--total-ranks=4",       "--json",    "--quiet",     "--threads=1"};
  std::vector<std::string> tests = job, plain = job;
  tests.insert(tests.end(), {"--node-name=a", "--first-rank=0", "--sample-seconds=0.05",
                             "--test-every=0.05s", "--early-stop=3"});
  Process first(tests);
  plain.insert(plain.end(), {"--node-name=b", "--first-rank=2", "--join=" + first.address()});
  Process second(plain);
  for (Process* node : {&first, &second}) {
    CHECK(node->end() == 0);
    INFO(node->err());
    CHECK(node->result()["ranks"] == 4);
    CHECK(node->result()["stopped_early"] == (node == &first));
  }
  CHECK(first.result()["mean_hash"] == second.result()["mean_hash"]);
}

TEST_CASE("a node whose time is over before its run's leaves those who train on, and says so") {
  auto nodes = start_nodes(2, 2, {"--until=600", "--gradients=0"});
  for (auto& node : nodes)
    node->wait_for([](const Json& s) { return s["graph_ranks"] == 4; });
  Process visitor({"node", "--objective=quadratic", "--ranks=1", "--gradients=0", "--threads=1",
                   "--node-name=visitor", "--until=1", "--patience=2", "--json",
                   "--join=" + nodes[0]->address()});
  CHECK(visitor.end() == 0);
  INFO(visitor.err());
  CHECK_THAT(visitor.err(),
             Catch::Contains("to train; the time of the ranks here is over, and they leave") &&
                 !Catch::Contains("have not confirmed the mean"));
  const Json result = visitor.result();
  CHECK(result["missing"].empty());
  CHECK(result["nodes"] == 1);
  CHECK(result["ranks"] == 1);
  for (auto& node : nodes) {
    const Json after = node->wait_for(
        [](const Json& s) { return state_of(s, "visitor") == "left" && s["graph_ranks"] == 4; });
    node->wait_for(
        [&](const Json& s) { return sum_of(s["exchanges"]) > sum_of(after["exchanges"]); });
  }
}

TEST_CASE("four processes of four ranks reach the optimum and report the same mean") {
  auto nodes =
      start_nodes(4, 4, {"--gradients=320000", "--topology=torus:4x4", "--r0=10", "--mu=0.5"});
  std::vector<Json> results;
  for (auto& node : nodes) {
    INFO(node->err());
    REQUIRE(node->end() == 0);
    results.push_back(node->result());
  }
  for (const Json& r : results) {
    CHECK(r["nodes"] == 4);
    CHECK(r["ranks"] == 16);
    CHECK(r["mean_hash"] == results.front()["mean_hash"]);
    CHECK(r["suboptimality"].get<double>() < 1e-12);  // from 50
    CHECK(r["protocol_errors"] == 0);
  }
}

TEST_CASE("all nodes show one membership, one epoch and one graph") {
  auto nodes = start_nodes(3, 2, {"--until=600", "--gradients=0"});
  std::vector<Json> told;
  for (auto& node : nodes)
    told.push_back(wait_for_status(node->address(), [](const Json& s) {
      return s["graph_ranks"] == 6 && sum_of(s["exchanges"]) > 100 && all_alive(s);
    }));
  for (const Json& s : told) {
    CHECK(s["epoch"] == told.front()["epoch"]);
    CHECK(s["members"].size() == 3);
    for (const char* name : {"a", "b", "c"})
      CHECK(state_of(s, name) == "alive");
    CHECK(s["gradients"].size() == 2);
    CHECK(s["chi1"].get<double>() > 0);
    CHECK(s["uptime_seconds"].get<double>() > 0);
    uint64_t bytes = 0;  // an edge of an earlier graph may have sent none
    for (const Json& edge : s["edges"]) {
      CHECK(edge["ranks"].size() == 2);
      bytes += edge["bytes"].get<uint64_t>();
    }
    CHECK(bytes > 0);
  }
  REQUIRE(ask_node(nodes[1]->address(), "", {ConsoleVerb::stop, {}}));
  for (auto& node : nodes) {
    CHECK(node->end() == 0);
    CHECK(node->result()["ranks"] == 6);
  }
}

TEST_CASE("the graph changes under load, and all nodes come to one epoch each time") {
  auto nodes = start_nodes(2, 4, {"--until=600", "--gradients=0", "--topology=ring"});
  uint64_t before = 0;
  for (const char* spec : {"exponential", "torus:2x4", "ring"}) {
    wait_for_status(nodes[0]->address(), [](const Json& s) { return s["graph_ranks"] == 8; });
    const Ran ran = run_grapevine("ctl " + nodes[0]->address() + " reconfigure " + spec);
    INFO(ran.err);
    REQUIRE(ran.status == 0);
    const auto arrived = [&](const Json& s) {
      return s["topology"] == spec && s["epoch"].get<uint64_t>() > before;
    };
    const Json a = wait_for_status(nodes[0]->address(), arrived);
    const Json b = wait_for_status(nodes[1]->address(), arrived);
    CHECK(a["epoch"] == b["epoch"]);
    before = a["epoch"].get<uint64_t>();
    const uint64_t exchanges = sum_of(b["exchanges"]);
    wait_for_status(nodes[1]->address(),
                    [&](const Json& s) { return sum_of(s["exchanges"]) > exchanges + 50; });
  }
  check_refused("ctl " + nodes[0]->address() + " reconfigure moebius", 2, {"moebius", "accepted"});
  check_refused("ctl " + nodes[0]->address() + " reconfigure ./graph.txt", 2, {"names a file"});
}

TEST_CASE("a node that is interrupted leaves politely, and the others go on") {
  auto nodes = start_nodes(3, 2, {"--until=600", "--gradients=0"});
  wait_for_status(nodes[0]->address(), [](const Json& s) { return s["graph_ranks"] == 6; });
  nodes[1]->address();
  nodes[1]->signal(SIGINT);
  CHECK(nodes[1]->end() == 0);
  CHECK(nodes[1]->result()["interrupted"] == true);
  for (const int k : {0, 2}) {
    const Json s = wait_for_status(nodes[static_cast<size_t>(k)]->address(), [](const Json& s) {
      return state_of(s, "b") == "left" && s["graph_ranks"] == 4;
    });
    const uint64_t gradients = sum_of(s["gradients"]);
    wait_for_status(nodes[static_cast<size_t>(k)]->address(),
                    [&](const Json& s) { return sum_of(s["gradients"]) > gradients + 100; });
  }
}

TEST_CASE("a snapshot is the averaged model of all nodes, and training goes on meanwhile") {
  const Scratch scratch;
  auto nodes = start_nodes(2, 2, {"--until=600", "--gradients=0", "--dim=24", "--r0=10"});
  for (const auto& node : nodes)  // long at the optimum, which is 10 away from 0
    wait_for_status(node->address(), [](const Json& s) {
      return s["graph_ranks"] == 4 && sum_of(s["gradients"]) > 10000;
    });
  std::vector<std::vector<double>> models;
  std::vector<uint64_t> gradients;
  for (const auto& node : nodes) {
    const std::string file = scratch.path("m" + std::to_string(models.size()) + ".safetensors");
    const Ran ran = run_grapevine("ctl " + node->address() + " snapshot " + file + " --json");
    INFO(ran.err);
    REQUIRE(ran.status == 0);
    CHECK(Json::parse(ran.out)["ranks"] == 4);
    models.push_back(numbers_of(file));
    gradients.push_back(sum_of(status_when_there(node->address())["gradients"]));
  }
  REQUIRE(models[0].size() == 24);
  double square = 0;
  for (const double x : models[0])
    square += x * x;
  CHECK(std::sqrt(square) == Approx(10).epsilon(1e-4));
  CHECK(farthest(models[0], models[1]) < 1e-4);
  for (size_t k = 0; k < 2; ++k)
    wait_for_status(nodes[k]->address(),
                    [&](const Json& s) { return sum_of(s["gradients"]) > gradients[k] + 100; });
}

TEST_CASE("launch starts them, sums what they did and prints one object") {
  const auto told = json_of(
      "launch --nodes 2 --ranks 2 --objective quadratic --gradients 4000 "
      "--quiet");
  CHECK(told["gradients"] == 4000);
  CHECK(told["nodes"] == 2);
  CHECK(told["ranks"] == 4);
  CHECK(told["processes"].size() == 2);
}

TEST_CASE("many ranks of two processes take rounds together on the complete graph") {
  const auto told = json_of(
      "launch --nodes 2 --ranks 16 --method d_psgd --topology complete --objective quadratic "
      "--gradients 3200 --until 60 --quiet");
  CHECK(told["gradients"] == 3200);
}

TEST_CASE("under torchrun's and Slurm's variables processes find each other without an option") {
  const std::string port = free_port_of_jobs();
  constexpr int kInverse = 4221;  // of the 6181 by which a job's number makes its port
  const int job = std::stoi(port.substr(1)) * kInverse % 10000;
  const auto variables = [&](bool slurm, int k) -> std::vector<std::string> {
    const std::string number = std::to_string(k);
    if (slurm)
      return {"SLURM_PROCID=" + number, "SLURM_NTASKS=2", "SLURM_JOB_ID=" + std::to_string(job),
              "SLURM_STEP_NODELIST=localhost", "SLURM_STEP_TASKS_PER_NODE=2"};
    return {"RANK=" + number, "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port};
  };
  const Scratch scratch;
  const std::string key = scratch.path("run.key");
  REQUIRE(run_grapevine("keygen " + key).status == 0);
  char host[256] = "";
  REQUIRE(gethostname(host, sizeof host - 1) == 0);
  for (const bool slurm : {false, true}) {
    std::vector<std::unique_ptr<Process>> nodes;
    for (const int k : {1, 0})  // in any order
      nodes.push_back(std::make_unique<Process>(
          std::vector<std::string>{"node", "--objective=quadratic", "--ranks=2", "--threads=1",
                                   "--gradients=4000", "--json", "--quiet", "--patience=30",
                                   "--key=" + key},
          variables(slurm, k)));
    for (size_t k = 0; k < 2; ++k) {
      INFO(nodes[k]->err());
      REQUIRE(nodes[k]->end() == 0);
      const Json result = nodes[k]->result();
      CHECK(result["ranks"] == 4);
      const std::string starter =
          slurm ? fmt::format("slurm-{}.0", job) : fmt::format("torch-{}-{}", host, port);
      CHECK(result["node"] == fmt::format("{}.{}", starter, 1 - k));
    }
  }
}

TEST_CASE("a process of mpirun waits for the first one, which begins to listen later") {
  const std::string job = fmt::format("OMPI_MCA_ess_base_jobid={}", getpid());
  const auto start = [&](int k) {
    return std::make_unique<Process>(
        std::vector<std::string>{"node", "--objective=quadratic", "--ranks=2", "--threads=1",
                                 "--gradients=4000", "--json", "--patience=60"},
        std::vector<std::string>{fmt::format("OMPI_COMM_WORLD_RANK={}", k),
                                 "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_SIZE=2", job});
  };
  const auto second = start(1);
  REQUIRE(eventually(
      [&] {
        return second->ended() || second->err().find(fmt::format("waiting for mpi-{}.0",
                                                                 getpid())) != std::string::npos;
      },
      kBusyMachine));
  const auto first = start(0);
  for (Process* node : {first.get(), second.get()}) {
    INFO(node->err());
    REQUIRE(node->end() == 0);
    CHECK(node->result()["ranks"] == 4);
  }
}

TEST_CASE("what a real mpirun starts trains together, with a run key too") {
  for (const std::string launcher : {"mpirun.openmpi", "mpirun.mpich"}) {
    if (run_command("command -v " + launcher).status != 0) {
      skipped("no " + launcher + " here");
      continue;
    }
    for (const bool has_key : {false, true}) {
      // The node is in the place of the shell that mpirun has started, or under one.
      const std::string before = has_key ? "exec " : "", after = has_key ? "" : "; exit $?";
      INFO(launcher << (has_key ? " with a key" : " without a key, under a shell"));
      const Scratch scratch;
      const std::string key = scratch.path("run.key");
      REQUIRE(run_grapevine("keygen " + key).status == 0);
      const std::string said = scratch.path("said.$OMPI_COMM_WORLD_RANK$PMI_RANK");
      const Ran ran = run_command(
          "XDG_RUNTIME_DIR=" + scratch.path() +
          " OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"
          " OMPI_MCA_rmaps_base_oversubscribe=1 " +
          launcher + " -n 4 sh -c '" + before +
          GRAPEVINE_BINARY_DIR
          "/grapevine"
          " node --no-save --objective=quadratic --ranks=2 --threads=1 --gradients=4000 --json "
          "--quiet --patience=60" +
          (has_key ? " --key=" + key : "") + " > " + said + after + "'");
      INFO(ran.out << ran.err);
      REQUIRE(ran.status == 0);
      for (int k = 0; k < 4; ++k) {
        const std::string text = text_of(scratch.path("said." + std::to_string(k)));
        const Json result = Json::parse(text, nullptr, false);
        INFO(text);
        REQUIRE(result.is_object());
        CHECK(result["ranks"] == 8);
        CHECK(result["first_rank"] == 2 * k);
        CHECK_THAT(result["node"].get<std::string>(), Catch::EndsWith("." + std::to_string(k)));
        CHECK_THAT(result["address"].get<std::string>(), Catch::StartsWith("unix:"));
      }
    }
  }
}

TEST_CASE("with a run key all is encrypted, and a console without it is turned away") {
  const Scratch scratch;
  const std::string key = scratch.path("run.key");
  REQUIRE(run_grapevine("keygen " + key).status == 0);
  auto nodes = start_nodes(2, 2, {"--until=600", "--gradients=0", "--key=" + key});
  const std::string address = nodes[1]->address();
  check_refused("ctl " + address + " status", 1, {address});
  for (auto& node : nodes)  // a stop before all are there would end some of them alone
    REQUIRE(eventually(
        [&] {
          const Json status = status_of(node->address(), key);
          return status.is_object() && status["graph_ranks"] == 4;
        },
        kBusyMachine));
  REQUIRE(run_grapevine("ctl " + address + " stop --key " + key).status == 0);
  for (auto& node : nodes) {
    CHECK(node->end() == 0);
    CHECK(node->result()["ranks"] == 4);
  }
}

TEST_CASE("a launch tells the loss while it runs, and ends well when it is interrupted") {
  Process all({"launch", "--nodes=2", "--ranks=2", "--objective=quadratic", "--gradients=0",
               "--until=600", "--json"});
  const std::string address = address_of_second(all);
  wait_for_status(
      address,
      [&](const Json& s) {
        return s["graph_ranks"] == 4 && all.err().find(" exchanges, loss ") != std::string::npos;
      },
      [&] { grapevine::ChildProcess::wait_any({&all.child()}, 20); });
  CHECK_THAT(all.err(), Catch::Contains(" exchanges, loss "));
  all.signal(SIGINT);
  REQUIRE(all.end() == 0);
  CHECK(all.result()["ranks"] == 4);
  CHECK(all.result()["interrupted"] == true);
}

TEST_CASE("nodes save the mean, curves and a record where they run, and say where") {
  const Scratch scratch;
  const Ran ran =
      run_grapevine("launch --nodes 2 --ranks 1 --objective quadratic --gradients 2000 --save",
                    "cd " + scratch.path() + " &&");
  INFO(ran.err);
  REQUIRE(ran.status == 0);
  CHECK_THAT(ran.out, Catch::Contains("run directories        runs/"));
  int whole = 0;
  for (const auto& run : std::filesystem::directory_iterator(scratch.path("runs")))
    for (const auto& node : std::filesystem::directory_iterator(run))
      whole += exists(node.path() / "model.safetensors") && exists(node.path() / "curves.svg") &&
               Json::parse(text_of(node.path() / "run.json"))["state"] == "finished";
  CHECK(whole == 2);
}

TEST_CASE("launch with a file of hosts starts each node over ssh") {
  const Scratch scratch;  // an ssh that needs no other machine: it runs the last word here
  const std::string ssh = scratch.file("ssh",
                                       "#!/bin/sh\nfor word; do :; done\n"
                                       "echo ssh >> " +
                                           scratch.path("calls") + "\neval \"$word\"\n");
  const std::string hosts = scratch.file("hosts", "me@one 127.0.0.1\nme@two localhost\n");
  REQUIRE(run_grapevine("--version", "chmod +x " + ssh + ";").status == 0);
  const std::string key = scratch.path("run.key");
  REQUIRE(run_grapevine("keygen " + key).status == 0);
  const Ran ran = run_grapevine("launch --hosts " + hosts + " --key " + key +
                                    " --ranks 2 --objective quadratic "
                                    "--gradients 4000 --threads 1 --json",
                                "PATH=" + scratch.path() + ":$PATH");
  INFO(ran.err);
  REQUIRE(ran.status == 0);
  CHECK(Json::parse(ran.out)["ranks"] == 4);
  CHECK(text_of(scratch.path("calls")) == "ssh\nssh\n");
}

TEST_CASE("nodes that a launcher has started over ssh end with it, however it ends") {
  const Scratch scratch;  // an ssh whose node is no child of the launcher, as on another machine
  const std::string ssh = scratch.file("ssh",
                                       "#!/bin/sh\nfor word; do :; done\n"
                                       "exec 3<&0\n(eval \"$word\" <&3) &\n"
                                       "echo $! >> " +
                                           scratch.path("pids") + "\nwait\n");
  REQUIRE(run_grapevine("--version", "chmod +x " + ssh + ";").status == 0);
  const std::string key = scratch.path("run.key");
  REQUIRE(run_grapevine("keygen " + key).status == 0);
  const std::string hosts = scratch.file("hosts", "me@one 127.0.0.1\nme@two localhost\n");
  auto launcher = std::make_unique<Process>(
      std::vector<std::string>{"launch", "--hosts=" + hosts, "--key=" + key, "--ranks=1",
                               "--objective=quadratic", "--gradients=0", "--until=600",
                               "--threads=1"},
      std::vector<std::string>{"PATH=" + scratch.path() + ":/usr/bin:/bin"});
  const std::string address = address_of_second(*launcher);
  Json status;
  REQUIRE(eventually(
      [&] {
        status = status_of(address, key);
        return status.is_object() && status["graph_ranks"] == 2;
      },
      kBusyMachine));
  std::vector<std::string> addresses;
  for (const Json& m : status["members"])
    addresses.push_back(m["address"]);
  launcher->signal(SIGKILL);
  for (const std::string& one : addresses)
    CHECK(eventually([&] { return status_of(one, key).is_null(); }, kBusyMachine));
}

TEST_CASE("without a key nodes meet at unix sockets, and a console finds one by its name") {
  const std::string name = "test-" + std::to_string(getpid());
  auto nodes = start_nodes(1, 1, {"--until=600", "--gradients=0"});
  Process second({"node", "--objective=quadratic", "--threads=1", "--ranks=1", "--total-ranks=2",
                  "--until=600", "--gradients=0", "--node-name=" + name, "--quiet", "--json",
                  "--join=" + nodes[0]->address()});
  CHECK_THAT(nodes[0]->address(), Catch::StartsWith("unix:/"));
  CHECK_THAT(second.address(), Catch::StartsWith("unix:/") && Catch::Contains(name));
  second.wait_for([](const Json& s) { return s["graph_ranks"] == 2; });
  const Ran asked = run_grapevine("ctl " + name + " status --json");
  INFO(asked.err);
  REQUIRE(asked.status == 0);
  CHECK(Json::parse(asked.out)["node"] == name);
  CHECK(run_grapevine("ctl " + second.address().substr(5) + " stop").status == 0);
  CHECK(second.end() == 0);
  CHECK(nodes[0]->end() == 0);
}
