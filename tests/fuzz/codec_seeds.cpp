// Writes the fuzzers' first inputs into the three folders named as arguments: one valid frame of
// each kind and dtype, one parcel of each kind, one control message of each kind, what a malicious
// member says, and a guest's record of each kind with a layout.
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <iostream>
#include <span>
#include <string>

#include "messages/codec.hpp"
#include "messages/control_codec.hpp"
#include "messages/guest_codec.hpp"
#include "tests/messages/control_messages.hpp"
#include "tests/messages/malicious_member.hpp"

using namespace grapevine;

namespace {

constexpr int kLies = 200;

void write(const std::string& path, std::initializer_list<std::span<const std::byte>> parts) {
  std::ofstream out(path, std::ios::binary);
  for (const auto part : parts)
    out.write(reinterpret_cast<const char*>(part.data()), static_cast<long>(part.size()));
  if (out.flush()) return;
  std::cerr << "cannot write " << path << "\n";
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: codec_seeds FRAMES_FOLDER CONTROL_FOLDER GUEST_FOLDER\n";
    return 2;
  }
  const uint64_t limit_bytes = 1 << 20;
  for (int kind = 0; kind < kFrameKinds; ++kind) {
    for (const DType dtype : {DType::f32, DType::f64, DType::bytes}) {
      FrameHeader h;
      h.kind = static_cast<FrameKind>(kind);
      h.reason = h.kind == FrameKind::decline ? DeclineReason::busy : DeclineReason::none;
      h.dtype = dtype;
      h.from = 1;
      h.to = 2;
      h.number = 3;
      h.count = carries_payload(h.kind) ? 64 : 0;
      h.alpha_tilde = 0.75;
      write(std::string(argv[1]) + "/kind_" + std::to_string(kind) + "_dtype_" +
                std::to_string(static_cast<int>(dtype)),
            {std::as_bytes(std::span(&limit_bytes, 1)), encode(h)});
    }
  }
  for (const Parcel& p : {Parcel{MeanPiece{MeanPiece::Way::up, 7, 1, 4096, 12}, DType::f64, 64},
                          Parcel{StatePiece{8, 3}, DType::f32, 64}})
    write(std::string(argv[1]) + "/parcel_" + std::to_string(p.what.index()),
          {std::as_bytes(std::span(&limit_bytes, 1)), encode(p)});
  for (const ControlMessage& m : one_of_each()) {
    const auto bytes = encode_control(m);
    GV_CHECK(static_cast<bool>(bytes));
    write(std::string(argv[2]) + "/kind_" + std::to_string(m.index()), {*bytes});
  }
  for (const NcclTalk& talk : one_talk_of_each()) {
    const auto bytes = encode_control(talk);
    GV_CHECK(static_cast<bool>(bytes));
    write(std::string(argv[2]) + "/talk_" + std::to_string(talk.what.index()) + "_" +
              std::to_string(bytes->size()),
          {*bytes});
  }
  test::MaliciousMember liar(1, "liar", {"a", "b", "c"});
  for (int k = 0; k < kLies; ++k) {
    const auto bytes = encode_control(liar.message());
    GV_CHECK(static_cast<bool>(bytes));
    write(std::string(argv[2]) + "/lie_" + std::to_string(k), {*bytes});
    write(std::string(argv[1]) + "/lie_" + std::to_string(k),
          {std::as_bytes(std::span(&limit_bytes, 1)), encode(liar.header())});
    write(std::string(argv[1]) + "/false_parcel_" + std::to_string(k),
          {std::as_bytes(std::span(&limit_bytes, 1)), encode(liar.parcel())});
  }
  const std::string layout = "run\ntrained fc.weight 3 4\ntrained scale\naside bn.mean 5\n";
  for (int kind = 0; kind < kGuestKinds; ++kind) {
    GuestRecord r;
    r.kind = static_cast<GuestKind>(kind);
    r.count = layout.size();
    write(std::string(argv[3]) + "/kind_" + std::to_string(kind),
          {encode(r), std::as_bytes(std::span(layout))});
  }
}
