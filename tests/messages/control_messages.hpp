// One control message of each kind with every field set, for the codec's tests and the fuzzer's
// first inputs.
#pragma once
#include <vector>

#include "messages/control.hpp"

namespace grapevine {

inline MembershipPacket full_membership_packet() {
  MembershipPacket packet;
  packet.kind = MembershipPacket::Kind::sync_reply;
  packet.sequence = 6;
  packet.target = "b";
  Member a;
  a.node = "a";
  a.incarnation = 1;
  a.refutations = 2;
  a.state = MemberState::suspect;
  a.address = "10.0.0.1:7000";
  a.ranks = 4;
  a.ready = false;
  a.finished = true;
  a.accuser = 77;
  a.key = {78};
  a.gone = {{1, 1, false}, {3, 2, true}};
  a.unreachable = {79, ~uint64_t{0}};
  a.mean = {80, 81};
  a.generation = 83;
  a.stops = true;
  a.means_asked = 84;
  a.life = 85;
  a.signature = {87};
  Member b;
  b.node = "b";
  b.incarnation = 2;
  b.state = b.last_word = MemberState::left;
  b.address = "[::1]:7001";
  b.first_rank = b.ranks = 4;
  b.key = {82};
  packet.news = {a, b};
  packet.graph = {9, "a", "ring:8", {88}, {89}};
  packet.rates = {{90, 91, 92, 93, {{0, 1, 12.5}, {1, 2, 0.25}}, {94}}, {95, 1, 0, 1, {}, {}}};
  packet.work = {{98, 99, 100, 12.5, 102.5, {101}}};
  return packet;
}

inline std::vector<ControlMessage> one_of_each() {
  FrameHeader offer;
  offer.from = 1;
  offer.to = 2;
  offer.from_incarnation = 3;
  offer.epoch = 4;
  offer.number = 5;
  offer.alpha_tilde = 0.75;
  Manifest manifest;
  manifest.transfer = 10;
  manifest.refused = "not ready";
  manifest.dtype = DType::f64;
  manifest.vectors = 3;
  manifest.count = 1000;
  manifest.ranks = 4;
  manifest.gradients = 11;
  manifest.piece_bytes = 1 << 20;
  manifest.hashes = {12, ~uint64_t{0}};
  manifest.numbers = {13};
  FrameHeader data;
  data.kind = FrameKind::data;
  data.from = 26;
  data.to = 27;
  data.number = 28;
  data.count = 29;
  data.bound = 0.5;
  data.allowance = 2;
  return {Hello{2,
                LinkPurpose::control,
                "run",
                13,
                "a2cid2 f32",
                "a",
                14,
                "localhost:7000",
                {86},
                {96},
                "lr=0.1\nseed=1\n",
                "batch=128\n"},
          Refusal{"another run"},
          Bye{},
          Agree{{97}},
          BulkToken{~uint64_t{0}, true, "grapevine-15"},
          offer,
          full_membership_packet(),
          FetchState{16, 17, {0, 1, 18}},
          manifest,
          ConsoleRequest{ConsoleVerb::inject, "[[fault]]\n\tkind = \"cut\"\n", 19, 20},
          ConsoleReply{false, true, "{\"node\": \"a\"}", std::string("\0\x7f\xff", 3), 21},
          MeanAsk{MeanPiece::Way::down, true, 22, 23, 24},
          NcclTalk{32, NcclRequest{30, 31, data}}};
}

/// One message of each kind about a communicator.
inline std::vector<NcclTalk> one_talk_of_each() {
  FrameHeader message;
  message.kind = FrameKind::message;
  message.dtype = DType::f64;
  message.from = 1;
  message.to = 2;
  message.count = 3;
  NcclConnect connect{{}, 22809};
  for (size_t k = 0; k < connect.id.size(); ++k)
    connect.id[k] = static_cast<std::byte>(255 - k);
  return {{7, connect},
          {8, NcclEnd{NcclEnd::Reason::broken}},
          {9, NcclRequest{4, 0, message}},
          {10, NcclGrant{5, message}},
          {11, NcclGrant{6, {}}},
          {~uint64_t{0}, NcclDecline{kMaxCount}}};
}

}  // namespace grapevine
