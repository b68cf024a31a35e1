// The signed bytes: each field of a node's statement about itself has its own bytes.
#include "messages/facts.hpp"

#include <functional>
#include <set>

#include "tests/catch.hpp"

using namespace grapevine;

namespace {

using Change = std::function<void(Member&)>;

Member record() {
  Member m;
  m.node = "node";
  m.address = "address";
  m.incarnation = 1;
  m.ranks = 2;
  return m;
}

}  // namespace

TEST_CASE(
    "a record's owner signs every field but what others say of it, and no two have one form") {
  const std::vector<Change> own = {
      [](Member& m) {
        m.node += "a";
        m.address = "ddress";
      },  // a text ends where it does
      [](Member& m) { ++m.incarnation; },
      [](Member& m) { ++m.refutations; },
      [](Member& m) { m.address += "!"; },
      [](Member& m) { ++m.first_rank; },
      [](Member& m) { ++m.ranks; },
      [](Member& m) { m.ready = !m.ready; },
      [](Member& m) { m.finished = !m.finished; },
      [](Member& m) { m.key[31] = 1; },
      [](Member& m) {
        m.gone = {{0, 1, false}};
      },
      [](Member& m) {
        m.gone = {{0, 1, true}};
      },
      [](Member& m) { m.unreachable = {1}; },
      [](Member& m) { m.mean.number = 1; },
      [](Member& m) { m.mean.hash = 1; },
      [](Member& m) { m.last_word = MemberState::left; },
      [](Member& m) { m.generation = 1; },
      [](Member& m) { m.stops = true; },
      [](Member& m) { m.means_asked = 1; },
      [](Member& m) { m.life = 1; },
  };
  std::set<FactBytes> all{fact_bytes(1, record()), fact_bytes(2, record())};
  for (const Change& change : own) {
    Member m = record();
    change(m);
    all.insert(fact_bytes(1, m));
  }
  CHECK(all.size() == own.size() + 2);
  Member said_by_others = record();
  said_by_others.state = MemberState::suspect;
  said_by_others.accuser = 7;
  said_by_others.signature = {8};
  CHECK(fact_bytes(1, said_by_others) == fact_bytes(1, record()));
}

TEST_CASE("a graph, a fact of rates and a link have bytes of their own, field by field") {
  const GraphSpec graph{1, "a", "ring", {1}, {}};
  std::set<FactBytes> all{fact_bytes(1, graph)};
  for (const GraphSpec& other :
       {GraphSpec{2, "a", "ring", {1}, {}}, GraphSpec{1, "ar", "ing", {1}, {}},
        GraphSpec{1, "a", "star", {1}, {}}, GraphSpec{1, "a", "ring", {2}, {}}})
    all.insert(fact_bytes(1, other));
  const PublicKey key{1};
  for (const RateFact& fact :
       {RateFact{9, 1, 2, 3, {{0, 1, 4}}, {}}, RateFact{9, 2, 2, 3, {{0, 1, 4}}, {}},
        RateFact{9, 1, 3, 3, {{0, 1, 4}}, {}}, RateFact{9, 1, 2, 4, {{0, 1, 4}}, {}},
        RateFact{9, 1, 2, 3, {{0, 2, 4}}, {}}, RateFact{9, 1, 2, 3, {{0, 1, 5}}, {}}})
    all.insert(fact_bytes(1, key, fact));
  for (const WorkFact& fact :
       {WorkFact{9, 1, 2, 3, 4, {}}, WorkFact{9, 2, 2, 3, 4, {}}, WorkFact{9, 1, 1, 3, 4, {}},
        WorkFact{9, 1, 2, 4, 4, {}}, WorkFact{9, 1, 2, 3, 5, {}}})
    all.insert(fact_bytes(1, key, fact));
  Hello a, b;
  a.node = "a";
  b.node = "b";
  const auto link = [&] { all.insert(link_bytes(a, b)); };
  link();
  a.challenge = {1};
  link();
  b.challenge = {1};
  link();
  b.key = {1};
  link();
  all.insert(link_bytes(b, a));
  CHECK(all.size() == 5u + 6 + 5 + 5);
}
