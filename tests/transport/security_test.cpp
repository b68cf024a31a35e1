// Run keys and what they refuse.
#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "actors/transport/links.hpp"
#include "actors/transport/sockets.hpp"
#include "actors/transport/tls.hpp"
#include "tests/transport/stranger.hpp"
#include "tests/transport/tools.hpp"

using namespace grapevine;

namespace {

std::string scratch(const std::string& name) {
  return "/tmp/grapevine_key_" + std::to_string(::getpid()) + "_" + name;
}

LinksOptions with(const RunKey& key) {
  LinksOptions options;
  options.key = key;
  options.same_host = false;
  return options;
}

}  // namespace

TEST_CASE("a run key comes back from its file, which is for its owner alone") {
  const std::string path = scratch("good");
  const RunKey key = RunKey::generate();
  CHECK_FALSE(key == RunKey::generate());
  REQUIRE(key.write(path));
  struct stat about {};
  REQUIRE(::stat(path.c_str(), &about) == 0);
  CHECK((about.st_mode & 0777) == 0600);
  const auto read = RunKey::read(path);
  REQUIRE(read);
  CHECK(*read == key);
  const auto again = key.write(path);
  REQUIRE(!again);
  CHECK(again.error().message ==
        "run key: cannot write " + path + ": it exists, accepted: the path of a new file");
  ::unlink(path.c_str());
}

TEST_CASE("a run key that is cut, longer, not one, absent or open to others is refused unquoted") {
  const std::string path = scratch("bad");
  const auto refusal = [&](const std::string& text, mode_t mode = 0600) {
    std::ofstream(path) << text;
    ::chmod(path.c_str(), mode);
    const auto read = RunKey::read(path);
    ::unlink(path.c_str());
    return read ? "accepted" : read.error().message;
  };
  const std::string digits(64, 'a'), head = "grapevine-run-key-1 ";
  const std::string not_one = "run key " + path +
                              ": not a run key or a cut one, accepted: the line that grapevine "
                              "keygen wrote";
  CHECK(refusal(head + digits + "\n") == "accepted");
  CHECK(refusal("") == not_one);
  CHECK(refusal(head + digits) == not_one);
  CHECK(refusal(head + digits.substr(1) + "\n") == not_one);
  CHECK(refusal(head + digits + "\n\n") == not_one);
  CHECK(refusal(head + digits.substr(1) + "g\n") == not_one);
  CHECK(refusal("grapevine-run-key-2 " + digits + "\n") == not_one);
  CHECK(refusal(head + digits + "\n", 0640) ==
        "run key " + path + ": others may read it, accepted: its owner alone (chmod 600)");
  CHECK(RunKey::read(path).error().message == "run key " + path + ": No such file or directory");
  CHECK(RunKey::read("/tmp").error().exit_status() == 2);
}

TEST_CASE("with one run key nodes may listen beyond loopback, and all between them is TLS") {
  const RunKey key = RunKey::generate();
  LinksOptions anywhere = with(key);
  anywhere.listen = "0.0.0.0:0";
  TestNode a("a", anywhere), b("b", with(key));
  CHECK(a.address().find("0.0.0.0") == std::string::npos);
  connect(b, a, "b", "a");
  REQUIRE(a.links().send("b", ping(1)));
  REQUIRE(b.links().send("a", ping(2)));
  REQUIRE(a.wait([&] { return a.messages.size() == 1; }));
  REQUIRE(b.wait([&] { return b.messages.size() == 1; }));
  FrameHeader h;
  h.kind = FrameKind::data;
  h.count = 1 << 19;
  Payload p{a.pool().take(), DType::f32, h.count, 0};
  p.writable(DType::f32, h.count).as<float>()[h.count - 1] = 2.5f;
  REQUIRE(a.links().send_frame("b", h, p));
  REQUIRE(b.wait([&] { return b.frames.size() == 1; }));
  CHECK(b.frames[0].payload.vec().as<float>()[h.count - 1] == 2.5f);
  CHECK(a.links().counts("b").bulk == BulkPath::tls);
  CHECK(b.links().counts("a").bulk == BulkPath::tls);
}

TEST_CASE("certificates of a run key are valid whatever the clock says, for as long as one likes") {
  const Identity identity = make_identity(key_of_tests(), "a", NodeKey::generate());
  for (const std::string& pem : {identity.authority_pem, identity.certificate_pem}) {
    BIO* const bytes = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
    X509* const certificate = PEM_read_bio_X509(bytes, nullptr, nullptr, nullptr);
    REQUIRE(certificate != nullptr);
    constexpr time_t kDay = 86400, kYear = 366 * kDay;
    for (const time_t now : {kDay, 30 * kYear, 50 * kYear, 500 * kYear}) {
      CHECK(ASN1_TIME_cmp_time_t(X509_get0_notBefore(certificate), now) < 0);
      CHECK(ASN1_TIME_cmp_time_t(X509_get0_notAfter(certificate), now) > 0);
    }
    X509_free(certificate);
    BIO_free(bytes);
  }
}

TEST_CASE("bulk is in the clear only when both ends say so") {
  const RunKey key = RunKey::generate();
  LinksOptions clear = with(key);
  clear.bulk_encryption = false;
  const auto path = [&](const LinksOptions& of_a, const LinksOptions& of_b) {
    TestNode a("a", of_a), b("b", of_b);
    connect(a, b, "a", "b");
    FrameHeader h;
    h.kind = FrameKind::data;
    h.count = 1;
    Payload p{a.pool().take(), DType::f32, 1, 0};
    p.writable(DType::f32, 1).as<float>()[0] = 1;
    REQUIRE(a.links().send_frame("b", h, p));
    REQUIRE(b.wait([&] { return b.frames.size() == 1; }));
    return b.links().counts("a").bulk;
  };
  CHECK(path(clear, clear) == BulkPath::tcp);
  CHECK(path(clear, with(key)) == BulkPath::tls);
  CHECK(path(with(key), clear) == BulkPath::tls);
}

namespace {

enum class End { closes, resets };

/// Chooses how the connection ends when its socket is closed.
void choose_end(int fd, End how) {
  const linger at_once{1, 0};
  if (how == End::resets) ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

/// Takes one connection, answers its first bytes with these, and ends it.
void answer_one(int listening, const std::string& answer, End how) {
  char hello[4096];
  const int fd = ::accept(listening, nullptr, nullptr);
  REQUIRE(::recv(fd, hello, sizeof hello, 0) > 0);
  REQUIRE(::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL) == ssize_t(answer.size()));
  choose_end(fd, how);
  ::close(fd);
}

}  // namespace

TEST_CASE("a TLS handshake that breaks off is told from another run key and from none") {
  TestNode a("a", with(RunKey::generate()));
  const auto listening = listen_on("127.0.0.1:0", Reach::machine);
  REQUIRE(listening);
  REQUIRE(::fcntl(listening->fd, F_SETFL, 0) == 0);  // it waits
  const auto dialled = [&](const std::string& answer, End how) {
    const size_t before = a.look([&] { return a.failures.size(); });
    a.links().dial(listening->address);
    answer_one(listening->fd, answer, how);
    REQUIRE(a.wait([&] { return a.failures.size() > before; }));
    return a.look([&] { return a.failures.back(); });
  };
  const std::string broke_off = "the connection broke off in the TLS handshake";
  CHECK(dialled("", End::closes) == broke_off);
  CHECK(dialled("", End::resets) == broke_off);
  CHECK(dialled(std::string("\x16\x03\x03\x00\x7a\x02\x00", 7), End::closes) == broke_off);
  CHECK(dialled("HTTP/1.1 400 Bad Request\r\n\r\n", End::closes) ==
        "no run key there, this node asks for one");
  CHECK_FALSE(is_final(broke_off));
  ::close(listening->fd);
  for (const End how : {End::closes, End::resets}) {
    const size_t before = a.look([&] { return a.turned_away.size(); });
    {
      Stranger stranger(a.address());
      choose_end(stranger.fd(), how);
      REQUIRE(stranger.say("\x16\x03\x01\x02", 4));
    }
    REQUIRE(a.wait([&] { return a.turned_away.size() > before; }));
    CHECK(a.look([&] { return a.turned_away.back(); }) == broke_off);
  }
}

TEST_CASE("another run key, none, or one where none is wanted: refused at both ends") {
  const RunKey key = RunKey::generate();
  TestNode a("a", with(key)), open("open", without_key());
  TestNode other("b", with(RunKey::generate())), plain("c", without_key());
  other.links().dial(a.address());
  REQUIRE(other.wait([&] { return other.failures.size() == 1; }));
  REQUIRE(a.wait([&] { return a.turned_away.size() == 1; }));
  CHECK(other.failures[0] == "another run key there");
  CHECK(a.turned_away[0] == "another run key there");
  plain.links().dial(a.address());
  REQUIRE(plain.wait([&] { return plain.failures.size() == 1; }));
  REQUIRE(a.wait([&] { return a.turned_away.size() == 2; }));
  CHECK(plain.failures[0] == "no run key there, this node asks for one");
  CHECK(a.turned_away[1] == plain.failures[0]);
  a.links().dial(open.address());
  REQUIRE(a.wait([&] { return a.failures.size() == 1; }));
  REQUIRE(open.wait([&] { return open.turned_away.size() == 1; }));
  CHECK(a.failures[0] == "no run key there, this node asks for one");
  CHECK(open.turned_away[0] == "a run key there, this node has none");
  TestNode good("d", with(key));
  connect(good, a, "d", "a");
  CHECK(a.look([&] { return a.ups.size(); }) == 1u);
}
