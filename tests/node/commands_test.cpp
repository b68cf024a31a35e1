// The settings that processes get from the environment and from launch: pure functions.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "app/launch/commands.hpp"
#include "app/options/node_environment.hpp"
#include "app/output/node_status_json.hpp"
#include "messages/control.hpp"
#include "models/files/model_file.hpp"
#include "tests/app/tools.hpp"
#include "tests/catch.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

Environment environment(std::map<std::string, std::string> variables) {
  return [=](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

bool has(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

Options launch_options() {
  Options o = default_options(kLaunch, "quadratic");
  o.nodes = 3;
  o.settings.ranks = 12;
  o.settings.local_ranks = 4;
  o.peers.name = "h-7";
  return o;
}

}  // namespace

TEST_CASE("under torchrun process 0 listens at the master's address, the others join it") {
  PeerOptions first, third;
  const auto variables = [](const char* rank) {
    return environment({{"MASTER_ADDR", "10.0.0.1"},
                        {"MASTER_PORT", "29500"},
                        {"WORLD_SIZE", "4"},
                        {"RANK", rank}});
  };
  REQUIRE(find_peers(variables("0"), "a.example", 8, first));
  CHECK(first.listen == "10.0.0.1:29500");
  CHECK(first.join.empty());
  CHECK(first.first_rank == 0);
  CHECK(first.total_ranks == 32);
  REQUIRE(find_peers(variables("2"), "c.example", 8, third));
  CHECK(third.listen.empty());  // where process 0 reaches it
  CHECK(third.join == "10.0.0.1:29500");
  CHECK(third.first_rank == 16);
  CHECK(third.name == "torch-10.0.0.1-29500.2");
  PeerOptions named;
  named.name = "mine";
  REQUIRE(find_peers(variables("2"), "c.example", 8, named));
  CHECK(named.name == "mine");
}

TEST_CASE("two machines whose torchruns meet on themselves have no name in common") {
  const auto local = environment(
      {{"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "29500"}, {"WORLD_SIZE", "2"}, {"RANK", "0"}});
  PeerOptions here, there;
  REQUIRE(find_peers(local, "h", 1, here));
  REQUIRE(find_peers(local, "g", 1, there));
  CHECK(here.name == "torch-h-29500.0");
  CHECK(there.name == "torch-g-29500.0");
}

TEST_CASE("whoever starts processes, no two have one name, and who is started again has its own") {
  std::vector<std::string> names;
  const auto started = [&](std::map<std::string, std::string> variables) {
    PeerOptions peers, again;
    REQUIRE(find_peers(environment(variables), "h", 1, peers));
    variables["SLURM_RESTART_COUNT"] = variables["TORCHELASTIC_RESTART_COUNT"] = "1";
    REQUIRE(find_peers(environment(variables), "h", 1, again));
    CHECK(peers.name == again.name);
    names.push_back(peers.name);
  };
  for (const char* own : {"0", "1"}) {
    for (const auto& [job, step] : {std::pair("7", "0"), {"7", "1"}, {"8", "0"}})
      started({{"SLURM_PROCID", own},
               {"SLURM_NTASKS", "2"},
               {"SLURM_JOB_ID", job},
               {"SLURM_STEP_ID", step},
               {"SLURM_STEP_NODELIST", "h"}});
    for (const auto& [master, port, run] : {std::tuple("a", "7", "none"),
                                            {"a", "8", "none"},
                                            {"b", "7", "none"},
                                            {"b", "7", "x"},
                                            {"b", "7", "a/b"},
                                            {"b", "7", "a:b"},
                                            {"localhost", "7", "none"}})
      started({{"RANK", own},
               {"WORLD_SIZE", "2"},
               {"MASTER_ADDR", master},
               {"MASTER_PORT", port},
               {"TORCHELASTIC_RUN_ID", run}});
    Options launch = launch_options();
    for (const char* launcher : {"h-7", "h-8", "slurm-7"}) {
      launch.peers.name = launcher;
      names.push_back(name_of_node(launch, *own - '0'));
    }
    names.push_back(fmt::format("h-{}", own));  // a node by itself, on a machine and on a pod
    names.push_back(fmt::format("h-7-{}", own));
  }
  std::sort(names.begin(), names.end());
  for (size_t k = 1; k < names.size(); ++k)
    CHECK(names[k - 1] != names[k]);
  const std::string longest(100, 'x'), other = longest + "y";
  CHECK(numbered_name(longest, 12).size() == kNameBytes);
  CHECK(numbered_name(longest, 12) != numbered_name(other, 12));
  CHECK(numbered_name(longest, 12) != numbered_name(longest, 13));
}

TEST_CASE("a process that a launch has placed leaves the environment alone") {
  PeerOptions placed;
  placed.name = "h-7.0";
  placed.first_rank = 0;
  placed.total_ranks = 4;
  REQUIRE(find_peers(environment({{"MASTER_ADDR", "10.0.0.1"},
                                  {"MASTER_PORT", "29500"},
                                  {"WORLD_SIZE", "4"},
                                  {"RANK", "0"}}),
                     "h", 2, placed));
  CHECK(placed.listen.empty());
}

TEST_CASE("where torchrun's own store has the port, the next one is taken") {
  PeerOptions peers;
  REQUIRE(find_peers(environment({{"MASTER_ADDR", "127.0.0.1"},
                                  {"MASTER_PORT", "29500"},
                                  {"WORLD_SIZE", "2"},
                                  {"RANK", "1"},
                                  {"TORCHELASTIC_USE_AGENT_STORE", "True"}}),
                     "host", 1, peers));
  CHECK(peers.join == "127.0.0.1:29501");
  CHECK(peers.listen.empty());
}

TEST_CASE("an IPv6 address of a master gets its brackets, and loopback is known by it") {
  for (const char* master : {"fd00::7", "[fd00::7]"}) {
    PeerOptions first, second;
    for (auto* peers : {&first, &second})
      REQUIRE(find_peers(environment({{"MASTER_ADDR", master},
                                      {"MASTER_PORT", "29500"},
                                      {"WORLD_SIZE", "2"},
                                      {"RANK", peers == &first ? "0" : "1"}}),
                         "host", 1, *peers));
    CHECK(first.listen == "[fd00::7]:29500");
    CHECK(second.join == "[fd00::7]:29500");
  }
  PeerOptions local;
  REQUIRE(find_peers(
      environment(
          {{"MASTER_ADDR", "::1"}, {"MASTER_PORT", "29500"}, {"WORLD_SIZE", "2"}, {"RANK", "0"}}),
      "host", 1, local));
  CHECK(local.listen == "[::1]:29500");
  CHECK(local.name == "torch-host-29500.0");
}

TEST_CASE("one process of one is started as if alone, whoever starts it") {
  const std::map<std::string, std::string> worlds[] = {
      {{"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "1"}, {"WORLD_SIZE", "1"}, {"RANK", "0"}},
      {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}, {"SLURM_STEP_ID", "0"}},
      // In an interactive step Slurm tells the job's tasks, though one process runs.
      {{"SLURM_PROCID", "0"},
       {"SLURM_NTASKS", "4"},
       {"SLURM_STEP_ID", "4294967290"},
       {"SLURM_STEP_NUM_TASKS", "1"},
       {"SLURM_STEP_NODELIST", "localhost"}},
      // A program that a batch script runs itself.
      {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_NODELIST", "localhost"}},
      {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}},
      {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}};
  for (const auto& world : worlds) {
    INFO(world.begin()->first);
    PeerOptions peers;
    REQUIRE(find_peers(environment(world), "h", 4, peers));
    CHECK(peers.listen.empty());
    CHECK(peers.join.empty());
    CHECK((peers.total_ranks == 0 || peers.total_ranks == 4));
  }
}

TEST_CASE(
    "what mpirun has started on one host meets by name; on several it is told what is missing") {
  PeerOptions first, third;
  std::map<std::string, std::string> world = {{"OMPI_COMM_WORLD_RANK", "0"},
                                              {"OMPI_COMM_WORLD_SIZE", "4"},
                                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                                              {"PMIX_NAMESPACE", "prterun-h-17@1"}};
  REQUIRE(find_peers(environment(world), "h", 2, first));
  world["OMPI_COMM_WORLD_RANK"] = "2";
  REQUIRE(find_peers(environment(world), "h", 2, third));
  CHECK(first.join.empty());
  CHECK(third.join == first.name);
  CHECK(third.listen.empty());
  CHECK(third.first_rank == 4);
  CHECK(third.total_ranks == 8);
  PeerOptions by_pmi;
  REQUIRE(find_peers(environment({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"PMI_JOBID", "9"}}), "h",
                     2, by_pmi));
  CHECK(by_pmi.name == "mpi-9.1");
  CHECK(by_pmi.join == "mpi-9.0");
  PeerOptions in_job;  // of Slurm: MPICH's mpirun starts one task on each host, and that the others
  REQUIRE(find_peers(environment({{"PMI_RANK", "1"},
                                  {"PMI_SIZE", "2"},
                                  {"PMI_JOBID", "9"},
                                  {"MPI_LOCALNRANKS", "2"},
                                  {"SLURM_JOB_ID", "12"},
                                  {"SLURM_PROCID", "0"},
                                  {"SLURM_NTASKS", "2"},
                                  {"SLURM_STEP_ID", "0"},
                                  {"SLURM_STEP_NUM_TASKS", "1"},
                                  {"SLURM_STEP_NODELIST", "n1"}}),
                     "h", 2, in_job));
  CHECK(in_job.join == "mpi-9.0");
  world["OMPI_COMM_WORLD_LOCAL_SIZE"] = "2";
  PeerOptions far;
  const Status refused = find_peers(environment(world), "h", 2, far);
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().message, Catch::Contains("2 of them on this host") &&
                                          Catch::Contains("accepted: all on one host or in a job "
                                                          "of Slurm, or --join"));
}

TEST_CASE(
    "what mpirun has started on several hosts of a job of Slurm joins process 0 on the first") {
  // As Hydra 4.0.2 and Open MPI 4.1.4 tell them in a job of three hosts.
  const std::map<std::string, std::string> job = {
      {"SLURM_JOB_ID", "10042"}, {"SLURM_JOB_NODELIST", "n[1-3]"}, {"SLURM_PROCID", "1"},
      {"SLURM_NTASKS", "6"},     {"SLURM_STEP_ID", "0"},           {"SLURM_STEP_NUM_TASKS", "3"}};
  const auto mpich = [&](const char* rank, const char* here) {
    auto told = job;
    told.insert({{"PMI_RANK", rank}, {"PMI_SIZE", "6"}, {"MPI_LOCALNRANKS", here}});
    told["SLURM_STEP_NODELIST"] = "n[1-3]";
    return environment(told);
  };
  const auto open_mpi = [&](const char* rank, const char* here) {
    auto told = job;
    told.insert({{"OMPI_COMM_WORLD_RANK", rank},
                 {"OMPI_COMM_WORLD_SIZE", "6"},
                 {"OMPI_COMM_WORLD_LOCAL_SIZE", here},
                 {"PMIX_NAMESPACE", "465108993"}});
    told["SLURM_STEP_NODELIST"] = "n[2-3]";  // mpirun itself is on the first
    return environment(told);
  };
  for (const bool by_mpich : {false, true}) {
    const auto told = [&](const char* rank, const char* here) {
      return by_mpich ? mpich(rank, here) : open_mpi(rank, here);
    };
    PeerOptions first, last;
    REQUIRE(find_peers(told("0", "4"), "n1", 2, first));
    REQUIRE(find_peers(told("5", "1"), "n3", 2, last));
    CHECK(first.listen == "n1:29602");
    CHECK(first.join.empty());
    CHECK(first.name == "mpi-10042.0");
    CHECK(last.listen == "n3:29607");
    CHECK(last.join == "n1:29602");
    CHECK(last.name == "mpi-10042.5");
    CHECK(last.first_rank == 10);
    CHECK(last.total_ranks == 12);
  }
}

TEST_CASE("under Slurm each task has a port of its job and joins the first tasks of some hosts") {
  PeerOptions peers, first_of_host;
  const auto variables = [](const char* process) {
    return environment({{"SLURM_PROCID", process},
                        {"SLURM_NTASKS", "5"},
                        {"SLURM_JOB_ID", "10042"},
                        {"SLURM_STEP_NODELIST", "n[1-2],m"},
                        {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"}});
  };
  REQUIRE(find_peers(variables("3"), "n2", 4, peers));
  CHECK(peers.name == "slurm-10042.0.3");
  CHECK(peers.listen == "n2:29605");
  CHECK(peers.join == "n1:29602,n2:29604,m:29606");
  CHECK(peers.first_rank == 12);
  CHECK(peers.total_ranks == 20);
  REQUIRE(find_peers(variables("2"), "n2", 4, first_of_host));
  CHECK(first_of_host.join == "n1:29602,m:29606");  // not itself
}

TEST_CASE("Slurm's jobs of successive numbers have ports that lie far apart") {
  std::set<int> ports;
  for (int job = 7990; job < 8010; ++job) {
    PeerOptions peers;
    REQUIRE(find_peers(environment({{"SLURM_PROCID", "0"},
                                    {"SLURM_NTASKS", "2"},
                                    {"SLURM_JOB_ID", std::to_string(job)},
                                    {"SLURM_STEP_NODELIST", "n"},
                                    {"SLURM_STEP_TASKS_PER_NODE", "2"}}),
                       "n", 1, peers));
    ports.insert(std::stoi(peers.listen.substr(peers.listen.find(':') + 1)));
  }
  REQUIRE(ports.size() == 20);
  CHECK(*ports.begin() >= 20000);
  CHECK(*ports.rbegin() < 30000);
  for (auto at = std::next(ports.begin()); at != ports.end(); ++at)
    CHECK(*at - *std::prev(at) >= 200);
}

TEST_CASE("addresses that were given, and a single Slurm task, leave the environment alone") {
  PeerOptions given;
  given.join = "10.0.0.9:7000";
  REQUIRE(find_peers(environment({{"MASTER_ADDR", "x"}, {"RANK", "y"}, {"WORLD_SIZE", "z"}}), "h",
                     1, given));
  CHECK(given.join == "10.0.0.9:7000");
  CHECK(given.total_ranks == 0);
  PeerOptions alone;
  REQUIRE(find_peers(environment({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}}), "h", 1, alone));
  CHECK(alone.listen.empty());
}

TEST_CASE("a variable that makes no sense is refused by its name, its value and what is accepted") {
  PeerOptions peers;
  const Status rank = find_peers(
      environment({{"MASTER_ADDR", "x"}, {"MASTER_PORT", "1"}, {"WORLD_SIZE", "2"}, {"RANK", "2"}}),
      "h", 1, peers);
  REQUIRE_FALSE(rank);
  CHECK_THAT(rank.error().message, Catch::Contains("RANK is \"2\"") && Catch::Contains("less"));
  const Status list = find_peers(
      environment({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_STEP_NODELIST", "n[1-"}}),
      "h", 1, peers);
  REQUIRE_FALSE(list);
  CHECK_THAT(list.error().message, Catch::Contains("SLURM_STEP_NODELIST is \"n[1-\""));
  const Status job = find_peers(environment({{"SLURM_PROCID", "0"},
                                             {"SLURM_NTASKS", "2"},
                                             {"SLURM_STEP_ID", "0"},
                                             {"SLURM_JOB_NODELIST", "n[1-"}}),
                                "h", 1, peers);
  REQUIRE_FALSE(job);
  CHECK_THAT(job.error().message, Catch::Contains("SLURM_JOB_NODELIST is \"n[1-\""));
}

TEST_CASE("a launcher's environment of which a part is missing is refused, and no process alone") {
  using Variables = std::map<std::string, std::string>;
  const std::pair<Variables, const char*> halves[] = {
      {{{"OMPI_COMM_WORLD_RANK", "0"}}, "OMPI_COMM_WORLD_SIZE is not set"},
      {{{"OMPI_COMM_WORLD_SIZE", "2"}}, "OMPI_COMM_WORLD_RANK is not set"},
      {{{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", ""}},
       "OMPI_COMM_WORLD_SIZE is not set"},
      {{{"PMI_RANK", "1"}}, "PMI_SIZE is not set"},
      {{{"PMI_SIZE", "2"}}, "PMI_RANK is not set"},
      {{{"RANK", "0"}}, "WORLD_SIZE is not set"},
      {{{"WORLD_SIZE", "4"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "1"}}, "RANK is not set"},
      {{{"RANK", "1"}, {"WORLD_SIZE", "4"}}, "MASTER_ADDR is not set"},
      {{{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "h"}}, "MASTER_PORT is not set"},
      {{{"SLURM_PROCID", "0"}}, "SLURM_NTASKS is not set"},
      {{{"SLURM_PROCID", "1"}, {"SLURM_JOB_ID", "7"}}, "SLURM_NTASKS is not set"},
      {{{"SLURM_PROCID", "0"}, {"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"}},
       "SLURM_NTASKS is not set"},
      {{{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}}, "SLURM_STEP_ID is not set"},
      {{{"RANK", "3"}, {"WORLD_SIZE", "1"}}, "RANK is \"3\""},
      {{{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "2"}},
       "OMPI_COMM_WORLD_SIZE, which is 2"},
      {{{"OMPI_COMM_WORLD_RANK", "-1"}, {"OMPI_COMM_WORLD_SIZE", "2"}}, "is \"-1\""},
      {{{"OMPI_COMM_WORLD_RANK", "0"},
        {"OMPI_COMM_WORLD_SIZE", "2"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "x"}},
       "OMPI_COMM_WORLD_LOCAL_SIZE is \"x\""},
      {{{"PMI_RANK", "one"}, {"PMI_SIZE", "2"}}, "PMI_RANK is \"one\""},
      {{{"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "1"}, {"SLURM_STEP_ID", "0"}},
       "SLURM_NTASKS, which is 1"},
      {{{"MASTER_ADDR", "0.0.0.0"}, {"MASTER_PORT", "1"}, {"WORLD_SIZE", "2"}, {"RANK", "0"}},
       "MASTER_ADDR is \"0.0.0.0\""},
      {{{"MASTER_ADDR", "h"}, {"MASTER_PORT", "65536"}, {"WORLD_SIZE", "2"}, {"RANK", "0"}},
       "MASTER_PORT is \"65536\""}};
  for (const auto& [variables, words] : halves) {
    INFO(words);
    PeerOptions peers;
    const Status refused = find_peers(environment(variables), "h", 1, peers);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().exit_status() == 2);
    CHECK_THAT(refused.error().message, Catch::Contains(words) && Catch::Contains("accepted"));
    PeerOptions given;
    given.join = "10.0.0.9:7000";
    CHECK(find_peers(environment(variables), "h", 1, given));
  }
}

TEST_CASE("what a site sets in every shell is no launcher's, and the process is alone") {
  const std::map<std::string, std::string> sites[] = {
      {},
      {{"MASTER_ADDR", "h"}, {"MASTER_PORT", "29500"}},
      {{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_NODELIST", "n[1-2]"}},  // salloc
      {{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_JOB_NODELIST", "n1"}},      // sbatch
      {{"WORLD_SIZE", "1"}},
      {{"RANK", "0"}, {"WORLD_SIZE", "1"}},
      {{"RANK", ""}, {"WORLD_SIZE", ""}, {"PMI_RANK", ""}}};
  for (const auto& site : sites) {
    PeerOptions peers;
    INFO((site.empty() ? "" : site.begin()->first));
    REQUIRE(find_peers(environment(site), "h", 4, peers));
    CHECK(peers.listen.empty());
    CHECK(peers.join.empty());
    CHECK(peers.total_ranks == 0);
  }
}

TEST_CASE("under srun the variables of torchrun that a batch script sets leave Slurm its task") {
  PeerOptions peers;
  REQUIRE(find_peers(environment({{"WORLD_SIZE", "2"},
                                  {"MASTER_ADDR", "n1"},
                                  {"MASTER_PORT", "29500"},
                                  {"SLURM_PROCID", "1"},
                                  {"SLURM_STEP_NUM_TASKS", "2"},
                                  {"SLURM_STEP_NODELIST", "n1"}}),
                     "n1", 1, peers));
  CHECK(peers.name == "slurm-0.0.1");
}

TEST_CASE("a list of hosts keeps its leading zeros and its order") {
  const auto hosts = expand_host_list("n[08-10,2],login,r1[1-2]x");
  REQUIRE(hosts);
  CHECK(*hosts == std::vector<std::string>{"n08", "n09", "n10", "n2", "login", "r11x", "r12x"});
  CHECK_FALSE(expand_host_list(""));
  CHECK_FALSE(expand_host_list("n[3-1]"));
  CHECK_FALSE(expand_host_list("a,,b"));
}

TEST_CASE("launch hands a node its place, and every option that is not the default") {
  Options o = launch_options();
  o.settings.lr.peak = 0.25;
  o.settings.topology = "torus:3x4";
  o.out = "runs/x";
  const auto words = node_arguments(o, {2, "127.0.0.1:0", {"127.0.0.1:7", "127.0.0.1:8"}, ""});
  CHECK(words.front() == "node");
  for (const char* word :
       {"--objective=quadratic", "--lr=0.25", "--topology=torus:3x4", "--ranks=4", "--first-rank=8",
        "--total-ranks=12", "--node-name=h-7.2", "--join=127.0.0.1:7,127.0.0.1:8",
        "--out=runs/x/node-2", "--json", "--quiet"})
    CHECK(has(words, word));
  for (const std::string& word : words) {
    CHECK(word.rfind("--momentum", 0) != 0);
    CHECK(word.rfind("--nodes", 0) != 0);
  }
}

TEST_CASE("launch has a node go on in its own folder, or from another's where it had none") {
  const Scratch scratch;
  for (const char* node : {"node-0", "node-1"})
    std::filesystem::create_directories(scratch.path(node));
  Options o = launch_options();
  o.resume = scratch.path();
  const auto from = [&](int node, const std::string& folder) {
    return has(node_arguments(o, {node, "", {}, ""}), "--resume=" + scratch.path(folder));
  };
  CHECK(from(1, "node-1"));
  CHECK(from(2, "node-0"));
  o.hosts = "hosts";  // folders of other machines
  CHECK(from(2, "node-2"));
  o.out = "runs/y";
  const auto again = node_arguments(o, {1, "", {}, "", 2});
  CHECK(has(again, "--out=runs/y/node-1"));
  CHECK(std::none_of(again.begin(), again.end(),
                     [](const std::string& word) { return word.starts_with("--resume"); }));
}

TEST_CASE("over ssh each word arrives as it is, whatever is in it") {
  const auto words = over_ssh({"me@h", "10.0.0.2"}, "/opt/grapevine", {"node", "--data=it's here"});
  CHECK(words.back() == "exec '/opt/grapevine' 'node' '--data=it'\\''s here'");
  CHECK(has(words, "me@h"));
  CHECK(words[words.size() - 3] == "--");
}

TEST_CASE("a file of hosts: a line each, comments, an address where it differs") {
  const Scratch scratch;
  const auto hosts = read_hosts(scratch.file("hosts", "# ours\nme@a 10.0.0.1\n\nb\n"));
  REQUIRE(hosts);
  REQUIRE(hosts->size() == 2);
  CHECK((*hosts)[0].ssh == "me@a");
  CHECK((*hosts)[0].address == "10.0.0.1");
  CHECK((*hosts)[1].address == "b");
  CHECK_FALSE(read_hosts(scratch.file("three", "a b c\n")));
  CHECK_FALSE(read_hosts(scratch.file("option", "-oProxyCommand=x\n")));
  CHECK_FALSE(read_hosts(scratch.file("none", "# nobody\n")));
  const auto v6 = read_hosts(scratch.file("v6", "me@a fd00::7\n"));
  REQUIRE(v6);
  CHECK((*v6)[0].address == "[fd00::7]");
  for (const char* address : {"0.0.0.0", "::", "*", "224.0.0.1", "10.0.0.1:7000"}) {
    const auto refused = read_hosts(scratch.file("many", fmt::format("me@a {}\n", address)));
    REQUIRE_FALSE(refused);
    CHECK_THAT(refused.error().message, Catch::Contains(fmt::format("\"me@a {}\"", address)));
  }
}

TEST_CASE("of a plan nodes get what they can do themselves") {
  const std::string text =
      "[[fault]]\nkind = \"kill\"\nranks = [0]\nat = 3\n"
      "[[fault]]\nkind = \"slow\"\nranks = [1]\nfactor = 2\n";
  const std::string theirs = plan_for_nodes(text);
  CHECK_THAT(theirs, Catch::Contains("slow") && !Catch::Contains("kill"));
  CHECK(plan_for_nodes("[[fault]]\nkind = \"pause\"\nat = 1\n").empty());
}

TEST_CASE("a snapshot's bytes become the file that it was made of") {
  const Scratch scratch;
  ParameterLayout layout(DType::f32);
  layout.add("w", {2, 3}, true);
  layout.add("b", {1}, false);
  Buffer x(7, DType::f32);
  for (size_t k = 0; k < 7; ++k)
    x.vec().as<float>()[k] = static_cast<float>(k) - 2.5f;
  const std::string bytes(static_cast<const char*>(x.vec().data), 28);
  Mean mean;
  mean.ranks = 4;
  const Json sent = snapshot_json(layout, ParameterLayout(), mean);
  REQUIRE(write_snapshot(Json::parse(sent.dump()), bytes, scratch.path("m.safetensors")));
  Buffer back(7, DType::f32);
  REQUIRE(load_parameters(scratch.path("m.safetensors"), layout, back));
  CHECK(std::memcmp(back.vec().data, x.vec().data, 28) == 0);
  CHECK_FALSE(write_snapshot(sent, bytes.substr(1), scratch.path("cut")));
  CHECK_FALSE(write_snapshot(sent, bytes + "x", scratch.path("cut")));
  CHECK_FALSE(exists(scratch.path("cut")));
}
