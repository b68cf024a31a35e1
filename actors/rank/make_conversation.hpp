// make_conversation: the conversation that a rank holds under these settings, with its time-outs.
#pragma once
#include <memory>

#include "actors/conversations/conversation.hpp"
#include "actors/settings/settings.hpp"
#include "kernels/memory/layout.hpp"

namespace grapevine {

struct ConversationOf {
  int rank = 0;
  const Settings& settings;
  const RuleSettings& rule;  // as the ranks' rules have them, which may be fewer than are set
  const ParameterLayout& layout;
  int vectors = 1;    // that a rule names (Rule::state)
  double step_s = 1;  // expected mean time between two steps of a rule
};

std::unique_ptr<Conversation> make_conversation(const ConversationOf&);

}  // namespace grapevine
