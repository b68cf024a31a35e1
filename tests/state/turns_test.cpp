#include "actors/state/turns.hpp"

#include <string>
#include <vector>

#include "tests/catch.hpp"

using namespace grapevine;

namespace {
using Said = std::vector<std::string>;
}

TEST_CASE("who comes while a rank is held waits in order, other ranks do not") {
  Turns turns;
  Said said;
  CHECK_FALSE(turns.is_held(1));
  turns.hold(1);
  CHECK(turns.is_held(1));
  CHECK_FALSE(turns.is_held(2));
  turns.wait(1, [&] { said.push_back("first"); });
  turns.wait(1, [&] { said.push_back("second"); });
  CHECK(said.empty());
  turns.release(1);
  CHECK(said == Said{"first", "second"});
  CHECK_FALSE(turns.is_held(1));
}

TEST_CASE("who has a turn may hold the rank again, and the others wait on") {
  Turns turns;
  Said said;
  turns.hold(1);
  turns.hold(1);
  turns.wait(1, [&] {
    said.push_back("first");
    turns.hold(1);
  });
  turns.wait(1, [&] { said.push_back("second"); });
  turns.release(1);
  CHECK(said.empty());  // held twice
  turns.release(1);
  CHECK(said == Said{"first"});
  CHECK(turns.is_held(1));
  turns.release(1);
  CHECK(said == Said{"first", "second"});
}

TEST_CASE(
    "who has a turn may hold the rank and let it go at once: the others still come one by one") {
  Turns turns;
  Said said;
  turns.hold(1);
  for (const char* name : {"first", "second", "third"})
    turns.wait(1, [&said, &turns, name] {
      turns.hold(1);
      said.push_back(name);
      turns.release(1);
      said.push_back(std::string(name) + " is through");
    });
  turns.release(1);
  CHECK(said == Said{"first", "first is through", "second", "second is through", "third",
                     "third is through"});
  CHECK_FALSE(turns.is_held(1));
}

TEST_CASE("work that wants all ranks free waits for the last one") {
  Turns turns;
  Said said;
  turns.when_free([&] { said.push_back("at once"); });
  turns.hold(1);
  turns.hold(2);
  turns.when_free([&] { said.push_back("later"); });
  turns.release(1);
  CHECK(said == Said{"at once"});
  turns.release(2);
  CHECK(said == Said{"at once", "later"});
}

TEST_CASE("when all is let go whoever waits has a turn") {
  Turns turns;
  Said said;
  turns.hold(1);
  turns.wait(1, [&] { said.push_back("one"); });
  turns.when_free([&] { said.push_back("all"); });
  turns.let_go();
  CHECK(said == Said{"one", "all"});
  CHECK_FALSE(turns.is_held(1));
  turns.release(1);  // of what was let go
}
