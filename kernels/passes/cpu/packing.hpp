// The packing passes of one CPU build (packing_passes.hpp); included by loops.hpp.
#pragma once
#include "kernels/passes/cpu/levels.hpp"
#include "kernels/passes/cpu/moniqua.hpp"
#include "kernels/passes/cpu/scans.hpp"

namespace grapevine {
namespace {

constexpr PackingBuild packing_build() {
  PackingBuild b{};
  b.absolute_sum = [](bool wide, const void* v, size_t first, size_t last) {
    return wide ? absolute_sum(in<double>(v), first, last)
                : absolute_sum(in<float>(v), first, last);
  };
  b.largest = [](bool wide, const void* v, size_t first, size_t last) {
    return wide ? largest(in<double>(v), first, last) : largest(in<float>(v), first, last);
  };
  b.at_least = [](bool wide, const void* v, double t, size_t first, size_t last, uint32_t* to) {
    return wide ? at_least(in<double>(v), t, first, last, to)
                : at_least(in<float>(v), float(t), first, last, to);
  };
  b.pack_signs = [](bool wide, const void* v, size_t first, size_t last, uint8_t* bytes) {
    wide ? pack_signs(in<double>(v), first, last, bytes)
         : pack_signs(in<float>(v), first, last, bytes);
  };
  b.add_signs = [](bool wide, const uint8_t* bytes, double s, size_t first, size_t last, void* y) {
    wide ? add_signs(bytes, s, first, last, out<double>(y))
         : add_signs(bytes, float(s), first, last, out<float>(y));
  };
  b.quantise = [](bool wide, const QuantiseArguments& g, size_t i, size_t last, uint8_t* bytes) {
    wide ? quantise<double>(g, i, last, bytes) : quantise<float>(g, i, last, bytes);
  };
  b.dequantise = [](bool wide, const DequantiseArguments& g, size_t first, size_t last,
                    const uint8_t* bytes) {
    wide ? dequantise<double>(g, first, last, bytes) : dequantise<float>(g, first, last, bytes);
  };
  b.moniqua = [](bool wide, const MoniquaArguments& g, const uint16_t* noise, size_t first,
                 size_t last, uint8_t* bytes) {
    wide ? moniqua<double>(g, noise, first, last, bytes)
         : moniqua<float>(g, noise, first, last, bytes);
  };
  b.moniqua_add = [](bool wide, const MoniquaArguments& g, size_t first, size_t last,
                     const uint8_t* sent, const uint8_t* received) {
    wide ? moniqua_add<double>(g, first, last, sent, received)
         : moniqua_add<float>(g, first, last, sent, received);
  };
  b.noise = noise;
  return b;
}

}  // namespace
}  // namespace grapevine
