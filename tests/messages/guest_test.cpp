// The records of guests: each has one encoding at fixed offsets, and other bytes are refused.
#include <cmath>
#include <cstring>

#include "messages/guest_codec.hpp"
#include "tests/catch.hpp"

using namespace grapevine;

namespace {

GuestRecord record() {
  GuestRecord r;
  r.kind = GuestKind::front;
  r.flags = kGuestEnd | kGuestNotFinite;
  r.rank = 0x01020304;
  r.ranks = 5;
  r.number = 6;
  r.run_steps = 7;
  r.exchanges = 8;
  r.count = 9;
  r.value = 1.5;
  r.epoch = 0x1122334455667788;
  return r;
}

template <class T>
std::string refusal_with(size_t at, T value) {
  GuestRecordBytes bytes = encode(record());
  std::memcpy(bytes.data() + at, &value, sizeof value);
  const auto decoded = decode_guest(bytes);
  return decoded ? "accepted" : decoded.error().message;
}

std::string refusal_of(const std::string& text) {
  const auto layout = read_guest_layout(text);
  return layout ? "accepted" : layout.error().message;
}

}  // namespace

TEST_CASE("a guest's record lies little-endian at the offsets that FORMAT.md gives") {
  const GuestRecordBytes b = encode(record());
  const std::vector<uint8_t> head{0, 0, 0, 0, 9, 0, 0, 0,   // one segment of nine words
                                  0, 0, 0, 0, 8, 0, 0, 0,   // a struct of eight words
                                  2, 0, 4, 0, 6, 0, 0, 0,   // version, kind, flags, dtype
                                  4, 3, 2, 1, 5, 0, 0, 0};  // rank, ranks
  CHECK(std::memcmp(b.data(), head.data(), head.size()) == 0);
  const uint64_t numbers[] = {6, 7, 8, 9};
  CHECK(std::memcmp(b.data() + 32, numbers, sizeof numbers) == 0);
  const double value = 1.5;
  CHECK(std::memcmp(b.data() + 64, &value, 8) == 0);
  CHECK(static_cast<int>(b[72]) == 0x88);
}

TEST_CASE("a guest's record comes back as it was, a loss that is no number included") {
  for (int kind = 0; kind < kGuestKinds; ++kind) {
    GuestRecord r = record();
    r.kind = static_cast<GuestKind>(kind);
    r.value = kind % 2 == 0 ? 2.5 : std::nan("");
    const GuestRecordBytes bytes = encode(r);
    const auto decoded = decode_guest(bytes);
    REQUIRE(decoded);
    CHECK(encode(*decoded) == bytes);
    CHECK(decoded->kind == r.kind);
    CHECK(decoded->epoch == r.epoch);
    CHECK(std::isnan(decoded->value) == std::isnan(r.value));
  }
}

TEST_CASE("what is no record of a guest is refused in a line that says what is accepted") {
  CHECK_THAT(refusal_with<uint8_t>(4, 10), Catch::Contains("malformed"));
  CHECK_THAT(refusal_with<uint8_t>(8, 4), Catch::Contains("malformed"));
  CHECK_THAT(refusal_with<uint16_t>(16, 1), Catch::Contains("version 1, accepted: 2"));
  CHECK_THAT(refusal_with<uint16_t>(18, 16), Catch::Contains("kind 16"));
  CHECK_THAT(refusal_with<uint16_t>(20, 512), Catch::Contains("flags 512, accepted: 0 to 511"));
  CHECK_THAT(refusal_with<uint16_t>(22, 1), Catch::Contains("dtype 1"));
  const GuestRecordBytes bytes = encode(record());
  CHECK_FALSE(decode_guest(std::span(bytes).first(79)));
}

TEST_CASE("every kind of record that a text follows bounds it, and the others count as they like") {
  for (int kind = 0; kind < kGuestKinds; ++kind) {
    INFO("kind " << kind);
    GuestRecord r;
    r.kind = static_cast<GuestKind>(kind);
    const bool has_text =
        r.kind == GuestKind::join || r.kind == GuestKind::refused || r.kind == GuestKind::saved;
    const bool reports = r.kind == GuestKind::report;
    r.count = reports ? kGuestReportBytes : kGuestTextBytes;
    CHECK(decode_guest(encode(r)));
    ++r.count;
    CHECK(static_cast<bool>(decode_guest(encode(r))) == !(has_text || reports));
  }
}

TEST_CASE("the text of a report becomes finite numbers under plain names") {
  const auto read = read_guest_report("val_loss 0.25\naccuracy 1e-05\nk9 -3");
  REQUIRE(read);
  CHECK(*read == GuestReport{{"val_loss", 0.25}, {"accuracy", 1e-5}, {"k9", -3}});
  std::string most, one_more;
  for (size_t k = 0; k <= kGuestMeasures; ++k) {
    most = one_more;  // the longest lines that there can be
    one_more +=
        std::string(kGuestMeasureName - 1, 'n') + std::to_string(k) + " -1.7976931348623157e-308\n";
  }
  CHECK(most.size() <= kGuestReportBytes);
  CHECK(read_guest_report(most)->size() == kGuestMeasures);
  const auto refusal = [](const std::string& text) {
    const auto refused = read_guest_report(text);
    return refused ? "accepted" : refused.error().message;
  };
  CHECK_THAT(refusal(one_more), Catch::Contains("line 9: too many names, accepted: at most 8"));
  CHECK_THAT(refusal(std::string(kGuestMeasureName + 1, 'n') + " 1"), Catch::Contains("no name"));
  for (const char* name : {"", " ", "Loss 1", "a-b 1", "\x7f 1", "a\"b 1", "\n", "a 1\n\nb 1"})
    CHECK_THAT(refusal(name), Catch::Contains("no name, accepted: 1 to 32 characters"));
  for (const char* value :
       {"a", "a ", "a x", "a 1 2", "a  1", "a inf", "a -nan", "a 1e999", "a +1"})
    CHECK_THAT(refusal(value), Catch::Contains("no finite number, accepted: NAME VALUE"));
  CHECK_THAT(refusal("a 1\na 2"), Catch::Contains("line 2: a name that occurs twice"));
}

TEST_CASE(
    "the text of a join becomes a layout: names and shapes in their order, what is aside apart") {
  const auto layout =
      read_guest_layout("a run\ntrained fc.weight 3 4\ntrained scale\naside bn.mean 5\n");
  REQUIRE(layout);
  CHECK(layout->run == "a run");
  REQUIRE(layout->trained.size() == 2);
  CHECK(layout->trained[0] == GuestLayout::Tensor{"fc.weight", {3, 4}});
  CHECK(layout->trained[1] == GuestLayout::Tensor{"scale", {}});
  CHECK(layout->trained_elements() == 13);
  CHECK(layout->aside_elements() == 5);
  CHECK(read_guest_layout("\ntrained w 1"));
}

TEST_CASE("what is aside in fp64 lies behind the rest, at a multiple of eight bytes") {
  const auto layout = read_guest_layout("\ntrained w 2\naside m 1\naside64 c\naside64 d 2\n");
  REQUIRE(layout);
  CHECK(layout->aside == std::vector<GuestLayout::Tensor>{{"m", {1}}});
  CHECK(layout->aside64 == std::vector<GuestLayout::Tensor>{{"c", {}}, {"d", {2}}});
  CHECK(layout->aside_elements() == 4);
  CHECK(layout->aside64_at() == 16);
  CHECK(layout->bytes() == 40);
  CHECK(read_guest_layout("\ntrained w 3\naside m 1\n")->bytes() == 16);
}

TEST_CASE("another name of a tensor is a view of all of it, by sizes and strides") {
  const std::string of = "\ntrained w 3 4\ntrained s\naside n 0 2\n";
  const auto layout = read_guest_layout(of + "tied v w 4:1 3:4\ntied t s\ntied m n 2:1 0:2\n");
  REQUIRE(layout);
  REQUIRE(layout->tied.size() == 3);
  CHECK(layout->tied[0] == GuestLayout::Tied{"v", "w", {4, 3}, {1, 4}});
  CHECK(layout->tied[1] == GuestLayout::Tied{"t", "s", {}, {}});
  CHECK(layout->aside_elements() == 0);
  CHECK_THAT(refusal_of(of + "tied v x 3:4 4:1"), Catch::Contains("a tensor that does not exist"));
  CHECK_THAT(refusal_of(of + "tied v w 3:4 4:1\ntied u v 12:1"), Catch::Contains("does not exist"));
  CHECK_THAT(refusal_of(of + "tied s w 3:4 4:1"), Catch::Contains("occurs twice"));
  CHECK_THAT(refusal_of(of + "tied v w 3 4"), Catch::Contains("accepted: SIZE:STRIDE"));
  CHECK_THAT(refusal_of(of + "tied v w 3:-4 4:1"), Catch::Contains("accepted: SIZE:STRIDE"));
  CHECK_THAT(refusal_of(of + "tied v w 3:5 4:1"), Catch::Contains("beyond its tensor"));
  CHECK_THAT(refusal_of(of + "tied v w 3:1"), Catch::Contains("a part of its tensor"));
  CHECK_THAT(refusal_of(of + "tied v w 3:4 4:1 2:0"), Catch::Contains("beyond its tensor"));
  CHECK_THAT(refusal_of(of + "tied v w 9223372036854775807:9223372036854775807"),
             Catch::Contains("beyond its tensor"));
  CHECK_THAT(refusal_of(of + "tied v w 2:9223372036854775807 6:1"),
             Catch::Contains("beyond its tensor"));
}

TEST_CASE("an outer optimizer is a rate above 0 and a momentum below 1, before all tensors") {
  const auto layout = read_guest_layout("run\nouter 0.7 0.9\ntrained w 2\n");
  REQUIRE(layout);
  CHECK(layout->outer == GuestLayout::Outer{0.7, 0.9});
  CHECK(read_guest_layout("run\nouter 1e-05 0\ntrained w 2\n"));
  CHECK(read_guest_layout("run\ntrained w 2\n")->outer == GuestLayout::Outer{});
  for (const char* wrong :
       {"outer", "outer 0.7", "outer 0 0.9", "outer -1 0.9", "outer inf 0.9", "outer nan 0.9",
        "outer 0.7 1", "outer 0.7 -0.1", "outer 0.7 nan", "outer 0.7 0.9 1", "outer 0.7 x"}) {
    INFO(wrong);
    const auto refused = read_guest_layout("run\n" + std::string(wrong) + "\ntrained w 2\n");
    REQUIRE_FALSE(refused);
    CHECK_THAT(refused.error().message, Catch::Contains("line 2: wrong numbers, accepted: "));
  }
  CHECK_FALSE(read_guest_layout("run\ntrained w 2\nouter 0.7 0.9\n"));
  CHECK_FALSE(read_guest_layout("run\nouter 0.7 0.9\nouter 0.7 0.9\ntrained w 2\n"));
}

TEST_CASE("a layout that cannot be is refused in a line, and no size overflows") {
  CHECK_THAT(refusal_of(""), Catch::Contains("nothing is trained"));
  CHECK_THAT(refusal_of("run\naside w 3\n"), Catch::Contains("nothing is trained"));
  CHECK_THAT(refusal_of("run\ntrained w 0\n"), Catch::Contains("nothing is trained"));
  CHECK_THAT(refusal_of("run\nfrozen w 3\n"), Catch::Contains("line 2"));
  CHECK_THAT(refusal_of("run\ntrained\n"), Catch::Contains("no name"));
  CHECK_THAT(refusal_of("run\ntrained w 3\ntrained w 3\n"), Catch::Contains("occurs twice"));
  CHECK_THAT(refusal_of("run\naside a 1\ntrained w 3\n"), Catch::Contains("after aside"));
  CHECK_THAT(refusal_of("run\ntrained w 3\naside64 a 1\naside b 3\n"),
             Catch::Contains("aside after aside64"));
  CHECK_THAT(refusal_of("run\ntrained w 0 17179869184 17179869184\n"),
             Catch::Contains("too large"));
  CHECK_THAT(refusal_of("run\ntrained w x\n"), Catch::Contains("a size that is no number"));
  CHECK_THAT(refusal_of("run\ntrained w -3\n"), Catch::Contains("a size that is no number"));
  CHECK_THAT(refusal_of("run\ntrained w 3  4\n"), Catch::Contains("a size that is no number"));
  CHECK_THAT(refusal_of("run\ntrained w\t3\n"), Catch::Contains("control characters"));
  CHECK_THAT(refusal_of("run\ntrained w 4294967296 4294967296\n"), Catch::Contains("too large"));
  CHECK_THAT(refusal_of("run\ntrained w 9223372036854775808\n"), Catch::Contains("no number"));
  CHECK_THAT(refusal_of("run\ntrained w 17179869184\naside b 1\n"), Catch::Contains("too many"));
}
