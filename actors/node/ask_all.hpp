// ask_all: the reports of several actors.
#pragma once
#include <caf/all.hpp>
#include <memory>
#include <utility>
#include <vector>

#include "actors/mail/protocol.hpp"

namespace grapevine {

/// Fills `replies` with the reports of the actors that live, and calls then() once each actor has
/// answered or ended. `replies` must live until then.
template <class Actor, class Reply, class Then>
void ask_all(NodeActor::base& owner, const std::vector<Actor>& actors, std::vector<Reply>& replies,
             Then then) {
  replies.clear();
  if (actors.empty()) return then();
  struct Awaited {
    size_t replies;
    Then then;
  };
  const auto awaited = std::make_shared<Awaited>(Awaited{actors.size(), std::move(then)});
  const auto one_less = [awaited] {
    if (--awaited->replies == 0) awaited->then();
  };
  for (const Actor& actor : actors) {
    owner.request(actor, caf::infinite, Report{})
        .then(
            [&replies, one_less](Reply& reply) {
              replies.push_back(std::move(reply));
              one_less();
            },
            [one_less](const caf::error&) { one_less(); });
  }
}

}  // namespace grapevine
