// What a malicious holder of the run key can do at a node's door: it has the key, so its TLS is
// good, and is held to the rest of what a node keeps to all the same.
#include "tests/transport/key_holder.hpp"
#include "tests/transport/tools.hpp"
#include "tests/transport/valid_peer.hpp"

using namespace grapevine;

namespace {

LinksOptions with(const RunKey& key) {
  LinksOptions options;
  options.key = key;
  return options;
}

Hello with_id(Hello said, uint64_t id) {
  said.id = id;
  return said;
}

}  // namespace

TEST_CASE("a holder of the run key is heard by TLS 1.3 and not by TLS 1.2") {
  const RunKey key = RunKey::generate();
  TestNode a("a", with(key));
  KeyHolder good(a.address(), key, "b", TLS1_3_VERSION);
  REQUIRE(good.is_encrypted());
  REQUIRE(good.say(with_id(hello("b"), good.id())));
  CHECK(std::holds_alternative<Hello>(good.hear()));
  KeyHolder old(a.address(), key, "c", TLS1_2_VERSION);
  CHECK_FALSE(old.is_encrypted());
  REQUIRE(a.wait([&] { return a.turned_away.size() == 1; }));
}

TEST_CASE("a holder of the run key who says another name than its certificate is refused") {
  const RunKey key = RunKey::generate();
  TestNode a("a", with(key));
  KeyHolder liar(a.address(), key, "eve", TLS1_3_VERSION);
  REQUIRE(liar.is_encrypted());
  REQUIRE(liar.say(hello("b")));
  const ControlMessage answer = liar.hear();
  REQUIRE(std::holds_alternative<Refusal>(answer));
  CHECK(std::get<Refusal>(answer).reason == "the name b with a certificate for eve");
  REQUIRE(a.wait([&] { return a.turned_away.size() == 1; }));
  CHECK(a.look([&] { return a.ups.size(); }) == 0u);
}

TEST_CASE("a holder of the run key who says the id of another process than its own is refused") {
  const RunKey key = RunKey::generate();
  TestNode a("a", with(key)), c("c", with(key));
  KeyHolder liar(a.address(), key, "b", TLS1_3_VERSION);
  REQUIRE(liar.say(with_id(hello("b"), c.links().id())));
  const ControlMessage answer = liar.hear();
  REQUIRE(std::holds_alternative<Refusal>(answer));
  CHECK(std::get<Refusal>(answer).reason == "an id of b that is not its certificate's");
}

TEST_CASE("the 513th stranger at the door is closed at once, and a place is given back") {
  LinksOptions patient = without_key();
  patient.connect_s = 60;  // nobody is closed because its time is up
  TestNode a("a", patient);
  std::vector<Stranger> strangers;
  for (int k = 0; k < 512; ++k) {
    strangers.emplace_back(a.address());
    REQUIRE(strangers.back().open());
  }
  CHECK(Stranger(a.address()).is_closed());
  strangers.clear();
  CHECK(eventually([&] {
    Stranger next(a.address());
    return next.say(hello("b")) && std::holds_alternative<Hello>(next.hear());
  }));
}

TEST_CASE(
    "bulk in the clear is not believed where encryption is demanded, with a good token either") {
  const RunKey key = RunKey::generate();
  TestNode a("a", with(key));
  KeyHolder peer(a.address(), key, "b", TLS1_3_VERSION);
  REQUIRE(peer.say(with_id(hello("b"), peer.id())));
  REQUIRE(std::holds_alternative<Hello>(peer.hear()));
  REQUIRE(peer.say(Agree{}));
  REQUIRE(std::holds_alternative<Agree>(peer.hear()));
  const ControlMessage handed_out = peer.hear();
  REQUIRE(std::holds_alternative<BulkToken>(handed_out));
  CHECK(std::get<BulkToken>(handed_out).encrypted);
  Stranger plain = knock_for_bulk(a.address(), std::get<BulkToken>(handed_out).token);
  CHECK(plain.is_closed());
  CHECK(a.links().refusals()[static_cast<size_t>(LinkRefusal::plain)] == 1u);
  CHECK(a.look([&] { return a.downs.size(); }) == 0u);  // the control link stands
}
