// make_conversation: the conversation of a rank under these settings, with its time-outs.
#pragma once
#include <memory>

#include "actors/conversations/conversation.hpp"
#include "actors/settings/settings.hpp"
#include "kernels/memory/layout.hpp"

namespace grapevine {

struct ConversationOf {
  int rank = 0;
  const Settings& settings;
  const RuleSettings& rule;  // as in rule_settings_of(settings, objective)
  const ParameterLayout& layout;
  int vectors = 1;    // CollectiveRule::vectors
  double step_s = 1;  // expected mean time between two steps of a rule
};

std::unique_ptr<Conversation> make_conversation(const ConversationOf&);

}  // namespace grapevine
