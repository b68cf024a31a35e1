// Every pass between two guard pages: it touches what its each() says and not a byte more.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <map>

#include "kernels/base/random.hpp"
#include "kernels/codecs/tensor_codec.hpp"
#include "kernels/passes/launch.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/any_arguments.hpp"

using namespace grapevine;

namespace {

enum class Place { against_the_end, against_the_start, misaligned };

/// A span between two pages without access: it ends where one begins, or begins `shift` bytes
/// behind the other.
class Guarded {
 public:
  Guarded(size_t bytes, size_t width, size_t shift, bool ends, uint64_t stream) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    inner_bytes_ = (bytes + shift + page - 1) / page * page;
    all_bytes_ = inner_bytes_ + 2 * page;
    all_ = mmap(nullptr, all_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(all_ != MAP_FAILED);
    inner_ = static_cast<std::byte*>(all_) + page;
    protect(PROT_READ | PROT_WRITE);
    data_ = ends ? inner_ + inner_bytes_ - bytes : inner_ + shift;
    Random random(1, 0, Purpose::test, stream);
    for (size_t i = 0; i + width <= bytes; i += width) {
      const double value = random.uniform(0.1, 2);  // as Adam wants its second moment
      const auto narrow = static_cast<float>(value);
      std::memcpy(data_ + i, width == 8 ? static_cast<const void*>(&value) : &narrow, width);
    }
  }
  ~Guarded() { munmap(all_, all_bytes_); }
  Guarded(const Guarded&) = delete;

  void* data() const { return data_; }
  void protect(int how) { REQUIRE(mprotect(inner_, inner_bytes_, how) == 0); }

 private:
  size_t inner_bytes_ = 0, all_bytes_ = 0;
  void* all_ = nullptr;
  std::byte *inner_ = nullptr, *data_ = nullptr;
};

/// Whether a pass takes this address for encoded bytes, which lie anywhere.
template <class Arguments>
bool is_encoded(const Arguments& a, const void* vector) {
  if constexpr (
      requires { a.sent; } && requires { a.received; } && !requires { a.alpha; }) {
    return vector == a.sent || vector == a.received;
  } else if constexpr (requires { a.bytes; }) {
    return vector == a.bytes;
  } else {
    return false;
  }
}

/// The vectors of one pass. What names the same place before is the same memory behind.
class Vectors {
 public:
  template <class Arguments>
  Vectors(Arguments& a, size_t size, bool wide, Place place) {
    struct Named {
      size_t bytes = 0;
      bool written = false, encoded = false;
    };
    std::map<const void*, Named> named;
    const size_t width = wide ? 8 : 4;
    a.each(size, width, [&](auto* vector, size_t bytes, Access::Mode mode) {
      if (vector == nullptr) return;
      Named& n = named[vector];
      n.bytes = std::max(n.bytes, bytes);
      n.written = n.written || mode != Access::Mode::reads;
      n.encoded = is_encoded(a, vector);
    });
    std::map<const void*, Guarded*> placed;
    for (const auto& [vector, n] : named) {
      // Numbers that a pass finds out are doubles, and lie where doubles do.
      const bool is_vector = n.bytes == size * width && n.bytes != sizeof(double);
      const bool is_number = n.bytes == sizeof(double) || n.bytes == width;
      const bool is_rounded = n.bytes == size * sizeof(BFloat16) && !is_number;
      const size_t unit = n.encoded ? 1 : is_rounded ? 2 : is_vector ? width : 8;
      placed[vector] = &memory_.emplace_back(n.bytes, width, place == Place::misaligned ? unit : 0,
                                             place == Place::against_the_end, memory_.size());
      if (!n.written) memory_.back().protect(PROT_READ);
    }
    a.each(size, width, [&](auto*& vector, size_t, Access::Mode) {
      if (vector != nullptr) vector = placed.at(vector)->data();
    });
  }

 private:
  std::deque<Guarded> memory_;
};

/// A vector that is there; which, tells it from others.
void* here(uintptr_t which) { return reinterpret_cast<void*>(which * 64); }

template <class Arguments>
void run_everywhere(const Arguments& a, size_t size, bool wide) {
  for (const Place place : {Place::against_the_end, Place::against_the_start, Place::misaligned}) {
    for (const CpuBuild* const* build = cpu_builds(); *build != nullptr; ++build) {
      for (const bool streamed : {false, true}) {
        Arguments laid = a;
        const Vectors vectors(laid, size, wide, place);
        if constexpr (requires { laid.streamed; }) {
          laid.streamed = streamed;
        } else if (streamed) {
          continue;
        }
        passes::run_whole(**build, wide, laid, size);
      }
    }
  }
}

template <class Arguments>
void run_everywhere(const Arguments& a, size_t size) {
  for (const bool wide : {false, true})
    run_everywhere(a, size, wide);
}

constexpr size_t kSizes[] = {1, 2, 3, 7, 16, 17, 33, 64, 1003, 1025, 8193};

/// Whether the child that runs `body` dies of what it touched.
template <class Work>
bool is_fatal(const Work& body) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

}  // namespace

TEST_CASE("the guards work: a byte too far, or one written that is only read, ends the process") {
  for (const size_t size : kSizes) {
    AxpyArguments a{0.5, here(1), here(2)};
    const Vectors vectors(a, size, false, Place::against_the_end);
    CHECK_FALSE(is_fatal([&] { passes::run_whole(kBaselineBuild, false, a, size); }));
    CHECK(is_fatal([&] { passes::run_whole(kBaselineBuild, false, a, size + 1); }));
    const AxpyArguments other_way{0.5, a.y, const_cast<void*>(a.x)};
    CHECK(is_fatal([&] { passes::run_whole(kBaselineBuild, false, other_way, size); }));
    AxpyArguments early{0.5, here(1), here(2)};
    const Vectors before(early, size, false, Place::against_the_start);
    early.x = static_cast<const float*>(early.x) - 1;
    CHECK(is_fatal([&] { passes::run_whole(kBaselineBuild, false, early, size); }));
  }
}

TEST_CASE("every elementwise pass touches what it says") {
  testing::for_each_pass([](const auto& arguments) {
    for (const size_t size : kSizes)
      run_everywhere(arguments, size);
  });
}

TEST_CASE("pairwise passes and steps touch what they say, with and without optional vectors") {
  for (const size_t size : kSizes) {
    for (void* tilde : {here(4), static_cast<void*>(nullptr)}) {
      run_everywhere(JumpArguments{0.3, 0.5, 1.9, here(1), here(2), here(3), tilde}, size);
      run_everywhere(RoundArguments{0.3, here(1), tilde, here(3)}, size);
      run_everywhere(RoundedJumpArguments{0.3, 0.5, 1.9, here(1), here(2), here(3), tilde}, size);
      run_everywhere(TakeArguments{0.3, here(1), here(2), here(3), tilde, here(9)}, size);
      for (void* copy : {here(6), static_cast<void*>(nullptr)}) {
        for (void* v : {here(5), static_cast<void*>(nullptr)}) {
          run_everywhere(StepArguments{0.3, 0.1, v != nullptr ? 0.9 : 0, 0.01, true, here(1), v,
                                       here(3), tilde, copy},
                         size);
        }
        run_everywhere(AdamArguments{0.3, 0.1, 0.9, 0.99, 2, 3, 1e-8, 0.01, false, here(1), here(2),
                                     here(5), here(3), tilde, copy},
                       size);
      }
    }
  }
}

TEST_CASE("passes over few vectors, strided ones and sums touch what they say") {
  for (const size_t size : kSizes) {
    run_everywhere(ScaleArguments{0.5, here(1), here(1)}, size);
    for (const int count : {1, 2, 5, CombineArguments::kMost}) {
      for (const int out : {0, 20}) {  // one of the terms, or none
        for (void* base : {here(30), static_cast<void*>(nullptr)}) {
          CombineArguments a{};
          a.count = count;
          for (int k = 0; k < count; ++k) {
            a.a[k] = 0.1 * k;
            a.x[k] = here(static_cast<uintptr_t>(k) + 1);
          }
          a.base = base;
          a.out = here(static_cast<uintptr_t>(out) + 1);
          run_everywhere(a, size);
        }
      }
    }
    for (const size_t stride : {1, 2, 5}) {
      run_everywhere(GatherArguments{stride, here(1), here(2)}, size);
      run_everywhere(ScatterArguments{stride, here(1), here(2)}, size);
    }
    for (const bool distance : {false, true})
      run_everywhere(SumArguments{distance, here(1), here(2), here(3), here(4)}, size);
    run_everywhere(SumArguments{true, here(1), here(2), here(3), here(4), true}, size);
    run_everywhere(FiniteArguments{here(1), here(2)}, size);
    run_everywhere(FillArguments{0.5, here(1)}, size);
    run_everywhere(AccumulateArguments{here(1), here(2)}, size);
    run_everywhere(NumberArguments{here(1), here(2)}, size);
  }
}

TEST_CASE("passes over matrices touch what they say") {
  struct Shape {
    size_t rows, columns;
  };
  for (const Shape s :
       {Shape{1, 1}, {1, 5}, {5, 1}, {3, 7}, {17, 33}, {64, 64}, {65, 129}, {300, 3}, {3, 1100}}) {
    for (size_t rank = 1; rank <= kMostThin; ++rank) {
      const ProductArguments g{s.rows, s.columns, rank, here(1), here(2), here(3)};
      run_everywhere(TimesArguments{g}, 0);
      run_everywhere(TransposedTimesArguments{g}, 0);
      for (void* tilde : {here(4), static_cast<void*>(nullptr)}) {
        run_everywhere(AddLowRankArguments{s.rows, s.columns, rank, 0.3, 0.5, 1.9, here(1), here(2),
                                           here(3), tilde},
                       0);
      }
      run_everywhere(OrthonormaliseArguments{s.rows, rank, here(1)}, 0);
    }
  }
}

TEST_CASE("compressors and Moniqua touch what they say, encoded bytes at any address") {
  using codec::Kind;
  const Draws draws{7, 3, 5};
  for (const size_t size : {1, 2, 7, 8, 9, 16, 17, 33, 1003, 8193, 20011}) {
    for (const bool wide : {false, true}) {
      for (const Kind kind :
           {Kind::identity, Kind::top_k, Kind::random_k, Kind::sign, Kind::quantise}) {
        for (const int bits : {1, 3, 8, 11, 16}) {
          if (kind != Kind::quantise && bits > 1) continue;
          codec::Tensor t{kind, 0, size, 1, size};
          t.count = 1 + size / 10;
          t.bits = bits;
          t.first_draw = 3;
          t.bytes = codec::bytes_of(t, wide ? DType::f64 : DType::f32);
          run_everywhere(DecodeArguments{t, draws, -0.7, here(1), here(2)}, size, wide);
          if (kind == Kind::identity) continue;  // encoded by a copy
          run_everywhere(EncodeArguments{t, draws, here(1), here(2), here(3)}, size, wide);
        }
      }
    }
    run_everywhere(DrawArguments{draws, here(1)}, size);
    run_everywhere(MoniquaEncodeArguments{0.25, draws, here(1), here(2)}, size);
    for (void* y : {here(1), here(4)})  // in place, or not
      run_everywhere(MoniquaAddArguments{0.25, 0.4, here(1), here(2), here(3), y}, size);
  }
}
