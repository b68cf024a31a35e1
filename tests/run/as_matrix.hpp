// AsMatrix: another objective, whose parameters are a matrix, so that factors have something to
// compress.
#pragma once
#include <memory>
#include <string>
#include <utility>

#include "models/objective.hpp"

namespace grapevine {

class AsMatrix final : public Objective {
 public:
  AsMatrix(std::shared_ptr<Objective> of, int64_t rows) : of_(std::move(of)) {
    layout_.add("x", {rows, static_cast<int64_t>(of_->layout().size()) / rows}, true);
  }

  const ParameterLayout& layout() const override { return layout_; }
  bool has_gradients() const override { return of_->has_gradients(); }
  void initial_point(int rank, Vec x) const override { of_->initial_point(rank, x); }
  double gradient(int thread, int rank, uint64_t index, ConstVec x, Vec g) override {
    return of_->gradient(thread, rank, index, x, g);
  }
  Evaluation evaluate(int thread, int rank, ConstVec x) override {
    return of_->evaluate(thread, rank, x);
  }
  uint64_t gradients_per_pass(int rank) const override { return of_->gradients_per_pass(rank); }
  std::string description() const override { return of_->description(); }
  Status save_model(const std::string& folder, ConstVec x) override {
    return of_->save_model(folder, x);
  }

 private:
  std::shared_ptr<Objective> of_;
  ParameterLayout layout_{DType::f64};
};

}  // namespace grapevine
