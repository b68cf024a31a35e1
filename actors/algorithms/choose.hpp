// The methods by name: which rule a name stands for, and which conversation it needs.
#pragma once
#include <memory>
#include <string>

#include "actors/algorithms/rule.hpp"
#include "kernels/result.hpp"

namespace grapevine {

enum class Pattern { pairwise, collective };

Status check_rule_name(const std::string& method);  // names what is accepted
std::string rule_names();

// REQUIRES for all below: check_rule_name(method).
Pattern pattern_of(const std::string& method);
bool is_accelerated(const std::string& method);  // uses eta and alpha~ of the graph
std::unique_ptr<Rule> make_rule(const std::string& method, const ParameterLayout&,
                                const OptimizerSettings&, Execution, ConstVec x);

}  // namespace grapevine
