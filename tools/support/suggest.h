#pragma once
// The word that was probably meant: "stripprefix" -> "strip-prefix".
// Thread safety: pure. Use: if (auto word = nearest("sl", commands)) ... "did you mean 'ls'?"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cli {

/// The candidate with the least edit distance, when that is at most a third of the word (one edit for short words), or
/// that the word begins. The first of equals.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates);

/// "; did you mean 'ls'?" or "".
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace cli
