// Texts as tokens: how they are cut, numbered and split, and what is refused.
#include <algorithm>
#include <filesystem>

#include "models/data/text_set.hpp"
#include "models/objective.hpp"
#include "models/zoo.hpp"
#include "tests/catch.hpp"
#include "tests/models/tools.hpp"

namespace grapevine {
namespace {

TextSet made(const std::string& dataset, const std::string& folder, TokenUnit unit,
             size_t least = 1) {
  auto set = read_text_set(dataset, folder, unit, least);
  if (!set) FAIL(set.error().message);
  return *set;
}

std::string spelled(const TextSet& set, const std::vector<uint16_t>& tokens) {
  std::string text;
  for (const uint16_t token : tokens)
    text += set.vocabulary.at(token) + "|";
  return text;
}

Error refused(const std::string& dataset, const std::string& folder, TokenUnit unit,
              size_t least = 1) {
  const auto set = read_text_set(dataset, folder, unit, least);
  REQUIRE(!set);
  CHECK(std::count(set.error().message.begin(), set.error().message.end(), '\n') == 0);
  return set.error();
}

ObjectiveSpec language(const std::string& dataset) {
  ObjectiveSpec spec;
  spec.model = "lm-char";
  spec.dataset = dataset;
  return spec;
}

std::string refusal(const ObjectiveSpec& spec) {
  const auto objective = make_objective(spec);
  REQUIRE(!objective);
  CHECK(objective.error().exit_status() == 2);
  return objective.error().message;
}

}  // namespace

TEST_CASE("A text of characters keeps its last tenth for validation and numbers bytes in order") {
  const test::Scratch scratch;
  const std::string file = scratch.file("t.txt", "cab\ncabacabacabaabc.");
  const TextSet set = made("text:" + file, "", TokenUnit::character);
  CHECK(set.vocabulary == std::vector<std::string>{"\n", "a", "b", "c", "<unk>"});
  CHECK(spelled(set, set.train) == "c|a|b|\n|c|a|b|a|c|a|b|a|c|a|b|a|a|b|");
  CHECK(spelled(set, set.validation) == "c|<unk>|");
  CHECK(set.description() == "text:" + file + ": 18 + 2 characters, 5 different");
}

TEST_CASE("Words are numbered by how often they occur, line ends count, the rest is unknown") {
  const test::Scratch scratch;
  scratch.file("wikitext-2/wiki.train.tokens", "b a  a\n\tc <unk> a\r\n");
  scratch.file("wikitext-2/wiki.valid.tokens", "a z\n");
  const TextSet set = made("wikitext-2", scratch.path(), TokenUnit::word);
  CHECK(set.vocabulary == std::vector<std::string>{"a", "<eos>", "<unk>", "b", "c"});
  CHECK(spelled(set, set.train) == "b|a|a|<eos>|c|<unk>|a|<eos>|");
  CHECK(spelled(set, set.validation) == "a|<unk>|<eos>|");
}

TEST_CASE("A play names who speaks, in lines that end with a colon behind an empty one") {
  const test::Scratch scratch;
  const std::string play = "Act I\nNow:\n\nA:\nba\n\nB:\r\na: b\n\nA:\na\n\nb\n\n:\n";
  const std::string dataset = "text:" + scratch.file("t.txt", play + std::string(9, '\n'));
  const TextSet set = made(dataset, "", TokenUnit::character);
  std::string whose;
  for (const uint16_t speaker : set.speakers)
    whose += static_cast<char>('0' + speaker);
  CHECK(whose.substr(0, play.size()) ==
        std::string(12, '0') + std::string(7, '1') + std::string(10, '2') + std::string(11, '1'));
  CHECK(set.speakers.size() == set.train.size());
  const TextSet words = made(dataset, "", TokenUnit::word);
  CHECK(words.speakers.size() == words.train.size());
  CHECK(words.speakers[0] == 0u);  // Act
  CHECK(words.speakers[6] == 1u);  // ba, behind Act I <eos> Now: <eos> <eos> A: <eos>
  const std::string alone = scratch.file("u.txt", "A:\nba\n\nA:\nab\n\nab:ab\n");
  CHECK(made("text:" + alone, "", TokenUnit::character).speakers.empty());
}

TEST_CASE("The tokens of another text are numbered as its own, and spelled again") {
  const test::Scratch scratch;
  const std::string line = "to be or not to be\nthat is\n the question\n";
  const std::string file = scratch.file("t.txt", line + line + line);
  const TextSet letters = made("text:" + file, "", TokenUnit::character);
  CHECK(letters.text_of(*letters.numbers_of("not that")) == "not that");
  const auto other = letters.numbers_of("not \033[1m");
  REQUIRE_FALSE(other);
  CHECK(other.error().message ==
        "\"\\x1b\" does not occur in text:" + file + ", accepted: its characters");
  const TextSet words = made("text:" + file, "", TokenUnit::word);
  CHECK(words.text_of(*words.numbers_of("  to  be\nor that")) == "to be\nor that");
  CHECK(words.numbers_of("to sleep").error().message ==
        "\"sleep\" does not occur in text:" + file + ", accepted: its words");
  CHECK(words.numbers_of(" ").error().message == "it has no words, accepted: one or more");
}

TEST_CASE("A vocabulary of words is bounded, the rarest being unknown") {
  const test::Scratch scratch;
  std::string text;
  for (int k = 0; k < 10000; ++k)
    text += "w" + std::to_string(k % 9000) + " ";
  const TextSet set = made("text:" + scratch.file("t.txt", text), "", TokenUnit::word);
  REQUIRE(set.vocabulary.size() == kMostWords);
  CHECK(set.vocabulary.back() == "<unk>");
  const auto unknown = std::count(set.train.begin(), set.train.end(), kMostWords - 1);
  CHECK(unknown == 9000 - static_cast<long>(kMostWords - 1));
}

TEST_CASE("A text that is missing, empty or too short is refused in one line") {
  const test::Scratch scratch;
  const std::string folder = scratch.path();
  const Error none = refused("text:" + folder + "/none", "", TokenUnit::character);
  CHECK(none.exit_status() == 2);
  CHECK(none.message ==
        "data set is \"text:" + folder + "/none\", accepted: text:FILE of an " + "existing file");
  CHECK(refused("text:", "", TokenUnit::word).exit_status() == 2);
  const std::string empty = scratch.file("empty.txt", "");
  CHECK(refused("text:" + empty, "", TokenUnit::character).message ==
        empty + " is empty, accepted: a text");
  const std::string shortest = scratch.file("short.txt", "to be or not to be");
  CHECK(refused("text:" + shortest, "", TokenUnit::word, 33).message ==
        "data set text:" + shortest +
            " has 6 + 0 words to train on and to validate with, accepted: at least 33 + 2");
  CHECK(refused("wikitext-2", "", TokenUnit::word).message ==
        "data set wikitext-2: no package installs it; name the folder that has wiki.train.tokens "
        "with --data");
  CHECK(refused("tiny-shakespeare", folder, TokenUnit::character).message ==
        "data set tiny-shakespeare: no input.txt (plain, .gz or .xz) in " + folder + " or " +
            folder + "/tiny-shakespeare; name the folder that has it with --data");
  scratch.file("wiki.train.tokens", "a b c\n");
  CHECK_THAT(refused("wikitext-2", folder, TokenUnit::word).message,
             Catch::Contains("no wiki.valid.tokens"));
}

TEST_CASE("A model and a data set that do not fit are refused before anything is read") {
  CHECK(refusal(language("fashion-mnist")) ==
        "model lm-char reads text, the data set is \"fashion-mnist\", accepted: text:FILE, "
        "tiny-shakespeare, wikitext-2");
  ObjectiveSpec spec = language("text:/none");
  spec.model = "cnn-small";
  CHECK(refusal(spec) ==
        "model is \"cnn-small\" and data set text:/none is text, accepted: lm-char, lm-word, "
        "gpt-char, "
        "gpt:LAYERSxHEADSxWIDTH");
  spec = language("text:/none");
  spec.window = 0;
  CHECK(refusal(spec) == "window is 0, accepted: 1 or more");
  spec.clip = -1;
  CHECK(refusal(spec) == "clip is -1, accepted: 0 or more");
  const test::Scratch scratch;
  spec = language("text:" + scratch.file("t.txt", std::string(1000, 'a')));
  spec.ranks = 29;  // 899 characters with a follower are 28 windows of 32
  CHECK(refusal(spec) == "ranks is 29, accepted: at most 28, the number of training samples");
  spec.ranks = 2;
  spec.partition = "dirichlet:1";
  CHECK(refusal(spec) ==
        "partition is \"dirichlet:1\" where samples have no labels, accepted: iid, whole, "
        "contiguous");
}

TEST_CASE("Language models are laid out as torch::nn has them, words with tied embeddings") {
  const NetworkPlan characters = plan_language_model("lm-char", 65, 32, true);
  CHECK(characters.layout.size() == 65 * 32 + 4 * 256 * (32 + 256 + 2) + 65 * 257);
  CHECK(characters.layout.entries().back().name == "decoder.bias");
  const NetworkPlan words = plan_language_model("lm-word", 4096, 32, false);
  CHECK(words.layout.size() == 4096 * 64 + 4 * 64 * (64 + 64 + 2) + 4096);
  CHECK(words.layout.entries()[0].shape == std::vector<int64_t>{4096, 64});
  for (const auto& entry : words.layout.entries()) {
    CHECK(entry.decays == (entry.shape.size() > 1));
  }
}

TEST_CASE("A transformer is laid out as nanoGPT has it, and its own context is the window") {
  const NetworkPlan laptop = plan_language_model("gpt-char", 65, 64, false);
  CHECK(laptop.layout.size() == 804096);
  CHECK(laptop.layout.entries()[0].name == "transformer.wte.weight");
  CHECK(laptop.layout.entries()[3].name == "transformer.h.0.attn.c_attn.weight");
  CHECK(laptop.layout.entries()[3].shape == std::vector<int64_t>{384, 128});
  CHECK(laptop.layout.entries().back().name == "transformer.ln_f.weight");
  for (const auto& entry : laptop.layout.entries())
    CHECK(entry.decays == (entry.shape.size() > 1));
  CHECK((*transformer_of("gpt-char"))->context == 64);
  CHECK((*transformer_of("gpt:3x4x64"))->context == 0);
  CHECK((*transformer_of("gpt:3x4x64,ctx=48"))->context == 48);
  CHECK_FALSE(*transformer_of("lm-char"));
  for (const char* wrong :
       {"gpt", "gpt:", "gpt:3x4", "gpt:3x4x63", "gpt:0x4x64", "gpt:3x0x64", "gpt:3x4x64x2",
        "gpt:3x4x64,ctx=0", "gpt:3x4x64,ctx", "gpt:3x4x64,ctx=8,ctx=8", "gpt:3x4x-64",
        "gpt:3x4x64,window=8", "gpt:3000000000x4x64", "gpt:3x4x1000000"}) {
    INFO(wrong);
    ObjectiveSpec spec = language("text:/none");
    spec.model = wrong;
    CHECK_THAT(refusal(spec), Catch::Contains("accepted: gpt:LAYERSxHEADSxWIDTH"));
  }
}

TEST_CASE("The published texts have their published numbers of tokens") {
  const std::string folder = test::real_data("reading the published texts");
  if (folder.empty()) return;
  const TextSet plays = made("tiny-shakespeare", folder, TokenUnit::character);
  CHECK(plays.train.size() + plays.validation.size() == 1115394);
  CHECK(plays.vocabulary.size() == 65);
  const TextSet articles = made("wikitext-2", folder, TokenUnit::word);
  CHECK(articles.train.size() == 2088628);
  CHECK(articles.validation.size() == 217646);
}

}  // namespace grapevine
