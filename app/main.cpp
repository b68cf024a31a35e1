// The program `grapevine`: what the command line asks for, and the exit status.
#include <cstdio>

#include "app/command_line.hpp"
#include "app/commands.hpp"
#include "app/interrupts.hpp"
#include "models/heap.hpp"

namespace {

using namespace grapevine;

Result<int> carry_out(Invocation invocation) {
  switch (invocation.command) {
    case kTrain: return train(std::move(invocation.options));
    case kSimulate: return simulate(std::move(invocation.options));
    case kStragglers: return stragglers(std::move(invocation.options));
    case kData: return show_data(invocation.options);
    case kMethods: return show_methods(invocation.options);
    case kCompare: return compare(invocation.options);
    case kReproduce: return reproduce(invocation.options);
    case kNode: return node(std::move(invocation.options));
    case kLaunch: return launch(std::move(invocation.options));
    case kCtl: return control(invocation.options);
    case kKeygen: return make_key(invocation.options);
    case kDoctor: return doctor(invocation.options);
    case kTopology: break;
  }
  return show_topology(invocation.options);
}

int refuse(const Error& error) {
  std::fprintf(stderr, "grapevine: %s\n", error.message.c_str());
  return error.exit_status();
}

}  // namespace

int main(int argc, char** argv) {
  prepare_heap();
  CommandLine line = read_command_line(argc, argv);
  if (const auto* text = std::get_if<std::string>(&line)) {
    std::fputs(text->c_str(), stdout);
    return 0;
  }
  if (const auto* error = std::get_if<Error>(&line)) return refuse(*error);
  for (const std::string& warning : std::get<Invocation>(line).options.warnings)
    std::fprintf(stderr, "grapevine: %s\n", warning.c_str());
  count_interrupts();
  const Result<int> status = carry_out(std::move(std::get<Invocation>(line)));
  return status ? *status : refuse(status.error());
}
