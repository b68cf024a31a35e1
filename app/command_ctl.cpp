// grapevine ctl: a console of a node that runs.
#include <cstdio>
#include <fstream>
#include <sstream>

#include "app/ask_node.hpp"
#include "app/commands.hpp"
#include "app/node_status_json.hpp"
#include "app/words.hpp"

namespace grapevine {
namespace {

struct Verb {
  const char* name;
  ConsoleVerb verb;
  const char* argument;  // what it needs; null: nothing
};

constexpr Verb kVerbs[] = {
    {"status", ConsoleVerb::status, nullptr},
    {"topology", ConsoleVerb::topology, nullptr},
    {"reconfigure", ConsoleVerb::reconfigure, "SPEC"},
    {"drain", ConsoleVerb::drain, nullptr},
    {"stop", ConsoleVerb::stop, nullptr},
    {"inject", ConsoleVerb::inject, "PLAN"},
    {"snapshot", ConsoleVerb::snapshot, "FILE"},
    {"events", ConsoleVerb::events, nullptr},
};

Result<const Verb*> verb_of(const Options& o) {
  std::string accepted;
  for (const Verb& verb : kVerbs) {
    accepted += (accepted.empty() ? "" : ", ") + std::string(verb.name);
    if (o.verb != verb.name) continue;
    if (verb.argument != nullptr && o.argument.empty())
      return user_error("ctl " + o.verb + " without its argument, accepted: grapevine ctl ADDR " +
                        o.verb + " " + verb.argument);
    if (verb.argument == nullptr && !o.argument.empty())
      return user_error("ctl " + o.verb + " with the argument \"" + o.argument +
                        "\", accepted: none");
    return &verb;
  }
  return user_error("ctl verb is \"" + o.verb + "\", accepted: " + accepted);
}

Result<std::string> text_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf()))
    return user_error("plan is \"" + path + "\", which cannot be read, accepted: a TOML file");
  return text.str();
}

std::string joined(const Json& numbers) {
  std::string text;
  for (const Json& n : numbers)
    text += (text.empty() ? "" : " ") + n.dump();
  return text;
}

void print_topology(const Json& s) {
  std::printf("epoch %s: %s of %s ranks, chi1 %s, chi2 %s, eta %s, alpha~ %s\n",
              s["epoch"].dump().c_str(), s["topology"].get<std::string>().c_str(),
              s["graph_ranks"].dump().c_str(), as_short(s["chi1"].get<double>()).c_str(),
              as_short(s["chi2"].get<double>()).c_str(), as_short(s["eta"].get<double>()).c_str(),
              as_short(s["alpha_tilde"].get<double>()).c_str());
  std::printf("  %-12s %14s %12s %12s %10s\n", "edge", "exchanges/s", "round trip", "bytes",
              "declined");
  for (const Json& e : s["edges"])
    std::printf("  %-12s %14s %12s %12s %10s\n", joined(e["ranks"]).c_str(),
                as_short(e["exchanges_per_second"].get<double>()).c_str(),
                as_seconds(e["round_trip_seconds"].get<double>()).c_str(),
                as_bytes(e["bytes"].get<double>()).c_str(), e["declined"].dump().c_str());
}

void print_status(const Json& s) {
  std::printf("%s, up %s\n", s["node"].get<std::string>().c_str(),
              as_seconds(s["uptime_seconds"].get<double>()).c_str());
  for (const Json& m : s["members"])
    std::printf("  %-20s %-8s life %-3s %-22s ranks %s\n", m["node"].get<std::string>().c_str(),
                m["state"].get<std::string>().c_str(), m["incarnation"].dump().c_str(),
                m["address"].get<std::string>().c_str(), joined(m["ranks"]).c_str());
  std::printf("  gradients by rank    %s\n  exchanges by rank    %s\n",
              joined(s["gradients"]).c_str(), joined(s["exchanges"]).c_str());
  print_topology(s);
}

Json part_of(const Json& status, std::initializer_list<const char*> names) {
  Json part = Json::object();
  for (const char* name : names)
    part[name] = status[name];
  return part;
}

// What the node said, told as it was asked for.
Status tell(const Options& o, ConsoleVerb verb, const std::string& text) {
  const Error malformed = world_error(o.address + ": the answer is not what was asked for");
  if (verb == ConsoleVerb::reconfigure || verb == ConsoleVerb::drain || verb == ConsoleVerb::stop ||
      verb == ConsoleVerb::inject) {
    if (o.json)
      print_json({{"answer", text}});
    else
      std::printf("%s\n", text.c_str());
    return Done{};
  }
  const Json object = Json::parse(text, nullptr, false);
  if (verb == ConsoleVerb::snapshot) {
    if (Status written = write_snapshot(object, o.argument); !written) return written;
    if (o.json)
      print_json({{"file", o.argument}, {"ranks", object["ranks"]}});
    else
      std::printf("%s: the mean of %s ranks\n", o.argument.c_str(), object["ranks"].dump().c_str());
    return Done{};
  }
  if (!object.is_object() || !object.contains("members")) return malformed;
  if (verb == ConsoleVerb::status) {
    if (o.json)
      print_json(object);
    else
      print_status(object);
  } else if (verb == ConsoleVerb::topology) {
    if (o.json)
      print_json(part_of(object, {"node", "epoch", "topology", "graph", "graph_ranks", "chi1",
                                  "chi2", "eta", "alpha_tilde", "edges"}));
    else
      print_topology(object);
  } else {
    if (o.json) return print_json(part_of(object, {"node", "events"})), Done{};
    for (const Json& line : object["events"])
      std::printf("%s\n", line.get<std::string>().c_str());
  }
  return Done{};
}

}  // namespace

Result<int> control(const Options& o) {
  if (o.address.empty())
    return user_error(
        "ctl without an address, accepted: grapevine ctl ADDR VERB, for instance "
        "grapevine ctl 127.0.0.1:7001 status");
  const auto verb = verb_of(o);
  if (!verb) return verb.error();
  ConsoleRequest request{(*verb)->verb, {}};
  if (request.verb == ConsoleVerb::reconfigure) request.argument = o.argument;
  if (request.verb == ConsoleVerb::inject) {
    auto text = text_of(o.argument);
    if (!text) return text.error();
    request.argument = std::move(*text);
  }
  const auto answer = ask_node(o.address, o.peers.key, request);
  if (!answer) return answer.error();
  if (Status told = tell(o, request.verb, *answer); !told) return told.error();
  return 0;
}

}  // namespace grapevine
