// grapevine ctl: a console of a running node.
#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <sstream>
#include <thread>

#include "actors/settings/alarm.hpp"
#include "app/commands/commands.hpp"
#include "app/metrics/metrics_text.hpp"
#include "app/output/node_status_json.hpp"
#include "app/system/ask_node.hpp"
#include "app/system/words.hpp"
#include "kernels/base/printable.hpp"
#include "kernels/base/read_text.hpp"
#include "kernels/base/spec.hpp"

namespace grapevine {
namespace {

constexpr char kFollow[] = "follow", kMetrics[] = "metrics";

struct Verb {
  const char* name;
  ConsoleVerb verb;
  const char* argument;  // null: none
  bool optional = false;
};

constexpr Verb kVerbs[] = {
    {"status", ConsoleVerb::status, nullptr},
    {kMetrics, ConsoleVerb::status, nullptr},
    {"topology", ConsoleVerb::topology, nullptr},
    {"reconfigure", ConsoleVerb::reconfigure, "SPEC"},
    {"drain", ConsoleVerb::drain, nullptr},
    {"stop", ConsoleVerb::stop, nullptr},
    {"inject", ConsoleVerb::inject, "PLAN"},
    {"snapshot", ConsoleVerb::snapshot, "FILE"},
    {"checkpoint", ConsoleVerb::checkpoint, nullptr},
    {"events", ConsoleVerb::events, "N or follow", true},
};

// host:port, unix:/path, /path, or a name.
bool is_address(const std::string& text) {
  if (text.starts_with("unix:")) return text.size() > 5;
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return true;
  const auto port = number_of<int>(std::string_view(text).substr(colon + 1));
  return colon > 0 && port && *port > 0 && *port < 65536;
}

Result<const Verb*> verb_of(const Options& o) {
  std::string accepted;
  if (o.verb.empty())
    return user_error(fmt::format(
        "ctl without a verb, accepted: grapevine ctl {} status; grapevine ctl --help lists all",
        o.address));
  for (const Verb& verb : kVerbs) {
    accepted += (accepted.empty() ? "" : ", ") + std::string(verb.name);
    if (o.verb != verb.name) continue;
    if (verb.argument != nullptr && o.argument.empty() && !verb.optional)
      return user_error(
          fmt::format("ctl {} without its argument, accepted: grapevine ctl ADDR {} {}", o.verb,
                      o.verb, verb.argument));
    if (verb.argument == nullptr && !o.argument.empty())
      return user_error(
          fmt::format("ctl {} with the argument \"{}\", accepted: none", o.verb, o.argument));
    return &verb;
  }
  const bool swapped =
      std::ranges::any_of(kVerbs, [&](const Verb& verb) { return o.address == verb.name; });
  return user_error(
      fmt::format("ctl verb is \"{}\", accepted: {}; for instance grapevine ctl {} {}", o.verb,
                  accepted, swapped ? o.verb : o.address, swapped ? o.address : "status"));
}

// The number of events to show; without a number all that the node has kept.
Result<size_t> last_events(const std::string& argument) {
  if (argument.empty()) return SIZE_MAX;
  if (const auto last = number_of<size_t>(argument)) return *last;
  return user_error(
      fmt::format("events is \"{}\", accepted: a number of events, or follow", argument));
}

Result<std::string> text_of(const std::string& path) {
  constexpr size_t kMostMib = 1;
  auto text = read_text(path, kMostMib);
  if (text) return text;
  return user_error(fmt::format("plan is \"{}\", which cannot be read: {}, accepted: a TOML file",
                                path, text.error().message));
}

std::string joined(const Json& numbers) {
  std::string text;
  for (const Json& n : numbers)
    text += (text.empty() ? "" : " ") + n.dump();
  return text;
}

std::string known(const Json& value, std::string (*text)(double)) {
  return value.is_number() ? text(value.get<double>()) : "-";
}

std::string spaced(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

void print_topology(const Json& s) {
  std::printf(
      "epoch %s: %s of %s ranks, chi1 %s, chi2 %s, eta %s, alpha~ %s, computed %s ago\n",
      as_epoch(s.at("epoch").get<uint64_t>()).c_str(), s.at("topology").get<std::string>().c_str(),
      s.at("graph_ranks").dump().c_str(), as_short(s.at("chi1").get<double>()).c_str(),
      as_short(s.at("chi2").get<double>()).c_str(), as_short(s.at("eta").get<double>()).c_str(),
      as_short(s.at("alpha_tilde").get<double>()).c_str(),
      as_seconds(s.at("constants_age_seconds").get<double>()).c_str());
  std::printf("  %-10s %12s %12s %12s %12s %10s %10s\n", "edge", "exchanges/s", "round trip",
              "last one", "distance", "bytes", "declined");
  for (const Json& e : s.at("edges")) {
    if (!e.at("in_graph").get<bool>()) continue;
    std::printf("  %-10s %12s %12s %12s %12s %10s %10s\n", joined(e.at("ranks")).c_str(),
                as_short(e.at("exchanges_per_second").get<double>()).c_str(),
                as_seconds(e.at("round_trip_seconds").get<double>()).c_str(),
                known(e.at("staleness_seconds"), as_seconds).c_str(),
                known(e.at("distance"), as_short).c_str(),
                as_bytes(e.at("bytes").get<double>()).c_str(), e.at("declined").dump().c_str());
  }
}

// The nonzero entries of an object of counts, by name: "strangers 3, cut 1".
std::string counted(const Json& counts) {
  std::string text;
  for (const auto& [name, count] : counts.items()) {
    if (!count.is_number() || count == 0) continue;
    text += fmt::format("{}{} {}", (text.empty() ? "" : ", "), spaced(name), count.dump());
  }
  return text.empty() ? "none" : text;
}

// Most are normal: an offer comes when its rank cannot take it.
std::string declined(const Json& by_reason) {
  constexpr std::pair<const char*, const char*> kWords[] = {
      {"busy", "busy with another exchange"},
      {"not_yet", "too early"},
      {"repeat", "from the last partner"},
      {"older_caller", "after an older offer of this rank"},
      {"epoch", "from another epoch"},
      {"no_buffer", "for lack of a buffer"},
      {"gone", "already done"},
  };
  std::string text;
  for (const auto& [name, words] : kWords)
    if (const Json& count = by_reason.at(name); count != 0)
      text +=
          fmt::format("{}{} {}", text.empty() ? "" : ", ", with_commas(count.get<double>()), words);
  return text.empty() ? "none" : text;
}

void print_guests(const Json& guests) {
  std::printf("scripts come in at %s\n", guests.at("door").get<std::string>().c_str());
  for (const Json& script : guests.at("scripts")) {
    const bool there = script.at("process") != 0;
    std::printf("  rank %-4s %s, %s steps\n", script.at("rank").dump().c_str(),
                there ? fmt::format("process {}, the last step {} ago", script.at("process").dump(),
                                    as_seconds(script.at("seconds_since_step").get<double>()))
                            .c_str()
                      : "no script",
                script.at("steps").dump().c_str());
  }
}

void print_device_links(const Json& links) {
  for (const Json& link : links) {
    const std::string why = link.at("sends_by_host_because");
    std::printf("  snapshots            to %s by %s%s%s, from it by %s\n",
                link.at("node").get<std::string>().c_str(),
                link.at("sends").get<std::string>().c_str(), why.empty() ? "" : ": ", why.c_str(),
                link.at("receives").get<std::string>().c_str());
    if (link.at("sent_by_nccl") != 0 || link.at("received_by_nccl") != 0 ||
        link.at("broken_off_by_nccl") != 0)
      std::printf("                       by nccl %s sent, %s received, %s exchanges failed\n",
                  link.at("sent_by_nccl").dump().c_str(),
                  link.at("received_by_nccl").dump().c_str(),
                  link.at("broken_off_by_nccl").dump().c_str());
  }
}

void print_status(const Json& s) {
  std::printf("%s, up %s\n", s.at("node").get<std::string>().c_str(),
              as_seconds(s.at("uptime_seconds").get<double>()).c_str());
  for (const Json& alarm : s.value("alarms", Json::array()))
    std::printf("%s%s\n", kAlarm, alarm.at("line").get<std::string>().c_str());
  for (const Json& m : s.at("members"))
    std::printf("  %-20s %-8s incarnation %-3s %-22s ranks %s\n",
                m.at("node").get<std::string>().c_str(), m.at("state").get<std::string>().c_str(),
                m.at("incarnation").dump().c_str(), m.at("address").get<std::string>().c_str(),
                joined(m.at("ranks")).c_str());
  std::printf("  ranks here           %s\n  gradients by rank    %s\n  exchanges by rank    %s\n",
              joined(s.at("ranks_here")).c_str(), joined(s.at("gradients")).c_str(),
              joined(s.at("exchanges")).c_str());
  std::printf("  progress             %s, %s gradients a second here, loss %s\n",
              known(s.at("progress"), as_percent).c_str(),
              known(s.at("gradients_per_second"), as_short).c_str(),
              known(s.at("loss"), as_short).c_str());
  if (s.contains("test_loss"))
    std::printf("  tested               accuracy %s, loss %s\n",
                known(s.at("accuracy"), as_percent).c_str(),
                known(s.at("test_loss"), as_short).c_str());
  const Json& refusals = s.at("refusals");
  std::printf("  consensus distance   %s, estimated from the edges below\n",
              known(s.at("consensus_distance"), as_short).c_str());
  std::printf("  offers declined      %s\n", declined(refusals.at("declined_because")).c_str());
  std::printf("  refused connections  %s\n", counted(refusals.at("turned_away")).c_str());
  Json others = refusals;
  others.erase("offers_declined");
  std::printf("  refused, broken      %s\n  frames lost          %s\n", counted(others).c_str(),
              counted(s.at("frames_lost")).c_str());
  for (const Json& d : s.at("departures"))
    std::printf("  %-20s %s with %s of %s ranks, the mean moved by %s\n",
                d.at("node").get<std::string>().c_str(), d.at("state").get<std::string>().c_str(),
                d.at("ranks").dump().c_str(), d.at("of").dump().c_str(),
                known(d.at("mean_changed_by"), as_short).c_str());
  print_device_links(s.value("device_links", Json::array()));
  print_topology(s);
  if (s.contains("guests")) print_guests(s.at("guests"));
}

Json part_of(const Json& status, std::initializer_list<const char*> names) {
  Json part = Json::object();
  for (const char* name : names)
    part[name] = status.at(name);
  return part;
}

Error malformed(const Options& o) {
  return world_error(o.address + ": the answer is not what was asked for");
}

void tell_events(const Options& o, const Json& status) {
  Json events = status.at("events");
  const size_t wanted = *last_events(o.argument);
  if (events.size() > wanted)
    events.erase(events.begin(), events.end() - static_cast<ptrdiff_t>(wanted));
  if (o.json) return print_json({{"node", status.at("node")}, {"events", events}});
  for (const Json& line : events)
    std::printf("%s\n", line.get<std::string>().c_str());
}

// Prints the node's answer in the requested form. Throws Json::exception if the answer is not that
// of a node.
Status tell(const Options& o, ConsoleVerb verb, const std::string& text) {
  if (verb == ConsoleVerb::reconfigure || verb == ConsoleVerb::drain || verb == ConsoleVerb::stop ||
      verb == ConsoleVerb::inject || verb == ConsoleVerb::checkpoint) {
    if (o.json)
      print_json({{"answer", text}});
    else
      std::printf("%s\n", printable(text).c_str());
    return Done{};
  }
  Json object = json_of_text<Json>(text);
  if (!o.json) make_printable(object);
  if (!object.is_object() || !object.contains("members")) return malformed(o);
  if (o.verb == kMetrics) {
    std::fputs(metrics_text(object, MetricsFormat::prometheus).c_str(), stdout);
  } else if (verb == ConsoleVerb::status) {
    if (o.json)
      print_json(object);
    else
      print_status(object);
  } else if (verb == ConsoleVerb::topology) {
    if (o.json)
      print_json(part_of(object, {"node", "epoch", "topology", "graph", "graph_ranks", "chi1",
                                  "chi2", "eta", "alpha_tilde", "constants_age_seconds", "edges"}));
    else
      print_topology(object);
  } else {
    tell_events(o, object);
  }
  return Done{};
}

Status save_snapshot(const Options& o) {
  auto answer = fetch_snapshot(o.address, o.peers.key);
  if (!answer) return answer.error();
  const Json object = json_of_text<Json>(answer->description);
  try {
    if (Status written = write_snapshot(object, answer->bytes, o.argument); !written)
      return written;
  } catch (const Json::exception&) {
    return malformed(o);
  }
  if (o.json)
    print_json({{"file", o.argument}, {"ranks", object.at("ranks")}});
  else
    std::printf("%s: the mean of %s ranks\n", printable(o.argument).c_str(),
                object.at("ranks").dump().c_str());
  return Done{};
}

// Ends this process when the reader of its output is gone (| head). Only a write would notice that,
// and the next event may come in hours.
void end_with_reader() {
  std::thread([] {
    pollfd output{STDOUT_FILENO, 0, 0};  // no event: errors are always reported
    while (poll(&output, 1, -1) < 0 && errno == EINTR) {
    }
    if ((output.revents & (POLLERR | POLLHUP)) != 0) _exit(0);
  }).detach();
}

// Prints each event as it comes, until the node ends or the user stops.
Status follow(const Options& o) {
  end_with_reader();
  return follow_node(o.address, o.peers.key, {ConsoleVerb::events, kFollow}, [&](const auto& part) {
    if (o.json)
      print_json({{"event", part.text.substr(0, part.text.find('\n'))}});
    else
      std::printf("%s\n", printable(part.text.substr(0, part.text.find('\n'))).c_str());
    return std::fflush(stdout) == 0 && std::ferror(stdout) == 0;  // else nobody reads on
  });
}

}  // namespace

Result<int> control(Options o) {
  if (o.address.empty())
    return user_error(
        "ctl without an address, accepted: grapevine ctl ADDR VERB, for instance "
        "grapevine ctl a status");
  if (!is_address(o.address))
    return user_error(fmt::format(
        "ctl address is \"{}\", accepted: a node's name, host:port or unix:/path", o.address));
  const auto verb = verb_of(o);
  if (!verb) return verb.error();
  ConsoleRequest request;
  request.verb = (*verb)->verb;
  if (request.verb == ConsoleVerb::reconfigure) request.argument = o.argument;
  if (request.verb == ConsoleVerb::inject) {
    auto text = text_of(o.argument);
    if (!text) return text.error();
    request.argument = std::move(*text);
  }
  auto address = address_of_node(o.address);
  if (!address) return address.error();
  o.address = *std::move(address);
  if (request.verb == ConsoleVerb::events && o.argument == kFollow) {
    const Status ended = follow(o);
    if (!ended) return ended.error();
    return 0;
  }
  if (request.verb == ConsoleVerb::events) {
    if (const auto last = last_events(o.argument); !last) return last.error();
  }
  if (request.verb == ConsoleVerb::snapshot) {
    if (Status saved = save_snapshot(o); !saved) return saved.error();
    return 0;
  }
  constexpr double kConnects_s = 2, kAnswers_s = 10, kWritten_s = 600;
  const bool writes = request.verb == ConsoleVerb::checkpoint;
  const auto answer =
      ask_node(o.address, o.peers.key, request, kConnects_s, writes ? kWritten_s : kAnswers_s);
  if (!answer) return answer.error();
  try {
    if (Status told = tell(o, request.verb, *answer); !told) return told.error();
  } catch (const Json::exception&) {
    return malformed(o);
  }
  return 0;
}

}  // namespace grapevine
