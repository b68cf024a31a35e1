#include "models/batches.hpp"

#include <algorithm>

#include "kernels/base/check.hpp"
#include "kernels/base/random.hpp"

namespace grapevine {

Batches::Batches(std::shared_ptr<const Partition> partition, uint64_t seed, int batch)
    : partition_(std::move(partition)),
      seed_(seed),
      batch_(static_cast<size_t>(batch)),
      passes_(static_cast<size_t>(partition_->ranks())),
      rows_(batch_) {}

const std::vector<uint32_t>& Batches::order(int rank, uint64_t pass) {
  Pass& kept = passes_[static_cast<size_t>(rank)];
  if (kept.number != pass) {
    kept.order = order_of_pass(*partition_, seed_, rank, pass);
    kept.number = pass;
  }
  return kept.order;
}

const std::vector<uint32_t>& Batches::rows(int rank, uint64_t index) {
  GV_CHECK(rank >= 0);
  GV_CHECK(rank < partition_->ranks());
  const uint64_t size = partition_->share_size(rank);
  // A rank that took the state of a rank further behind goes through the data as if nothing were
  // left.
  const bool goes_on = left_ != nullptr && index >= left_->since[static_cast<size_t>(rank)];
  uint64_t position = index * batch_;
  if (!goes_on) {
    for (uint32_t& row : rows_) {
      row = order(rank, position / size)[position % size];
      ++position;
    }
    return rows_;
  }
  const std::vector<uint32_t>& first = left_->first[static_cast<size_t>(rank)];
  position -= left_->since[static_cast<size_t>(rank)] * batch_;
  for (uint32_t& row : rows_) {
    const uint64_t beyond = position - first.size();
    row = position < first.size() ? first[position]
                                  : order(rank, left_->pass + beyond / size)[beyond % size];
    ++position;
  }
  return rows_;
}

void Batches::go_on_with(std::shared_ptr<const DataLeft> left) {
  GV_CHECK(left->first.size() == passes_.size());
  GV_CHECK(left->since.size() == passes_.size());
  left_ = std::move(left);
}

Gatherer::Gatherer(const DataSet& data) {
  for (size_t c = 0; c < data.mean.size(); ++c) {
    scale_.push_back(1 / data.deviation[c]);
    shift_.push_back(-data.mean[c] / data.deviation[c]);
  }
}

void Gatherer::gather(const Samples& samples, uint32_t sample, const Augmentation& how,
                      float* out) const {
  const SampleShape& shape = samples.shape;
  const size_t size = shape.size();
  if (!shape.image) {
    std::copy_n(samples.features.data() + sample * size, size, out);
    return;
  }
  const int height = shape.height, width = shape.width, channels = shape.channels;
  const uint8_t* image = samples.pixels.data() + sample * size;
  if (how.down != 0 || how.right != 0) {
    size_t filled = static_cast<size_t>(channels);
    std::copy_n(shift_.data(), filled, out);
    for (; filled < size; filled *= 2)
      std::copy_n(out, std::min(filled, size - filled), out + filled);
  }
  const int first_row = std::max(0, how.down), last_row = height + std::min(0, how.down);
  const int first = std::max(0, how.right), last = width + std::min(0, how.right);
  for (int channel = 0; channel < channels; ++channel) {
    const float scale = scale_[static_cast<size_t>(channel)];
    const float shift = shift_[static_cast<size_t>(channel)];
    for (int row = first_row; row < last_row; ++row) {
      const uint8_t* from = image + (channel * height + row - how.down) * width - how.right;
      float* to = out + row * width * channels + channel;
      if (how.mirrored) {
        for (int column = first; column < last; ++column) {
          to[(width - 1 - column) * channels] = static_cast<float>(from[column]) * scale + shift;
        }
      } else {
        for (int column = first; column < last; ++column) {
          to[column * channels] = static_cast<float>(from[column]) * scale + shift;
        }
      }
    }
  }
}

std::vector<Augmentation> training_augmentations(const DataSet& data, bool mirror, uint64_t seed,
                                                 int rank, uint64_t index, int batch) {
  std::vector<Augmentation> shown(static_cast<size_t>(batch));
  const bool mirrors = mirror && data.mirrors && data.train.shape.image;
  if (!mirrors && data.crop_padding == 0) return shown;
  const uint32_t shifts = static_cast<uint32_t>(2 * data.crop_padding + 1);
  Random random(seed, static_cast<uint32_t>(rank), Purpose::augmentation, index);
  for (Augmentation& how : shown) {
    how.down = static_cast<int>(random.below(shifts)) - data.crop_padding;
    how.right = static_cast<int>(random.below(shifts)) - data.crop_padding;
    how.mirrored = mirrors && random.below(2) == 1;
  }
  return shown;
}

}  // namespace grapevine
