// Language models against torch::nn, finite differences, and what can be known of a text.
#include <torch/torch.h>

#include <cmath>

#include "models/batches.hpp"
#include "models/data/text_set.hpp"
#include "models/objective.hpp"
#include "tests/catch.hpp"
#include "tests/models/objective_tools.hpp"
#include "tests/models/tools.hpp"

namespace grapevine {

using namespace test;

namespace {

/// "abcde abcde ...": after a few characters nothing is left to chance.
std::string alphabet(size_t letters, size_t length) {
  std::string text;
  while (text.size() < length) {
    for (size_t k = 0; k < letters; ++k)
      text += static_cast<char>('a' + k);
    text += text.size() % 7 == 0 ? "\n" : " ";
  }
  return text;
}

ObjectiveSpec spec_of(const test::Scratch& scratch, const std::string& model) {
  ObjectiveSpec spec;
  spec.model = model;
  spec.dataset = "text:" + scratch.file("t.txt", alphabet(9, 3000));
  spec.batch = 4;
  spec.window = 8;
  spec.ranks = 3;
  spec.threads = 2;
  return spec;
}

double norm(const Flat& g) {
  double squares = 0;
  for (const float v : g)
    squares += static_cast<double>(v) * v;
  return std::sqrt(squares);
}

/// The parameters behind so many steps of all ranks in turn.
Flat learnt(Objective& objective, float rate, uint64_t steps) {
  Flat x = start(objective), g(x.size());
  for (uint64_t step = 0; step < steps; ++step) {
    objective.gradient(0, static_cast<int>(step % 3), step / 3, view(x), view(g));
    for (size_t k = 0; k < x.size(); ++k)
      x[k] -= rate * g[k];
  }
  return x;
}

struct Windows {
  torch::Tensor in, next;
  int64_t words = 0;
};

/// Those of a gradient, cut by hand.
Windows windows_of(const ObjectiveSpec& spec, int rank, uint64_t index) {
  const auto text = read_text_set(spec.dataset, "", TokenUnit::character, 1);
  REQUIRE(text);
  const uint32_t windows = static_cast<uint32_t>((text->train.size() - 1) / 8);
  const auto partition = make_partition("contiguous", windows, {}, spec.ranks, spec.seed);
  REQUIRE(partition);
  Batches batches(std::make_shared<Partition>(*partition), spec.seed, spec.batch);
  Windows w{torch::empty({spec.batch, 8}, torch::kLong),
            torch::empty({spec.batch, 8}, torch::kLong),
            static_cast<int64_t>(text->vocabulary.size())};
  int k = 0;
  for (const uint32_t row : batches.rows(rank, index)) {
    for (int at = 0; at < 8; ++at) {
      w.in[k][at] = text->train[row * 8 + at];
      w.next[k][at] = text->train[row * 8 + at + 1];
    }
    ++k;
  }
  return w;
}

/// The gradient of gpt:2x2x16 by its definition: attention written out, every product by hand.
Flat transformer_gradient(const ObjectiveSpec& spec, int rank, uint64_t index, const Flat& x) {
  const Windows w = windows_of(spec, rank, index);
  const int64_t width = 16, heads = 2, t = 8;
  std::vector<torch::Tensor> parameters;
  size_t at = 0;
  const auto next = [&](std::vector<int64_t> shape) {
    torch::Tensor p = torch::empty(shape);
    std::copy_n(x.data() + at, p.numel(), p.data_ptr<float>());
    at += static_cast<size_t>(p.numel());
    parameters.push_back(p.requires_grad_());
    return parameters.back();
  };
  const auto norm = [](const torch::Tensor& h, const torch::Tensor& weight) {
    const auto mean = h.mean(-1, true);
    return (h - mean) / (h.var(-1, false, true) + 1e-5).sqrt() * weight;
  };
  const auto wte = next({w.words, width}), wpe = next({t, width});
  torch::Tensor h = wte.index({w.in}) + wpe;
  for (int layer = 0; layer < 2; ++layer) {
    const auto ln = next({width}), attn = next({3 * width, width}), proj = next({width, width});
    const auto qkv = norm(h, ln).matmul(attn.t()).view({-1, t, 3, heads, width / heads});
    const auto q = qkv.select(2, 0).transpose(1, 2), k = qkv.select(2, 1).transpose(1, 2);
    const auto v = qkv.select(2, 2).transpose(1, 2);
    auto scores = q.matmul(k.transpose(2, 3)) / std::sqrt(static_cast<double>(width / heads));
    const auto later = torch::ones({t, t}, torch::kBool).triu(1);
    scores = scores.masked_fill(later, -INFINITY);
    const auto seen = torch::softmax(scores, -1).matmul(v).transpose(1, 2).reshape({-1, t, width});
    h = h + seen.matmul(proj.t());
    const auto ln2 = next({width}), up = next({4 * width, width}), down = next({width, 4 * width});
    const auto inner = norm(h, ln2).matmul(up.t());
    h = h + (0.5 * inner * (1 + torch::erf(inner / std::sqrt(2.0)))).matmul(down.t());
  }
  const auto scores = norm(h, next({width})).matmul(wte.t());
  REQUIRE(at == x.size());
  torch::nn::functional::cross_entropy(scores.flatten(0, 1), w.next.flatten()).backward();
  Flat g;
  for (const auto& p : parameters) {
    const torch::Tensor dense = p.grad().contiguous();
    g.insert(g.end(), dense.data_ptr<float>(), dense.data_ptr<float>() + dense.numel());
  }
  return g;
}

/// The gradient of lm-char by torch::nn's own modules, on windows cut by hand.
Flat gradient_by_torch(const ObjectiveSpec& spec, int rank, uint64_t index, const Flat& x) {
  const auto [in, next, words] = windows_of(spec, rank, index);
  torch::nn::Embedding embedding(words, 32);
  torch::nn::LSTM lstm(torch::nn::LSTMOptions(32, 256).batch_first(true));
  torch::nn::Linear decoder(256, words);
  std::vector<torch::Tensor> parameters = embedding->parameters();
  for (const auto& p : lstm->parameters())
    parameters.push_back(p);
  for (const auto& p : decoder->parameters())
    parameters.push_back(p);
  size_t at = 0;
  for (auto& p : parameters) {
    const torch::NoGradGuard no_gradients;
    std::copy_n(x.data() + at, p.numel(), p.data_ptr<float>());
    at += static_cast<size_t>(p.numel());
  }
  REQUIRE(at == x.size());
  const auto out = std::get<0>(lstm->forward(embedding->forward(in)));
  torch::nn::functional::cross_entropy(decoder->forward(out).flatten(0, 1), next.flatten())
      .backward();
  Flat g;
  for (const auto& p : parameters) {
    const torch::Tensor dense = p.grad().contiguous();
    g.insert(g.end(), dense.data_ptr<float>(), dense.data_ptr<float>() + dense.numel());
  }
  return g;
}

}  // namespace

TEST_CASE("A language model's gradient is torch::nn's on the same windows and parameters") {
  const test::Scratch scratch;
  const ObjectiveSpec spec = spec_of(scratch, "lm-char");
  const auto objective = made(spec);
  const Flat x = start(*objective);
  for (const uint64_t index : {0, 5}) {
    const Flat g = gradient(*objective, 1, 2, index, x);
    const Flat expected = gradient_by_torch(spec, 2, index, x);
    double worst = 0;
    for (size_t k = 0; k < x.size(); ++k) {
      worst = std::max(worst, static_cast<double>(std::abs(g[k] - expected[k])));
    }
    CHECK(worst < 1e-6);
    CHECK(norm(g) > 0.01);
    CHECK(gradient(*objective, 0, 2, index, x) == g);
  }
}

TEST_CASE("A transformer's gradient is that of its definition, written out") {
  const test::Scratch scratch;
  const ObjectiveSpec spec = spec_of(scratch, "gpt:2x2x16");
  const auto objective = made(spec);
  const Flat x = start(*objective);
  for (const uint64_t index : {0, 5}) {
    const Flat g = gradient(*objective, 1, 2, index, x);
    const Flat expected = transformer_gradient(spec, 2, index, x);
    double worst = 0;
    for (size_t k = 0; k < x.size(); ++k)
      worst = std::max(worst, static_cast<double>(std::abs(g[k] - expected[k])));
    CHECK(worst < 1e-6);
    CHECK(norm(g) > 0.01);
    CHECK(gradient(*objective, 0, 2, index, x) == g);
  }
}

TEST_CASE("A transformer learns a text without chance, with a context of its own") {
  const test::Scratch scratch;
  const auto objective = made(spec_of(scratch, "gpt:2x2x32,ctx=12"));
  Flat x = start(*objective);
  CHECK(objective->evaluate(0, -1, view(x)).loss == Approx(std::log(11.0)).margin(0.2));
  x = learnt(*objective, 0.5f, 300);
  const Evaluation after = objective->evaluate(1, -1, view(x));
  CHECK(after.accuracy > 0.8);
  REQUIRE(objective->save_model(scratch.path(), view(x)));
}

TEST_CASE("A language model's gradient is the slope of the loss it returns, tied or not") {
  const test::Scratch scratch;
  for (const std::string model : {"lm-char", "lm-word", "gpt:2x2x16"}) {
    INFO(model);
    const auto objective = made(spec_of(scratch, model));
    const Flat x = start(*objective);
    const Flat g = gradient(*objective, 0, 1, 3, x);
    Flat unused(x.size()), up = x, down = x;
    const double length = norm(g), step = 1e-2 / std::max(1.0, length);
    for (size_t k = 0; k < x.size(); ++k) {
      up[k] += static_cast<float>(step * g[k] / length);
      down[k] -= static_cast<float>(step * g[k] / length);
    }
    const double slope = (objective->gradient(0, 1, 3, view(up), view(unused)) -
                          objective->gradient(0, 1, 3, view(down), view(unused))) /
                         (2 * step);
    CHECK(slope == Approx(length).epsilon(0.02));
  }
}

TEST_CASE("A gradient is never longer than the clip, and shorter ones stay as they are") {
  const test::Scratch scratch;
  ObjectiveSpec spec = spec_of(scratch, "lm-char");
  const auto free = made(spec);
  const Flat x = start(*free), whole = gradient(*free, 0, 0, 0, x);
  spec.clip = norm(whole) / 4;
  const Flat clipped = gradient(*made(spec), 0, 0, 0, x);
  CHECK(norm(clipped) == Approx(spec.clip).epsilon(1e-5));
  CHECK(clipped[7] == Approx(whole[7] / 4).epsilon(1e-5));
  spec.clip = norm(whole) * 1.01;
  CHECK(gradient(*made(spec), 0, 0, 0, x) == whole);
}

TEST_CASE("A model starts at the entropy of its vocabulary and learns a text without chance") {
  const test::Scratch scratch;
  const auto objective = made(spec_of(scratch, "lm-char"));
  CHECK(objective->label_counts().empty());
  Flat x = start(*objective);
  const Evaluation before = objective->evaluate(0, -1, view(x));
  CHECK(before.loss == Approx(std::log(11.0)).margin(0.1));
  CHECK(before.accuracy < 0.4);
  x = learnt(*objective, 1.0f, 150);
  const Evaluation after = objective->evaluate(1, -1, view(x));
  CHECK(after.accuracy > 0.9);
  CHECK(after.loss < 0.4);
  REQUIRE(objective->save_model(scratch.path(), view(x)));
}

TEST_CASE("An LSTM that has learnt a text writes it on, with all of the prompt in its state") {
  const test::Scratch scratch;
  std::string text;
  for (int k = 0; k < 1000; ++k)
    text += "aab";  // what follows an "a" depends on what is before it
  ObjectiveSpec spec = spec_of(scratch, "lm-char");
  spec.dataset = "text:" + scratch.file("aab.txt", text);
  const auto objective = made(spec);
  Flat x = learnt(*objective, 1.0f, 300);
  const std::string prompt = text.substr(0, 22);
  const std::string after = objective->write_on(0, view(x), prompt, 200, 1);
  CHECK(after.starts_with(prompt));
  REQUIRE(after.size() == 222u);
  size_t as_learnt = 0;
  for (size_t k = prompt.size(); k < after.size(); ++k)
    as_learnt += after[k] == text[k];
  CHECK(as_learnt > 195u);
}

TEST_CASE("A transformer writes on behind the last tokens of its context, as the seed draws") {
  const test::Scratch scratch;
  const auto objective = made(spec_of(scratch, "gpt:2x2x32,ctx=12"));
  Flat fresh = start(*objective);
  const std::string once = objective->write_on(0, view(fresh), "abc", 200, 1);
  CHECK(once.size() == 203u);
  CHECK(once == objective->write_on(1, view(fresh), "abc", 200, 1));
  CHECK(once != objective->write_on(0, view(fresh), "abc", 200, 2));
  CHECK(objective->write_on(0, view(fresh), "abc", 0, 1) == "abc");
  Flat x = learnt(*objective, 0.5f, 600);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const std::string whole = objective->write_on(0, view(x), "ihgfe fghi abcdefgh", 5, seed);
    CHECK(whole == "ihgfe f" + objective->write_on(0, view(x), "ghi abcdefgh", 5, seed));
  }
  const std::string after = objective->write_on(0, view(x), "abc", 200, 1);
  size_t in_order = 0;
  for (size_t k = 3; k < after.size(); ++k)
    in_order += after[k - 1] == 'i'  ? after[k] == ' ' || after[k] == '\n'
                : after[k - 1] < 'a' ? after[k] == 'a'
                                     : after[k] == after[k - 1] + 1;
  CHECK(in_order > 170u);
}

TEST_CASE("Only a language model writes, and only on with what its text has") {
  const test::Scratch scratch;
  const ObjectiveSpec spec = spec_of(scratch, "gpt:2x2x16");
  const auto objective = made(spec);
  CHECK(objective->can_write_on("abc"));
  CHECK(objective->can_write_on("ABC").error().message ==
        "sample is \"ABC\": \"A\" does not occur in " + spec.dataset +
            ", accepted: its characters");
  ObjectiveSpec other;
  other.objective = "quadratic";
  const Status refused = made(other)->can_write_on("abc");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().exit_status() == 2);
  CHECK_THAT(refused.error().message,
             Catch::Contains("sample is \"abc\"") && Catch::Contains("is no language model"));
}

TEST_CASE("The windows of a play are dealt out by speaker") {
  const test::Scratch scratch;
  std::string play;
  for (int k = 0; k < 40; ++k)  // a speech is 13 windows
    for (const char letter : {'a', 'b'})
      play += std::string(1, static_cast<char>(letter - 'a' + 'A')) + ":\n" +
              std::string(99, letter) + "\n\n";
  ObjectiveSpec spec = spec_of(scratch, "lm-char");
  spec.ranks = 2;
  spec.dataset = "text:" + scratch.file("play.txt", play);
  const auto rows_of = [&](const std::string& partition) {  // which letters each rank reads
    spec.partition = partition;
    const auto objective = made(spec);
    const Flat x = start(*objective);
    // "\n", ":", "A", "B", "a", "b": rows of the embedding, 32 numbers each.
    std::string read;
    for (int rank = 0; rank < 2; ++rank) {
      Flat sum(x.size());
      for (uint64_t index = 0; index < 40; ++index) {
        const Flat g = gradient(*objective, 0, rank, index, x);
        for (size_t k = 0; k < 6 * 32; ++k)
          sum[k] += std::abs(g[k]);
      }
      for (const size_t row : {4u, 5u})
        read += sum[row * 32] > 0 ? "ab"[row - 4] : '-';
      read += ' ';
    }
    return read;
  };
  CHECK(rows_of("iid") == "ab ab ");
  CHECK(rows_of("label").starts_with("a- "));  // of 935 windows the middle one is of A, by rank 1
}

TEST_CASE("Contiguous is a text's own partition: ranks read its parts") {
  const test::Scratch scratch;
  ObjectiveSpec spec = spec_of(scratch, "lm-char");
  const Flat x = start(*made(spec));
  const Flat own = gradient(*made(spec), 0, 1, 0, x);
  spec.partition = "contiguous";
  CHECK(gradient(*made(spec), 0, 1, 0, x) == own);
  spec.partition = "iid";
  CHECK(gradient(*made(spec), 0, 1, 0, x) != own);
}

}  // namespace grapevine
