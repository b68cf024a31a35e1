#include "app/ask_node.hpp"

#include <fmt/core.h>

#include "actors/transport/console.hpp"
#include "actors/transport/local_socket.hpp"

namespace grapevine {
namespace {

Result<std::unique_ptr<Console>> console_of(const std::string& address, const std::string& key,
                                            double deadline_s) {
  std::optional<RunKey> secret;
  if (!key.empty()) {
    auto read = RunKey::read(key);
    if (!read) return read.error();
    secret = *read;
  }
  return Console::open(address, secret, deadline_s);
}

}  // namespace

Result<std::string> address_of_node(const std::string& text) {
  if (text.starts_with('/')) return "unix:" + text;
  if (text.find(':') != text.npos) return text;
  return find_local(text);
}

Result<std::string> ask_node(const std::string& address, const std::string& key,
                             const ConsoleRequest& request, double deadline_s) {
  auto console = console_of(address, key, deadline_s);
  if (!console) return console.error();
  std::string text;
  bool ok = true;
  const Status asked = (*console)->ask(request, [&](const ConsoleReply& part) {
    ok = ok && part.ok;
    text += part.text;
    return true;
  });
  if (!asked) return asked.error();
  if (!ok) return user_error(fmt::format("{}: {}", address, text));
  return text;
}

Status follow_node(const std::string& address, const std::string& key,
                   const ConsoleRequest& request,
                   const std::function<bool(const ConsoleReply&)>& part) {
  auto console = console_of(address, key, 2);
  if (!console) return console.error();
  return (*console)->ask(request, part, 0);
}

}  // namespace grapevine
