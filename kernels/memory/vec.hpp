// Vec and ConstVec: typed views of flat memory {pointer, length, dtype}, and Buffer, which owns
// such memory.
//
// Kernels take views and select the code by dtype once per call, so no interface above them is a
// template. A view owns nothing; its maker keeps the memory alive. Networks are fp32, the analytic
// objectives fp64. `bytes` is for compressed messages; no pass takes it. bf16 is for models that
// are rounded before they are sent; few passes take it (ops.hpp).
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/base/bfloat16.hpp"
#include "kernels/base/check.hpp"

namespace grapevine {

struct Execution;  // kernels/device/execution.hpp
class Workspace;   // kernels/passes/workspace.hpp

enum class DType : uint8_t { f32 = 0, f64 = 1, bytes = 2, bf16 = 3 };

constexpr size_t size_of(DType dtype) {
  constexpr size_t sizes[] = {4, 8, 1, 2};
  return sizes[static_cast<size_t>(dtype)];
}

template <class T> constexpr DType dtype_of();
template <> constexpr DType dtype_of<float>() { return DType::f32; }
template <> constexpr DType dtype_of<double>() { return DType::f64; }
template <> constexpr DType dtype_of<std::byte>() { return DType::bytes; }
template <> constexpr DType dtype_of<BFloat16>() { return DType::bf16; }

template <class Pointer>
struct BasicVec {
  Pointer data = nullptr;
  size_t size = 0;  // elements
  DType dtype = DType::f32;

  size_t bytes() const { return size * size_of(dtype); }
  explicit operator bool() const { return data != nullptr; }

  BasicVec part(size_t offset, size_t count) const {
    GV_CHECK(offset + count <= size);
    auto* first = static_cast<std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>,
                                                 const char*, char*>>(data);
    return {first + offset * size_of(dtype), count, dtype};
  }

  template <class T> auto* as() const {  // REQUIRES: T matches the dtype
    GV_CHECK(dtype_of<T>() == dtype);
    if constexpr (std::is_const_v<std::remove_pointer_t<Pointer>>) {
      return static_cast<const T*>(data);
    } else {
      return static_cast<T*>(data);
    }
  }
};

struct Vec : BasicVec<void*> {
  Vec() = default;
  Vec(void* data, size_t size, DType dtype) : BasicVec{data, size, dtype} {}
  Vec(const BasicVec& v) : BasicVec(v) {}
};

struct ConstVec : BasicVec<const void*> {
  ConstVec() = default;
  ConstVec(const void* data, size_t size, DType dtype) : BasicVec{data, size, dtype} {}
  ConstVec(const BasicVec& v) : BasicVec(v) {}
  ConstVec(const BasicVec<void*>& v) : BasicVec{v.data, v.size, v.dtype} {}
};

/// Owns `size` zeroed elements, aligned to 64 bytes. A buffer of 2 MiB or more is on huge pages if
/// the kernel grants them. It moves and never copies. It is not null even with no elements (an
/// absent vector is a null view, not an empty one). Throws std::bad_alloc if there is no memory.
class Buffer {
 public:
  Buffer() = default;
  Buffer(size_t size, DType dtype);  // in the host's memory
  /// In memory for the passes of this execution: on its device, in its workspace, which must
  /// outlive it.
  Buffer(const Execution&, size_t size, DType dtype);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  Vec vec() { return {data(), size_, dtype_}; }
  ConstVec vec() const { return {data(), size_, dtype_}; }
  operator Vec() { return vec(); }
  operator ConstVec() const { return vec(); }
  explicit operator bool() const { return data_ != nullptr; }
  size_t size() const { return size_; }
  DType dtype() const { return dtype_; }

 private:
  enum class Home : uint8_t { heap, mapping, workspace };
  struct Stretch {  // a part of a workspace
    void* data;
    Workspace* home;
  };
  void give_back();  // to the workspace, which defines this and that constructor
  void* data() const {
    return home_ == Home::workspace ? static_cast<const Stretch*>(data_)->data : data_;
  }

  void* data_ = nullptr;  // in a workspace: a Stretch, so that the other kinds stay small
  size_t size_ = 0;
  DType dtype_ = DType::f32;
  Home home_ = Home::heap;
};

}  // namespace grapevine
