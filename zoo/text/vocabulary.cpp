#include "zoo/text/vocabulary.h"

#include <algorithm>
#include <vector>

#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "zoo/text/fields.h"

namespace zoo::text {

using core::Error;
using core::ErrorCode;

Vocabulary Vocabulary::from_json(ckpt::JsonView object) {
  if (!object.is(ckpt::JsonView::Kind::object)) throw Error(ErrorCode::corrupt, "the vocabulary is no JSON object");
  Vocabulary vocabulary;
  for (const auto& [text, id] : object.members()) {
    vocabulary.add(text, text::id_of(id, "what the vocabulary gives " + core::quote(text, 60)));
  }
  return vocabulary;
}

void Vocabulary::add(std::string_view text, std::int64_t id) {
  const auto [at, added] = ids_.emplace(text, id);
  if (!added) throw Error(ErrorCode::corrupt, "the vocabulary has " + core::quote(text, 60) + " twice");
  const auto [other, alone] = texts_.emplace(id, &at->first);
  if (!alone) {
    throw Error(ErrorCode::corrupt, "the vocabulary gives number " + std::to_string(id) + " to " +
                                        core::quote(*other->second, 60) + " and to " + core::quote(text, 60));
  }
  end_ = std::max(end_, id + 1);
}

std::optional<std::int64_t> Vocabulary::id_of(std::string_view text) const {
  const auto found = ids_.find(text);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

const std::string* Vocabulary::text_of(std::int64_t id) const {
  const auto found = texts_.find(id);
  return found == texts_.end() ? nullptr : found->second;
}

std::optional<std::vector<std::int64_t>> Vocabulary::ids_of_bytes(std::string_view bytes) const {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::vector<std::int64_t> out;
  for (char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    const auto id = id_of(std::string{'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'});
    if (!id) return std::nullopt;
    out.push_back(*id);
  }
  return out;
}

}  // namespace zoo::text
