// The user's own networks and samples: a TorchScript file or a network of the zoo, on a data set of
// the registry or on tensors from a file.
#include <torch/script.h>

#include "models/data/own_data.hpp"
#include "models/files/tensor_file.hpp"
#include "models/network/flat_parameters.hpp"
#include "models/network/networks.hpp"
#include "models/network/objectives.hpp"
#include "models/network/torch_objective.hpp"

namespace grapevine {
namespace {

TorchNetwork network_of_file(const std::string& path) {
  const auto script = std::make_shared<torch::jit::Module>(torch::jit::load(path, at::kCPU));
  TorchNetwork network;
  for (const auto& p : script->named_parameters())
    network.parameters.emplace_back(p.name, p.value);
  for (const auto& b : script->named_buffers())
    network.buffers.emplace_back(b.name, b.value);
  network.forward = [script](const at::Tensor& inputs) {
    return script->forward({inputs}).toTensor();
  };
  network.train = [script](bool training) { script->train(training); };
  return network;
}

/// The leaves of a plan, with its initial weights.
TorchNetwork network_of_plan(const std::shared_ptr<const NetworkPlan>& plan, uint64_t seed) {
  Buffer start(plan->layout.size(), DType::f32);
  initial_weights(*plan, seed, start);
  TorchNetwork network;
  std::vector<at::Tensor> parameters, running;
  for (const ParameterEntry& entry : plan->layout.entries()) {
    const float* first = start.vec().as<float>() + entry.offset;
    parameters.push_back(view_of(first, entry.shape).clone().set_requires_grad(true));
    network.parameters.emplace_back(entry.name, parameters.back());
  }
  for (const NormStatistics& norm : plan->norms) {
    const auto channels = static_cast<int64_t>(norm.channels);
    running.push_back(at::zeros({channels}));
    network.buffers.emplace_back(norm.name + ".running_mean", running.back());
    running.push_back(at::ones({channels}));
    network.buffers.emplace_back(norm.name + ".running_var", running.back());
  }
  const auto training = std::make_shared<bool>(true);
  network.forward = [=](const at::Tensor& inputs) {
    return forward(*plan, {parameters, running, *training}, inputs);
  };
  network.train = [training](bool now) { *training = now; };
  return network;
}

/// Views of the file's data; the tensors keep the data alive.
TorchData samples_of(const std::shared_ptr<const OwnData>& own, bool test) {
  const auto tensor = [&own](const StoredTensor& t) {
    const auto type = t.type == TensorType::i64 ? at::kLong : at::kFloat;
    return at::from_blob(
        const_cast<uint8_t*>(t.bytes.data()), t.shape, [own](void*) {}, type);
  };
  TorchData data = TorchData::of(tensor(test ? own->test_inputs : own->train_inputs),
                                 tensor(test ? own->test_targets : own->train_targets));
  data.name = own->description();
  return data;
}

}  // namespace

Result<std::unique_ptr<Objective>> make_own_network(const ObjectiveSpec& spec,
                                                    NetworkInputs&& inputs) {
  TorchTask task;
  task.name = spec.model;
  task.decay_norms_and_biases = spec.decay_norms_and_biases;
  if (inputs.own) {
    task.train = samples_of(inputs.own, false);
    task.test = samples_of(inputs.own, true);
  } else {
    task.train = TorchData::of(inputs.data, false);
    task.test = TorchData::of(inputs.data, true);
  }
  if (spec.loss == "mse") task.loss = mean_square;
  if (spec.model.ends_with(".pt")) {
    if (TensorFile::open(spec.model))
      return user_error("model is \"" + spec.model +
                        "\", which has tensors and no network, accepted: a file that "
                        "torch.jit.script or torch.jit.trace has written; --init FILE starts from "
                        "tensors");
    task.make = [path = spec.model] { return network_of_file(path); };
  } else {
    const auto plan = std::make_shared<const NetworkPlan>(std::move(inputs.plan));
    task.make = [plan, seed = spec.seed] { return network_of_plan(plan, seed); };
  }
  return make_torch_objective(spec, std::move(task));
}

}  // namespace grapevine
