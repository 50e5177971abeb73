#pragma once
// The parts of a glob with captures (pattern.h). Internal.
// Thread safety: pure. Use: for (const GlobPart& part : parse_glob("enc.{#i}.*")) ...

#include <string>
#include <string_view>
#include <vector>

namespace ckpt::detail {

struct GlobPart {
  enum class Kind : std::uint8_t {
    literal,  ///< text, unescaped
    star,     ///< "*" or "**"
    one,      ///< "?"
    set,      ///< text is "[a-z]"
    field,    ///< "{name}" or, with `number`, "{#name}"; text is the name
  };
  Kind kind;
  std::string text;
  bool number = false;
};

/// Neighbouring literals are one part. Error(usage) for a '{' without its '}' and for a name that is none.
std::vector<GlobPart> parse_glob(std::string_view text);

}  // namespace ckpt::detail
