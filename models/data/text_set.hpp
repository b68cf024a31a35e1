// TextSet: a text as numbered tokens, for language models.
//
// Tokens are characters (bytes) or words: text between white space, and "<eos>" for each line feed.
// The vocabulary is built from the training text: characters in the order of their bytes; words by
// frequency (then by their bytes), at most kMostWords - 1 of them. Other tokens become "<unk>",
// which is in the vocabulary only if needed.
//
// A text may name its speakers, as plays do: a line that ends with ":", at the start or after an
// empty line ("ROMEO:"). The tokens from there on belong to that speaker.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/base/result.hpp"

namespace grapevine {

enum class TokenUnit { character, word };

inline constexpr size_t kMostWords = 4096;

struct TextSet {
  std::string name;
  TokenUnit unit = TokenUnit::character;
  std::vector<std::string> vocabulary;
  std::vector<uint16_t> train, validation;  // numbers into the vocabulary
  // The speaker of each token of `train`, numbered from 1 by first appearance; 0 before the first
  // name. Empty if the text names fewer than two speakers.
  std::vector<uint16_t> speakers;

  std::string description() const;
  /// The numbers of another text's tokens. Error (user): that text has no token, or one that does
  /// not occur in this text.
  Result<std::vector<uint16_t>> numbers_of(const std::string& text) const;
  /// The text that these tokens make: words with a space between them.
  std::string text_of(const std::vector<uint16_t>& tokens) const;
};

/// Whether read_text_set() rather than read_data_set() reads it.
bool is_text(const std::string& dataset);

/// dataset: "text:FILE" (its last tenth is the validation text), "tiny-shakespeare" (input.txt, in
/// the same way) or "wikitext-2" (wiki.train.tokens, wiki.valid.tokens), which lie in `folder` or
/// in their own folder there; each plain, .gz or .xz. Errors: a file that is missing (user: looked
/// for where), that cannot be read or is empty (world), a text too short for `least_tokens` to
/// train on and 2 to validate with (user).
Result<TextSet> read_text_set(const std::string& dataset, const std::string& folder, TokenUnit,
                              size_t least_tokens);

}  // namespace grapevine
