// Writes the fuzzer's first inputs into the folder named as the only argument: one valid frame of
// each kind and dtype.
#include <cstdint>
#include <fstream>
#include <iostream>
#include <string>

#include "messages/codec.hpp"

using namespace grapevine;

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: codec_seeds FOLDER\n";
    return 2;
  }
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
      const HeaderBytes bytes = encode(h);
      const uint64_t limit_bytes = 1 << 20;
      const std::string path = std::string(argv[1]) + "/kind_" + std::to_string(kind) + "_dtype_" +
                               std::to_string(static_cast<int>(dtype));
      std::ofstream out(path, std::ios::binary);
      out.write(reinterpret_cast<const char*>(&limit_bytes), sizeof limit_bytes);
      out.write(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      if (!out.flush()) {
        std::cerr << "cannot write " << path << "\n";
        return 1;
      }
    }
  }
}
