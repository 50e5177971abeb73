#pragma once
// A pattern as a tokenizer.json writes it: {"String": "a"} or {"Regex": "a+"}. Internal to the steps.
// Thread safety: a pure function. Use: Pattern p = pattern_in(fields);

#include "zoo/text/fields.h"
#include "zoo/text/pattern.h"

namespace zoo::text {

/// The member "pattern". Errors: those of Fields and of Pattern.
inline Pattern pattern_in(const Fields& fields) {
  const Fields pattern(fields.at("pattern"), "the pattern of " + fields.what(), {"String", "Regex"});
  return pattern.has("Regex") ? Pattern::regex(pattern.text("Regex")) : Pattern::literal(pattern.text("String"));
}

}  // namespace zoo::text
