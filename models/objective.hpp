// Objective: the training problem. Layout, initial point, loss and gradient at given parameters,
// and evaluation.
//
// One object serves every rank of a node. `thread` is the number of one of its threads
// (ObjectiveSpec::threads). Calls with different `thread` may run at once; calls with the same
// `thread` may not. A network keeps one module per thread. The result of gradient() depends only on
// (seed, rank, index, x), not on the thread or the order of calls. Running statistics (batch norm)
// are the exception: each rank keeps its own.
//
// No header here includes LibTorch. Networks are in a module that make_objective loads on demand.
#pragma once
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "kernels/base/result.hpp"
#include "kernels/memory/layout.hpp"
#include "kernels/memory/vec.hpp"

namespace grapevine {

struct DataCut;  // models/walk.hpp

inline constexpr char kFp32[] = "fp32", kBf16[] = "bf16";

struct ObjectiveSpec {
  std::string objective = "network";  // or a name in analytic.hpp
  int ranks = 1;
  int threads = 1;
  bool has_tester = false;  // one more thread, with number `threads`, which only evaluates
  uint64_t seed = 1;
  // network
  std::string model = "cnn-small";  // of the zoo (zoo.hpp), or a TorchScript FILE.pt
  // A name in data_set.hpp or text_set.hpp, text:FILE, or a file for own_data.hpp.
  std::string dataset = "fashion-mnist";
  std::string loss = "auto";  // auto: cross_entropy if targets are classes, else mse
  std::string data_dir;       // empty: the folder of the distribution's package
  // "auto": contiguous for text, else iid; or a name in partition.hpp.
  std::string partition = "auto";
  double validation_split = 0;  // the share of training samples to set aside; below 1
  int batch = 16;
  bool decay_norms_and_biases = true;
  bool flip = true;  // mirror images at random if the data set allows it
  int window = 32;   // text: characters or words that one gradient covers
  double clip = 0;   // the largest norm of a gradient; 0: no limit
  // The precision in which layers compute gradients. bf16: where it does no harm (LibTorch's
  // autocast); parameters and gradients stay fp32.
  std::string precision = kFp32;
  uint64_t data_hash = 0;  // of the samples; make_network sets it
  // For fp32 on a GPU: convolutions may round their factors to 10 bits, PyTorch's default.
  bool tf32 = true;
  // analytic
  int dim = 16;
  double noise = 0;  // standard deviation of the gradient noise per coordinate
  double zeta2 = 0;  // how far the ranks disagree; each objective defines the unit
  double mu = 1;     // smallest singular value (quadratic) or curvature (diagonal); largest: 1
  double r0 = 10;    // distance of the optimum from the start
  int rows = 100;    // the size of a matrix
  int columns = 100;
  std::string entries = "gaussian";  // of a matrix: gaussian or sines
  // If p > 0, the k-th singular value of a matrix is proportional to k^-p.
  double spectrum_decay = 0;
};

struct Evaluation {
  double loss = 0;
  double accuracy = 0;  // 0..1; NaN: the objective has none
};

/// Thrown by queue_gradient(): there is no memory for this gradient, even after all cached memory
/// was freed.
struct NoMemoryLeft : std::bad_alloc {
  const char* what() const noexcept override { return "there is no memory for it"; }
};

class Objective {
 public:
  virtual ~Objective() = default;

  virtual const ParameterLayout& layout() const = 0;
  virtual bool has_gradients() const { return true; }  // false: consensus, gossip alone
  /// Whether the ranks take steps: by gradients, or by scripts (guest.hpp).
  virtual bool has_workers() const { return has_gradients(); }

  /// Writes the rank's starting point. Networks: the same for every rank. Consensus: Gaussian, one
  /// random stream per rank.
  virtual void initial_point(int rank, Vec x) const = 0;
  /// Whether the starting point is the same for every rank: then one call is enough.
  virtual bool starts_alike() const { return false; }

  /// Writes the gradient number `index` (from 0) of `rank` at x to g (both of the layout's size).
  /// Returns the loss.
  virtual double gradient(int thread, int rank, uint64_t index, ConstVec x, Vec g) = 0;

  /// From now on queue_gradient() computes the threads' gradients on GPU `number`. Error (user):
  /// this objective computes on the CPU only.
  virtual Status use_gpu(int number);
  /// Computes on the host again. May be called if the objective never was on a GPU.
  virtual void use_host() {}
  /// gradient(), queued on a stream of that GPU (a cudaStream_t, always the same for one thread). x
  /// and g are on the GPU, `loss` is in pinned memory; the call does not wait. Null stream:
  /// computes at once, in host memory. REQUIRES: the last successful call was use_gpu() if there is
  /// a stream, use_host() if there is none. Throws NoMemoryLeft; the thread may continue after it.
  virtual void queue_gradient(int thread, void* stream, int rank, uint64_t index, ConstVec x, Vec g,
                              double* loss);
  /// The GPU has done the work that the thread queued; the thread may queue again. Not called after
  /// a throw.
  virtual void gradient_came(int thread, int rank);
  /// The GPU is lost: every later use of it fails, so its memory is not freed, even at the end. Any
  /// thread may call it, also while others compute.
  virtual void lose_gpu() {}

  /// The values besides the parameters whose mean over the ranks is taken at the end and for a
  /// snapshot: the running statistics of a network. Empty if there are none.
  virtual const ParameterLayout& statistics() const;
  /// A consistent copy of the rank's statistics, even while other threads compute; the start if the
  /// rank has taken no gradient.
  virtual void read_statistics(int rank, Vec out) const;
  /// Whether the rank has statistics of its own. If no rank has, a mean has those of the start.
  virtual bool has_statistics(int rank) const;
  /// read_statistics(), with finite values if the rank has not diverged.
  virtual void read_for_mean(int rank, Vec out) const { read_statistics(rank, out); }
  /// Sets the statistics of a rank that continues after this number of gradients of an earlier
  /// process.
  virtual void set_statistics(int rank, uint64_t gradients, ConstVec);
  /// Sets the average over the ranks of all nodes. From now on evaluate() of rank -1 and
  /// save_model() use it.
  virtual void set_average_statistics(ConstVec);

  /// The test set's loss and accuracy at x (analytic: f(x) - minimum). The network uses the running
  /// statistics of `rank`; -1: the average that was set, else the average over all ranks here.
  virtual Evaluation evaluate(int thread, int rank, ConstVec x) = 0;

  /// The same on the training samples set aside; NaN if there are none.
  virtual Evaluation validate(int thread, int rank, ConstVec x);

  /// Whether write_on() can continue this text. Error (user): the text has characters or words that
  /// the data set lacks, or the objective is no language model.
  virtual Status can_write_on(const std::string& text) const;
  /// The text, continued by `count` characters or words. The seed draws them with the probabilities
  /// of the model at x. REQUIRES: can_write_on(text).
  virtual std::string write_on(int thread, ConstVec x, const std::string& text, size_t count,
                               uint64_t seed);

  /// Gradients per pass over one rank's share of the data; 0: there is no data.
  virtual uint64_t gradients_per_pass(int rank) const = 0;

  /// Tells which samples earlier processes of the run took, in order, with other numbers of ranks.
  /// Call it before the first gradient. Error (user): cuts that do not fit this data.
  virtual Status go_on_in_data(const std::vector<DataCut>&);

  /// The number of training samples of each label on each rank, [rank][label]; empty without
  /// labels.
  virtual std::vector<std::vector<uint64_t>> label_counts() const { return {}; }

  /// A hash of the samples' content; a resumed run compares it to notice changed data. 0: unknown.
  virtual uint64_t data_hash() const { return 0; }

  /// The data and the model, in one line for reports.
  virtual std::string description() const = 0;

  /// Writes model.safetensors and model.pt (torch.load with weights_only=True) into the directory;
  /// each file appears complete or not at all. Analytic objectives write only the safetensors file.
  virtual Status save_model(const std::string& directory, ConstVec x) = 0;
};

/// Loads the network module on demand. Errors: an unknown name (with the accepted ones); data that
/// is missing, cut or of the wrong kind (with the file); more ranks than samples; a module that
/// cannot be loaded.
Result<std::unique_ptr<Objective>> make_objective(const ObjectiveSpec&);

}  // namespace grapevine
