// TextSet: a text as numbered tokens, for language models.
//
// Tokens are characters (bytes) or words: text between white space, and "<eos>" for each line feed.
// The vocabulary comes from the training text. Characters are in the order of their bytes; words
// are in the order of frequency (then of their bytes), at most kMostWords - 1 of them. Other tokens
// become "<unk>", which is in the vocabulary only if needed.
//
// A text may name its speakers, as plays do, with a line that ends with ":", at the start or after
// an empty line ("ROMEO:"). The tokens from there on belong to that speaker.
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
  std::vector<uint16_t> train, validation;  // indices into the vocabulary
  // The speaker of each token of `train`, numbered from 1 by first appearance; 0 before the first
  // name. Empty if the text names fewer than two speakers.
  std::vector<uint16_t> speakers;

  std::string description() const;
  /// The indices of another text's tokens. Error (user): that text has no token, or one that does
  /// not occur in this text.
  Result<std::vector<uint16_t>> numbers_of(const std::string& text) const;
  /// The text of these tokens: words are joined by spaces.
  std::string text_of(const std::vector<uint16_t>& tokens) const;
};

/// Whether read_text_set() reads it, not read_data_set().
bool is_text(const std::string& dataset);

/// dataset: "text:FILE" (its last tenth is the validation text), "tiny-shakespeare" (input.txt,
/// split in the same way) or "wikitext-2" (wiki.train.tokens, wiki.valid.tokens). The files of the
/// named sets are in `folder` or in their own folder inside it; each may be plain, .gz or .xz.
/// Errors: a file is missing (user: where it was sought), cannot be read or is empty (world); a
/// text is too short for `least_tokens` to train on and 2 to validate with (user).
Result<TextSet> read_text_set(const std::string& dataset, const std::string& folder, TokenUnit,
                              size_t least_tokens);

}  // namespace grapevine
