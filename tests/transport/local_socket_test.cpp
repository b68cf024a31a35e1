// Sockets of one machine: whose they are, where they stand, how a node is found.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "actors/transport/local_socket.hpp"
#include "kernels/base/spec.hpp"
#include "tests/skipped.hpp"
#include "tests/transport/tools.hpp"

using namespace grapevine;
using test::skipped;

namespace {

namespace fs = std::filesystem;

/// Local sockets stand in a folder of the test's own while it lives.
class Runtime {
 public:
  Runtime() {
    std::string name = "/tmp/grapevine_local_XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
    ::setenv("XDG_RUNTIME_DIR", path.c_str(), 1);
  }
  ~Runtime() {
    ::unsetenv("XDG_RUNTIME_DIR");
    fs::remove_all(path);
  }
  std::string path;
};

LinksOptions listening(const std::string& address) {
  LinksOptions options;
  options.listen = address;
  return options;
}

std::string refusal(const std::string& listen, bool no_key) {
  LinksOptions options = listening(listen);
  options.self.node = "b";
  options.no_key = no_key;
  const auto opened = Links::open(options, {});
  return opened ? "accepted" : opened.error().message;
}

}  // namespace

TEST_CASE("the folder of local sockets is made for its user alone, and refused where it is not") {
  const Runtime runtime;
  const auto folder = local_folder();
  REQUIRE(folder);
  CHECK(*folder == runtime.path + "/grapevine");
  struct stat about {};
  REQUIRE(::stat(folder->c_str(), &about) == 0);
  CHECK((about.st_mode & 0777) == 0700);
  ::chmod(folder->c_str(), 0755);
  CHECK_FALSE(local_folder());
  fs::remove(*folder);
  fs::create_directory(runtime.path + "/elsewhere");
  ::chmod((runtime.path + "/elsewhere").c_str(), 0700);
  fs::create_directory_symlink(runtime.path + "/elsewhere", *folder);
  CHECK_FALSE(local_folder());  // somebody could turn the link
}

TEST_CASE("a node without an address is found by its name, and what has died is cleared away") {
  const Runtime runtime;
  CHECK_FALSE(find_local("local-a"));
  std::string address;
  {
    const TestNode a("local-a/b", listening("local"));
    address = a.address();
    const auto found = find_local("local-a/b");
    REQUIRE(found);
    CHECK(*found == address);
    CHECK_THAT(find_local("local-c").error().message, Catch::Contains("local-a-b"));
  }
  CHECK_FALSE(find_local("local-a/b"));
  const auto left = listen_locally("local-dead");
  REQUIRE(left);
  ::close(left->fd);
  CHECK_FALSE(find_local("local-dead"));
  CHECK(fs::exists(left->address.substr(5)));
  const TestNode b("local-b", listening("local"));
  CHECK_FALSE(fs::exists(left->address.substr(5)));
  CHECK(find_local("local-b"));
}

TEST_CASE("a name that two processes have names both, and takes neither") {
  const Runtime runtime;
  const auto one = listen_locally("a");
  REQUIRE(one);
  const std::string other = *local_folder() + "/a.1.sock";
  const auto two = listen_on_path(other);
  REQUIRE(two);
  const auto found = find_local("a");
  REQUIRE_FALSE(found);
  CHECK_THAT(found.error().message, Catch::Contains(other) && Catch::Contains(one->address));
  ::close(one->fd);
  ::close(two->fd);
}

TEST_CASE("a path that no socket address holds is refused by its length") {
  CHECK_THAT(refusal("unix:/tmp/" + std::string(103, 'x'), false),
             Catch::Contains("a path of 108 bytes, accepted: 1 to 107"));
  const std::string longest = "/tmp/" + std::to_string(::getpid()) + std::string(107, 'x');
  const auto listening = listen_on_path(longest.substr(0, 107));
  REQUIRE(listening);
  ::close(listening->fd);
  ::unlink(longest.substr(0, 107).c_str());
}

TEST_CASE("who joins listens where the first peer on another host reaches it, and others can too") {
  const std::string far = reachable("0.0.0.0:0");  // loopback where this host has no other address
  const std::string other = far.substr(0, far.rfind(':')) + ":7001";
  for (const Reach reach : {Reach::machine, Reach::network}) {
    CHECK(own_address_towards({other}, reach) == far);
    CHECK(own_address_towards({"127.0.0.1:7001", other}, reach) == far);
    CHECK(own_address_towards({"no.such.name.invalid:7001", other}, reach) == far);
    CHECK(own_address_towards({"127.0.0.1:7001"}, reach) == "127.0.0.1:0");
    CHECK(own_address_towards({}, reach).empty());
  }
  char host[256] = "";
  REQUIRE(gethostname(host, sizeof host - 1) == 0);
  const std::string own = std::string(host) + ":7001";
  if (open_to_others(own) == own) return;  // its name stands for an address that others reach
  CHECK(own_address_towards({own}, Reach::network) == "0.0.0.0:0");
  CHECK(own_address_towards({"127.0.0.1:7001", own}, Reach::network) == "0.0.0.0:0");
  CHECK(own_address_towards({own, other}, Reach::network) ==
        (far.starts_with("127.") ? "0.0.0.0:0" : far));
  CHECK(own_address_towards({own}, Reach::machine) == "127.0.0.1:0");
}

TEST_CASE("TCP without a run key has to be asked for") {
  CHECK_THAT(refusal("127.0.0.1:0", false), Catch::Contains("--no-key") && Catch::Contains("key"));
  CHECK(refusal("127.0.0.1:0", true) == "accepted");
  CHECK_THAT(refusal("0.0.0.0:0", true), Catch::Contains("not a loopback address"));
}

TEST_CASE("an address to dial is of one machine, and of a port above 0") {
  for (const char* good : {"10.0.0.1:7000", "127.0.0.1:1", "host:65535", "a-b.example_1:7",
                           "[fd00::7]:7000", "[::1]:7000", "[::ffff:10.0.0.1]:7000"}) {
    INFO(good);
    CHECK(check_advertised(good));
    CHECK(check_joined(good));
  }
  for (const std::string_view one :
       split(":: [::] 0.0.0.0 host :7000 []:7000 host: host:0 host:65536 host:-1 host:7x "
             "0.0.0.0:7000 0:7000 0x0:7000 0.0.0.7:7000 [::]:7000 [::ffff:0.0.0.0]:7000 *:7000 "
             "tcp://host:7000 224.0.0.1:7000 239.1.2.3:7000 255.255.255.255:7000 [ff02::1]:7000 "
             "fd00::7:7000 unix:",
             ' ')) {
    const std::string bad(one);
    INFO(bad);
    const Status advertised = check_advertised(bad), joined = check_joined(bad);
    REQUIRE_FALSE(advertised);
    REQUIRE_FALSE(joined);
    CHECK(joined.error().exit_status() == 2);
    CHECK_THAT(advertised.error().message,
               Catch::StartsWith("advertise is \"" + bad + "\", accepted: host:port"));
    CHECK_THAT(joined.error().message, Catch::StartsWith("join is \"" + bad + "\""));
  }
  CHECK(check_joined("unix:/tmp/a.sock"));
  CHECK_FALSE(check_advertised("unix:/tmp/a.sock"));
}

TEST_CASE("who listens at all addresses or at a bare IPv6 one tells others what they can dial") {
  for (const char* any : {"0:0", "0.0.0.0:0", ":::0", "[::]:0", "::ffff:0.0.0.0:0"}) {
    INFO(any);
    const auto listening = listen_on(any, Reach::network);
    if (!listening) continue;  // a machine without IPv6
    CHECK(check_advertised(reachable(listening->address)));
    ::close(listening->fd);
  }
  if (const auto listening = listen_on("::1:0", Reach::network)) {
    CHECK_THAT(listening->address, Catch::StartsWith("[::1]:"));
    ::close(listening->fd);
  }
  for (const char* of_many : {"224.0.0.1:0", "255.255.255.255:0"}) {
    const auto listening = listen_on(of_many, Reach::network);
    REQUIRE_FALSE(listening);
    CHECK(listening.error().exit_status() == 2);
    CHECK_THAT(listening.error().message, Catch::Contains("nobody can connect to it, accepted"));
  }
}

TEST_CASE("a process of another user is turned away at a unix socket, and not talked to") {
  if (::geteuid() != 0) {
    return skipped("only root can be another user");
  }
  const Runtime runtime;
  ::chmod(runtime.path.c_str(), 0755);
  const std::string path = runtime.path + "/socket";
  TestNode a("a", listening("unix:" + path));
  ::chmod(path.c_str(), 0777);
  const pid_t stranger = ::fork();
  if (stranger == 0) {
    constexpr uid_t kNobody = 65534;
    if (::setresuid(kNobody, kNobody, kNobody) != 0) ::_exit(3);
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    path.copy(to.sun_path, sizeof to.sun_path - 1);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) ::_exit(4);
    char byte = 0;
    ::_exit(::read(fd, &byte, 1) == 0 ? 0 : 5);  // the end, without having said a word
  }
  int status = 0;
  REQUIRE(::waitpid(stranger, &status, 0) == stranger);
  CHECK(status == 0);
  REQUIRE(a.wait([&] { return a.turned_away.size() == 1; }));
  CHECK_THAT(a.turned_away[0], Catch::Contains("another user"));
}
