// Refusals between processes that connect: one line with the reason, exit status 1 or 2.
#include <csignal>

#include "tests/app/tools.hpp"
#include "tests/catch.hpp"
#include "tests/node/tools.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

const std::string kAlone = "node --objective quadratic --threads 1 --quiet --patience 1 ";

/// The last line, since the first says where the node listened.
void check_ends(const std::string& arguments, int status, const std::vector<std::string>& words) {
  const Ran ran = run_grapevine(arguments);
  INFO("grapevine " << arguments << "\n" << ran.err);
  CHECK(ran.status == status);
  CHECK(ran.out == "");
  const std::string line = ran.err.substr(ran.err.find("grapevine: "));
  CHECK(std::count(line.begin(), line.end(), '\n') == 1);
  for (const std::string& word : words)
    CHECK_THAT(line, Catch::Contains(word));
}

}  // namespace

TEST_CASE("an address that cannot be listened on is refused by its name and the reason") {
  auto nodes = start_nodes(1, 1, {"--until=600", "--gradients=0"});
  const std::string taken = nodes[0]->address();
  check_refused(kAlone + "--listen " + taken, 1, {taken, "in use"});
  check_refused(kAlone + "--listen no-such-host.invalid:7000", 2, {"no-such-host.invalid"});
  check_refused(kAlone + "--listen 0.0.0.0:0", 2, {"0.0.0.0:0", "key"});
  check_refused(kAlone + "--no-key --listen 0.0.0.0:0", 2, {"0.0.0.0:0", "key"});
  check_refused(kAlone + "--listen unix:/tmp/" + std::string(200, 'x'), 2, {"205 bytes", "107"});
}

TEST_CASE("an address that others cannot dial is refused before anything is made") {
  const Scratch scratch;
  const std::string node = kAlone + "--out " + scratch.path("run") + " ";
  check_refused(node + "--advertise ::", 2, {"advertise is \"::\", accepted: host:port"});
  check_refused(node + "--no-key --listen 127.0.0.1:0 --advertise 0.0.0.0:7000", 2,
                {"advertise is \"0.0.0.0:7000\"", "accepted"});
  check_refused(node + "--no-key --join 127.0.0.1:7000,0.0.0.0:7000", 2,
                {"join is \"0.0.0.0:7000\"", "accepted"});
  check_refused(node + "--no-key --join 127.0.0.1:0", 2, {"join is \"127.0.0.1:0\"", "accepted"});
  CHECK_FALSE(exists(scratch.path("run")));
  check_refused("launch --objective quadratic --hosts " + scratch.file("hosts", "me@a ::\n"), 2,
                {"hosts:1: \"me@a ::\", accepted: a host"});
  const Ran doctor = run_grapevine("doctor --no-key --join 0.0.0.0:7000");
  CHECK_THAT(doctor.out, Catch::Contains("join is \"0.0.0.0:7000\", accepted"));
}

TEST_CASE("a node that meets nobody says whom it tried and why it failed") {
  check_ends(kAlone + "--no-key --join 127.0.0.1:1", 1, {"127.0.0.1:1", "no node answers"});
  check_ends(kAlone + "--no-key --join no-such-host.invalid:7000", 1,
             {"no-such-host.invalid:7000"});
  check_refused(kAlone + "--join no-such-node", 2, {"no-such-node", "accepted"});
  check_refused(kAlone + "--join 127.0.0.1:1", 2, {"key", "--no-key"});
}

TEST_CASE("who waits for process 0 of its launcher in vain says where, and what told it so") {
  const auto said = [](const std::string& environment) {
    const Ran ran = run_command(environment + " " GRAPEVINE_BINARY_DIR "/grapevine " + kAlone +
                                "--no-save --no-key");
    CHECK(ran.status == 1);
    return ran.err;
  };
  CHECK_THAT(said("PMI_RANK=1 PMI_SIZE=2 PMI_JOBID=none"),
             Catch::Contains("no node answers at /") &&
                 Catch::Contains("/mpi-none.0.*.sock (process 0 of 2, by PMI_RANK and PMI_SIZE in "
                                 "the environment) within 1 s (--patience)"));
  CHECK_THAT(said("MASTER_ADDR=127.0.0.1 MASTER_PORT=1 RANK=1 WORLD_SIZE=2"),
             Catch::Contains("no node answers at 127.0.0.1:1 (process 0 of 2, by MASTER_ADDR and "
                             "MASTER_PORT in the environment): "));
}

TEST_CASE("a node that is told to end before it has met anybody ends in order, with no model") {
  const Scratch scratch;
  Process lone({"node", "--no-key", "--objective=quadratic", "--listen=127.0.0.1:0",
                "--join=127.0.0.1:1", "--patience=600", "--json", "--out=" + scratch.path("run")});
  lone.address();
  lone.signal(SIGTERM);
  CHECK(lone.end() == 0);
  CHECK(lone.result()["interrupted"] == true);
  CHECK_FALSE(exists(scratch.path("run/model.safetensors")));
  CHECK_THAT(lone.err(), !Catch::Contains("ALARM"));
}

TEST_CASE("nodes of another run, method or model are told so at once, and disturb nobody") {
  auto nodes = start_nodes(1, 1, {"--until=600", "--gradients=0"});
  const std::string join =  // it ends by the third refusal, however patient it is
      kAlone + "--patience 120 --gradients 0 --first-rank 1 --join " + nodes[0]->address();
  check_ends(join + " --run-name other", 1, {"refused by", "another run", "other", "grapevine"});
  check_ends(join + " --method ad_psgd", 1, {"ad_psgd", "a2cid2"});
  check_ends(join + " --dim 17", 1, {"17 parameters", "16 parameters"});
  check_ends(join + " --lr 0.25", 1, {"another lr: 0.25 at "});
  const Json status = status_when_there(nodes[0]->address());
  CHECK(status["members"].size() == 1);
  const std::string events = status["events"].dump();  // it says so, too
  for (const char* why :
       {"another run: other at ", "ad_psgd of 16", "a2cid2 of 17 parameters: x [17] and 0 more"})
    CHECK_THAT(events, Catch::Contains(why));
  wait_for_status(nodes[0]->address(), [&](const Json& s) {
    return sum_of(s["gradients"]) > sum_of(status["gradients"]);
  });
}

TEST_CASE("a node that joins takes the settings of the run, and is refused where it has others") {
  auto nodes = start_nodes(1, 1,
                           {"--until=600", "--gradients=0", "--method=ad_psgd", "--dim=17",
                            "--lr=0.03", "--run-name=evening"});
  const std::string join = "--join=" + nodes[0]->address();
  Process knows_nothing({"node", join, "--node-name=late", "--ranks=2", "--threads=1", "--quiet"});
  for (Process* node : {nodes[0].get(), &knows_nothing})
    node->wait_for(
        [](const Json& s) { return s["graph_ranks"] == 3 && sum_of(s["exchanges"]) > 0; });
  const std::string at = "the run at " + nodes[0]->address();
  check_refused("node " + join + " --lr 0.25", 2, {"lr is \"0.25\"", "accepted: \"0.03\"", at});
  check_refused("node " + join + " --method a2cid2", 2, {"method is \"a2cid2\"", "ad_psgd", at});
  check_refused("node " + join + " --topology star", 2, {"topology is \"star\"", "reconfigure"});
  const Scratch scratch;
  const std::string job = scratch.file("job.toml", "lr = 0.03\nseed = 3\n");
  check_refused("node " + join + " --config " + job, 2, {"job.toml:2: seed is \"3\""});
}

TEST_CASE("with another run key, or none, both ends say so in a line, and nobody is disturbed") {
  const Scratch scratch;
  const std::string key = scratch.path("run.key"), other = scratch.path("other.key");
  REQUIRE(run_grapevine("keygen " + key).status == 0);
  REQUIRE(run_grapevine("keygen " + other).status == 0);
  auto nodes = start_nodes(1, 1, {"--until=600", "--gradients=0", "--key=" + key});
  const std::string address = nodes[0]->address();
  const std::string patient = kAlone + "--patience 120 --join " + address;
  check_ends(patient + " --key " + other, 1, {"refused by " + address, "another run key there"});
  check_ends(patient + " --no-key", 1, {"refused by " + address, "asks for one"});
  check_refused("ctl " + address + " status --key " + other, 1, {address});
  check_refused("ctl " + address + " status", 1, {address});
  check_refused("ctl " + address + " status --key " + scratch.path("none"), 2, {"run key", "none"});
  const Ran ran = run_grapevine("ctl " + address + " status --json --key " + key);
  REQUIRE(ran.status == 0);
  const Json status = Json::parse(ran.out);
  CHECK(status["members"].size() == 1);
  CHECK_FALSE(status["refusals"]["turned_away"].empty());
}

TEST_CASE("a plan that names a rank which nobody has is refused by a running node") {
  const Scratch scratch;
  auto nodes = start_nodes(1, 2, {"--until=600", "--gradients=0"});
  nodes[0]->wait_for([](const Json& s) { return s["graph_ranks"] == 2; });
  const std::string inject = "ctl " + nodes[0]->address() + " inject ";
  const std::string fault = "[[fault]]\nkind = \"loss\"\nprobability = 0.1\nranks = [";
  REQUIRE(run_grapevine(inject + scratch.file("good.toml", fault + "1]\n")).status == 0);
  check_refused(inject + scratch.file("bad.toml", fault + "7]\n"), 2, {"7", "accepted: 0 to 1"});
  check_refused(inject + scratch.path("none.toml"), 2, {"none.toml", "cannot be read"});
}

TEST_CASE("a console of a dead address, without a verb or with a wrong one is refused") {
  check_refused("ctl 127.0.0.1:1 status", 1, {"127.0.0.1:1"});
  check_refused("ctl", 2, {"address", "accepted"});
  check_refused("ctl 127.0.0.1:1 sing", 2, {"sing", "status", "reconfigure"});
  check_refused("ctl 127.0.0.1:1 reconfigure", 2, {"reconfigure", "SPEC"});
}

TEST_CASE("a run key is written once, for its owner alone, and a wrong one is refused") {
  const Scratch scratch;
  const std::string key = scratch.path("run.key");
  REQUIRE(run_grapevine("keygen " + key).status == 0);
  CHECK(run_grapevine("doctor --key " + key).out.find("ok    run key") != std::string::npos);
  check_refused("keygen " + key, 2, {"run.key", "it exists, accepted: the path of a new file"});
  check_refused("keygen", 2, {"keygen FILE"});
  check_refused(kAlone + "--key " + scratch.path("none"), 2, {"run key", "none"});
  check_refused(kAlone + "--key " + scratch.file("cut", "grapevine-run-key-1 00"), 2, {"run key"});
}

TEST_CASE("places in the run that cannot be are refused") {
  check_refused(kAlone + "--ranks 4 --total-ranks 2", 2, {"total-ranks is 2", "4"});
  check_refused(kAlone + "--ranks 4 --first-rank 6 --total-ranks 8", 2, {"total-ranks is 8", "10"});
  check_refused(kAlone + "--patience 0", 2, {"patience is 0"});
  check_refused("launch --nodes 0", 2, {"nodes is 0", "from 1"});
  check_refused("launch --hosts /no/such/file", 2, {"/no/such/file"});
  // Of a node's 128 links eight are the membership's.
  check_refused("launch --objective quadratic --nodes 122 --topology complete", 2,
                {"topology complete", "would need links to 121 others", "at most 120"});
  check_refused("launch --objective quadratic --nodes 122 --method all_reduce", 2,
                {"method all_reduce", "would need links to 121 others", "at most 120"});
  const Scratch scratch;
  check_refused("launch --objective quadratic --hosts " + scratch.file("hosts", "a\n") +
                    " --plan " + scratch.file("plan", "[[fault]]\nkind = \"kill\"\nranks = [0]\n"),
                2, {"plan", "--hosts", "accepted"});
}

TEST_CASE("the doctor has a line for each thing, and says what is wrong with status 1") {
  const Ran well = run_grapevine("doctor");
  for (const char* what :
       {"cores", "memory", "open files", "port", "run key", "LibTorch", "CUDA", "NCCL", "disk"})
    CHECK_THAT(well.out, Catch::Contains(what));
  const Ran ill = run_grapevine("doctor --join 127.0.0.1:1");
  CHECK(ill.status == 1);
  CHECK_THAT(ill.out, Catch::Contains("FAIL  peer") && Catch::Contains("127.0.0.1:1"));
}
