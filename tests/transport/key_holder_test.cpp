// A malicious holder of the run key attacks a node. It has the key, so its TLS is good. The node
// checks everything else that it sends.
#include "tests/transport/key_holder.hpp"

#include <sys/stat.h>

#include "messages/facts.hpp"
#include "tests/transport/tools.hpp"
#include "tests/transport/valid_peer.hpp"

using namespace grapevine;

namespace {

LinksOptions with(const RunKey& key) {
  LinksOptions options;
  options.key = key;
  return options;
}

Hello with_key(Hello said, const PublicKey& key) {
  said.key = key;
  return said;
}

}  // namespace

TEST_CASE("a holder of the run key is heard by TLS 1.3 and not by TLS 1.2") {
  const RunKey key = RunKey::generate();
  TestNode a("a", with(key));
  KeyHolder good(a.address(), key, "b", TLS1_3_VERSION);
  REQUIRE(good.is_encrypted());
  REQUIRE(good.say(with_key(hello("b"), good.own_key().public_key())));
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

TEST_CASE("a holder of the run key who says the key of another process than its own is refused") {
  const RunKey key = RunKey::generate();
  TestNode a("a", with(key)), c("c", with(key));
  KeyHolder liar(a.address(), key, "b", TLS1_3_VERSION);
  REQUIRE(liar.say(with_key(hello("b"), c.links().key())));
  const ControlMessage answer = liar.hear();
  REQUIRE(std::holds_alternative<Refusal>(answer));
  CHECK(std::get<Refusal>(answer).reason == "a key of b that is not its certificate's");
}

TEST_CASE("the 513th stranger at once is closed at once, and a place is given back") {
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
  const Hello mine = with_key(hello("b"), peer.own_key().public_key());
  REQUIRE(peer.say(mine));
  const ControlMessage theirs = peer.hear();
  REQUIRE(std::holds_alternative<Hello>(theirs));
  REQUIRE(peer.say(Agree{peer.own_key().sign(link_bytes(mine, std::get<Hello>(theirs)))}));
  REQUIRE(std::holds_alternative<Agree>(peer.hear()));
  const ControlMessage handed_out = peer.hear();
  REQUIRE(std::holds_alternative<BulkToken>(handed_out));
  CHECK(std::get<BulkToken>(handed_out).encrypted);
  Stranger plain = knock_for_bulk(a.address(), std::get<BulkToken>(handed_out).token);
  CHECK(plain.is_closed());
  CHECK(a.links().refusals()[static_cast<size_t>(LinkRefusal::plain)] == 1u);
  CHECK(a.look([&] { return a.downs.size(); }) == 0u);  // the control link stands
}

TEST_CASE(
    "who says a key that it has not is refused, and so is a proof that was made for another") {
  TestNode a("a", without_key());
  const auto refused =
      [&](const std::function<Agree(const Hello& mine, const Hello& theirs)>& prove) {
        Stranger s(a.address());
        REQUIRE(s.say(hello("b")));
        const ControlMessage theirs = s.hear();
        REQUIRE(std::holds_alternative<Hello>(theirs));
        REQUIRE(s.say(prove(hello("b"), std::get<Hello>(theirs))));
        const ControlMessage answer = s.hear();
        REQUIRE(std::holds_alternative<Refusal>(answer));
        CHECK(std::get<Refusal>(answer).reason == "no proof that b has its key");
      };
  refused([](const Hello&, const Hello&) { return Agree{}; });
  refused([](const Hello& mine, const Hello& theirs) {
    return Agree{test::key_of("eve").sign(link_bytes(mine, theirs))};
  });
  std::optional<Agree> of_before;
  {
    Stranger good(a.address());
    REQUIRE(good.say(hello("b")));
    of_before = agree(hello("b"), good.hear());
    REQUIRE(good.say(*of_before));
    REQUIRE(a.wait_up("b"));
  }
  REQUIRE(a.wait_down("b"));
  refused([&](const Hello&, const Hello&) { return *of_before; });
  CHECK(a.look([&] { return a.ups["b"].size(); }) == 1u);
}

TEST_CASE(
    "a name belongs to whom the membership knows by it: another is refused, and contests it") {
  TestNode a("a", without_key());
  const NodeKey owner = test::key_of("b");
  a.links().know("b", id_of(owner.public_key()));
  LinksOptions options = without_key();
  options.own_key = NodeKey::generate();
  TestNode other("b", options);
  other.links().dial(a.address());
  REQUIRE(other.wait([&] { return other.failures.size() == 1; }));
  CHECK(other.failures[0] == kNameHeld);
  REQUIRE(a.wait([&] { return a.contested == std::vector<std::string>{"b"}; }));
  a.links().dial(other.address());  // where the owner said that it listens
  REQUIRE(a.wait([&] { return a.failures.size() == 1; }));
  CHECK(a.failures[0] == std::string("refused: ") + kNameHeld);
  options.own_key = owner;
  TestNode right("b", options);
  right.links().dial(a.address());
  REQUIRE(a.wait_up("b"));
  a.links().know("b", 0);  // it is over
  right.end();
  REQUIRE(a.wait_down("b"));
  other.links().dial(a.address());
  REQUIRE(a.wait_up("b", 2));
  CHECK(a.look([&] { return a.ups["b"][1].key == other.links().key(); }));
  a.links().know("b", id_of(owner.public_key()));
  REQUIRE(a.wait_down("b", 2));
}

TEST_CASE("a node's key is kept in a file of its own, and is the same when it is read again") {
  const std::string path = "/tmp/grapevine_node_key_" + std::to_string(::getpid());
  const auto made = NodeKey::kept_in(path), again = NodeKey::kept_in(path);
  REQUIRE(made);
  REQUIRE(again);
  CHECK(made->public_key() == again->public_key());
  CHECK(made->public_key() != NodeKey::generate().public_key());
  const std::vector<std::byte> fact(100, std::byte{3});
  CHECK(is_signed(again->public_key(), fact, made->sign(fact)));
  CHECK_FALSE(is_signed(again->public_key(), std::span(fact).first(99), made->sign(fact)));
  CHECK_FALSE(is_signed({}, fact, made->sign(fact)));
  struct stat about {};
  REQUIRE(::stat(path.c_str(), &about) == 0);
  CHECK((about.st_mode & 0777) == 0600);
  REQUIRE(::truncate(path.c_str(), 30) == 0);
  const auto cut = NodeKey::kept_in(path);
  REQUIRE_FALSE(cut);
  CHECK(cut.error().message == "node key " + path +
                                   ": not a node key or a cut one, accepted: the line that a node "
                                   "wrote");
  ::unlink(path.c_str());
}
