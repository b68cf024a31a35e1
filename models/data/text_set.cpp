#include "models/data/text_set.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>
#include <string_view>
#include <unordered_map>

#include "kernels/base/printable.hpp"
#include "models/files/file.hpp"

namespace grapevine {
namespace {

constexpr std::string_view kFilePrefix = "text:";
constexpr size_t kMostSpeakers = std::numeric_limits<uint16_t>::max();
constexpr size_t kHeldOut = 10;  // without a validation file: the last tenth of the text
const std::string kUnknown = "<unk>", kEndOfLine = "<eos>";

using Tokens = std::vector<std::string_view>;  // views of the text, or of kEndOfLine

struct Files {
  std::string train, validation;  // empty validation: a part of train
};

Tokens tokens_of(std::string_view text, TokenUnit unit) {
  Tokens tokens;
  if (unit == TokenUnit::character) {
    for (size_t k = 0; k < text.size(); ++k)
      tokens.push_back(text.substr(k, 1));
    return tokens;
  }
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of(" \t\r\n", at), text.size());
    if (end > at) tokens.push_back(text.substr(at, end - at));
    if (end < text.size() && text[end] == '\n') tokens.push_back(kEndOfLine);
    at = end + 1;
  }
  return tokens;
}

/// The tokens to keep, in the order of their indices; "<unk>" only if the text contains it.
std::vector<std::string> vocabulary_of(const Tokens& tokens, TokenUnit unit) {
  std::unordered_map<std::string_view, size_t> counts;
  for (const std::string_view token : tokens)
    ++counts[token];
  std::vector<std::pair<std::string_view, size_t>> sorted(counts.begin(), counts.end());
  std::sort(sorted.begin(), sorted.end(), [unit](const auto& a, const auto& b) {
    if (unit == TokenUnit::word && a.second != b.second) return a.second > b.second;
    return a.first < b.first;
  });
  if (sorted.size() >= kMostWords) sorted.resize(kMostWords - 1);
  std::vector<std::string> words;
  for (const auto& [word, count] : sorted)
    words.emplace_back(word);
  return words;
}

void number(TextSet& set, const Tokens& train, const Tokens& validation) {
  std::unordered_map<std::string_view, uint16_t> numbers;
  set.vocabulary = vocabulary_of(train, set.unit);
  set.vocabulary.reserve(set.vocabulary.size() + 1);  // so that the views stay valid
  for (const std::string& word : set.vocabulary) {
    numbers.emplace(word, static_cast<uint16_t>(numbers.size()));
  }
  const auto number_of = [&](std::string_view token) {
    if (const auto known = numbers.find(token); known != numbers.end()) return known->second;
    if (const auto unknown = numbers.find(kUnknown); unknown != numbers.end()) {
      return unknown->second;
    }
    set.vocabulary.push_back(kUnknown);
    return numbers.emplace(kUnknown, static_cast<uint16_t>(numbers.size())).first->second;
  };
  for (const std::string_view token : train)
    set.train.push_back(number_of(token));
  for (const std::string_view token : validation)
    set.validation.push_back(number_of(token));
}

struct Speech {
  size_t begin = 0;  // a byte of the text
  uint16_t speaker = 0;
};

/// In order; empty: the text names fewer than two speakers, or too many.
std::vector<Speech> speeches_of(std::string_view text) {
  std::unordered_map<std::string_view, uint16_t> numbers;
  std::vector<Speech> speeches;
  bool follows_empty = true;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (follows_empty && line.size() > 1 && line.ends_with(':')) {
      if (numbers.size() >= kMostSpeakers && !numbers.contains(line)) return {};
      const auto next = static_cast<uint16_t>(numbers.size() + 1);
      speeches.push_back({at, numbers.emplace(line, next).first->second});
    }
    follows_empty = line.empty();
    at = end + 1;
  }
  if (numbers.size() < 2) speeches.clear();
  return speeches;
}

/// REQUIRES: the tokens are the text's tokens, from its beginning.
std::vector<uint16_t> speakers_of(std::string_view text, const Tokens& tokens) {
  const std::vector<Speech> speeches = speeches_of(text);
  std::vector<uint16_t> speakers;
  auto next = speeches.begin();
  for (size_t k = 0; k < tokens.size() && !speeches.empty(); ++k) {
    const bool lies_in_text = tokens[k].data() != kEndOfLine.data();
    const auto at = lies_in_text ? static_cast<size_t>(tokens[k].data() - text.data()) : 0;
    while (next != speeches.end() && lies_in_text && next->begin <= at)
      ++next;
    speakers.push_back(next == speeches.begin() ? uint16_t{0} : std::prev(next)->speaker);
  }
  return speakers;
}

/// `folder`/`name`, plain or packed, or the same in the set's own folder inside `folder`.
Result<std::string> find_file(const std::string& dataset, const std::string& folder,
                              const std::string& name) {
  if (folder.empty()) {
    return user_error(
        fmt::format("data set {}: no package installs it; name the folder that has {} with --data",
                    dataset, name));
  }
  const std::string own = fmt::format("{}/{}", folder, dataset);
  for (const std::string& place : {folder, own}) {
    if (const std::string path = find_packed(place, name); !path.empty()) return path;
  }
  return user_error(fmt::format(
      "data set {}: no {} (plain, .gz or .xz) in {} or {}; name the folder that has it with --data",
      dataset, name, folder, own));
}

Result<Files> find_files(const std::string& dataset, const std::string& folder) {
  if (dataset.starts_with(kFilePrefix)) {
    const std::string path = dataset.substr(kFilePrefix.size());
    std::error_code unreadable;
    if (path.empty() || !std::filesystem::is_regular_file(path, unreadable)) {
      return user_error(
          fmt::format("data set is \"{}\", accepted: text:FILE of an existing file", dataset));
    }
    return Files{path, ""};
  }
  const bool pair = dataset == "wikitext-2";
  Result<std::string> train = find_file(dataset, folder, pair ? "wiki.train.tokens" : "input.txt");
  if (!train) return train.error();
  if (!pair) return Files{*train, ""};
  Result<std::string> validation = find_file(dataset, folder, "wiki.valid.tokens");
  if (!validation) return validation.error();
  return Files{*train, *validation};
}

}  // namespace

Result<std::vector<uint16_t>> TextSet::numbers_of(const std::string& text) const {
  std::unordered_map<std::string_view, uint16_t> numbers;
  for (const std::string& word : vocabulary)
    numbers.emplace(word, static_cast<uint16_t>(numbers.size()));
  const auto unknown = numbers.find(kUnknown);
  std::vector<uint16_t> tokens;
  for (const std::string_view token : tokens_of(text, unit)) {
    auto known = numbers.find(token);
    if (known == numbers.end()) known = unknown;
    if (known == numbers.end())
      return user_error(fmt::format("\"{}\" does not occur in {}, accepted: its {}",
                                    printable(token), name,
                                    unit == TokenUnit::word ? "words" : "characters"));
    tokens.push_back(known->second);
  }
  if (tokens.empty()) return user_error("it has no words, accepted: one or more");
  return tokens;
}

std::string TextSet::text_of(const std::vector<uint16_t>& tokens) const {
  std::string text;
  for (const uint16_t token : tokens) {
    const std::string& word = vocabulary.at(token);
    const bool ends_line = unit == TokenUnit::word && word == kEndOfLine;
    const bool is_apart = unit == TokenUnit::word && !text.empty() && text.back() != '\n';
    if (is_apart && !ends_line) text += ' ';
    text += ends_line ? "\n" : word;
  }
  return text;
}

std::string TextSet::description() const {
  return fmt::format(
      "{}: {} + {}{}{} different", name, with_commas(train.size()), with_commas(validation.size()),
      unit == TokenUnit::word ? " words, " : " characters, ", with_commas(vocabulary.size()));
}

bool is_text(const std::string& dataset) {
  return dataset.starts_with(kFilePrefix) || dataset == "tiny-shakespeare" ||
         dataset == "wikitext-2";
}

Result<TextSet> read_text_set(const std::string& dataset, const std::string& folder, TokenUnit unit,
                              size_t least_tokens) {
  const Result<Files> files = find_files(dataset, folder);
  if (!files) return files.error();
  std::string text[2];
  Tokens tokens[2];
  for (const int part : {0, 1}) {
    const std::string& path = part == 0 ? files->train : files->validation;
    if (path.empty()) continue;
    const Result<Bytes> bytes = read_whole_file(path);
    if (!bytes) return bytes.error();
    if (bytes->empty()) return world_error(path + " is empty, accepted: a text");
    text[part].assign(bytes->begin(), bytes->end());
    tokens[part] = tokens_of(text[part], unit);
  }
  if (files->validation.empty()) {
    const auto cut = tokens[0].end() - static_cast<std::ptrdiff_t>(tokens[0].size() / kHeldOut);
    tokens[1].assign(cut, tokens[0].end());
    tokens[0].erase(cut, tokens[0].end());
  }
  if (tokens[0].size() < least_tokens || tokens[1].size() < 2) {
    return user_error(fmt::format(
        "data set {} has {} + {}{} to train on and to validate with, accepted: at least {} + 2",
        dataset, with_commas(tokens[0].size()), with_commas(tokens[1].size()),
        unit == TokenUnit::word ? " words" : " characters", with_commas(least_tokens)));
  }
  TextSet set;
  set.name = dataset;
  set.unit = unit;
  number(set, tokens[0], tokens[1]);
  set.speakers = speakers_of(text[0], tokens[0]);
  return set;
}

}  // namespace grapevine
