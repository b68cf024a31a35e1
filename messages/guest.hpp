// GuestRecord and GuestLayout: the messages between a guest and its node on a unix socket. A guest
// is a script that computes a rank's steps in its own process. Values.
//
// The script sends one question at a time and the node answers; the node sends nothing else:
//
//   join     text: a GuestLayout                -> welcome, with the front's descriptor; refused
//            number: the work of the run, in gradients; welcome and front have it as count
//   step     the number of the step, its loss   -> front
//            exchanges: steps of its optimizer, each of which is a gradient
//   mean                                        -> mean, with a descriptor of its values
//   keep     a descriptor of a blob             -> kept
//   kept                                        -> kept, with a descriptor if there is a blob
//   finish   the script takes no more steps     -> mean, when the others take none either
//   checkpoint                                  -> saved, text: the result
//   share    number: gradients of the data      -> share: how far the rank is in its data, and
//            exchanges: steps of its optimizer     value: gradients that all ranks have told
//            since the last step
//   report   text: a GuestReport                -> report
//   leave                                       -> bye
//
// If an answer takes longer, the node sends `wait` once a second before it.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace grapevine {

enum class GuestKind : uint16_t {
  join,
  welcome,
  refused,
  step,
  front,
  mean,
  keep,
  kept,
  finish,
  leave,
  bye,
  wait,
  checkpoint,
  saved,
  share,
  report
};
constexpr int kGuestKinds = 16;

constexpr uint16_t kGuestResumed = 1;    // welcome: the rank has parameters, now in the front
constexpr uint16_t kGuestEnd = 2;        // in an answer: no more steps are taken
constexpr uint16_t kGuestNotFinite = 4;  // front: values that were not finite were left out
constexpr uint16_t kGuestNotSaved = 8;   // saved: the checkpoint could not be written
constexpr uint16_t kGuestAside = 16;     // welcome: the memory also has the rank's aside tensors
constexpr uint16_t kGuestOver = 32;      // in an answer: the run has ended; finish does not wait
// In a share: the script has changed the front since the node last wrote it.
constexpr uint16_t kGuestMoved = 64;
constexpr uint16_t kGuestEmpty = 128;  // wait: the awaited rank has no script
constexpr uint16_t kGuestSeat = 256;   // join: `rank` is a seat of this node, counted from 0
constexpr uint32_t kAnyGuestRank = ~uint32_t{0};

struct GuestRecord {
  GuestKind kind = GuestKind::join;
  uint16_t flags = 0;
  uint32_t rank = 0, ranks = 0;
  uint64_t number = 0, run_steps = 0, exchanges = 0, count = 0;
  double value = 0;  // may be NaN
  uint64_t epoch = 0;
};

/// A rank's position in its share of the data, as its script told with a step. The node does not
/// interpret it; it is for the rank's next script.
struct GuestShare {
  uint32_t key = 0;  // of the data; 0: the script told nothing
  uint64_t passes = 0, samples = 0;
  uint64_t local_steps = 0;  // optimizer steps beyond the first in each of the rank's steps
  bool operator==(const GuestShare&) const = default;
};

/// The values of a report, by name. Its text has one line NAME VALUE per value, at least one. A
/// name consists of a to z, 0 to 9 and _; a value is finite.
using GuestReport = std::map<std::string, double, std::less<>>;
constexpr size_t kGuestMeasures = 8;      // names of one rank, at most
constexpr size_t kGuestMeasureName = 32;  // characters of one name, at most

/// The tensors that a script trains: the text of a join. The first line is the run's name (empty:
/// any run). An optional line is the outer optimizer. Then there is one line per tensor, in this
/// order:
///
///   outer LR MOMENTUM         takes the script's change as a gradient
///   trained NAME D D ...      fp32
///   aside NAME D D ...        fp32; a buffer, which is averaged in means and never gossiped
///   aside64 NAME D D ...      the same in fp64
///   tied NAME OF D:S D:S ...  another name of OF, for files: sizes and strides of a view of it
///
/// The memory of a front or a mean has them in this order; fp64 tensors begin at a multiple of
/// eight bytes.
struct GuestLayout {
  struct Tensor {
    std::string name;
    std::vector<int64_t> shape;  // empty: one number
    bool operator==(const Tensor&) const = default;
  };
  struct Tied {
    std::string name, of;
    std::vector<int64_t> shape, strides;  // as many elements as `of`, and within it
    bool operator==(const Tied&) const = default;
  };

  /// SGD with Nesterov's momentum. Rate 0: there is no outer optimizer, and the rank takes the
  /// script's change unmodified.
  struct Outer {
    double lr = 0, momentum = 0;
    bool operator==(const Outer&) const = default;
  };

  std::string run;
  Outer outer;
  std::vector<Tensor> trained, aside, aside64;
  std::vector<Tied> tied;

  static uint64_t elements(const std::vector<Tensor>&);
  uint64_t trained_elements() const { return elements(trained); }
  uint64_t aside_elements() const { return elements(aside) + elements(aside64); }
  /// The offset of the first fp64 tensor, in bytes.
  uint64_t aside64_at() const;
  uint64_t bytes() const { return aside64_at() + sizeof(double) * elements(aside64); }
};

}  // namespace grapevine
