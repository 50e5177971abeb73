#include "zoo/text/fields.h"

#include <algorithm>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace zoo::text {
namespace {

using ckpt::JsonView;
using core::Error;
using core::ErrorCode;
using Kind = JsonView::Kind;

bool says_nothing(const JsonView& value) {
  return value.is(Kind::null) || (value.is(Kind::boolean) && !value.as_boolean());
}

}  // namespace

Fields::Fields(JsonView object, std::string what) : object_(object), what_(std::move(what)) {
  if (!object.is(Kind::object)) throw Error(ErrorCode::corrupt, what_ + " is no JSON object");
}

Fields::Fields(JsonView object, std::string what, std::initializer_list<std::string_view> known)
    : Fields(object, std::move(what)) {
  for (const auto& [key, value] : object.members()) {
    if (std::find(known.begin(), known.end(), key) != known.end() || says_nothing(value)) continue;
    throw Error(ErrorCode::unsupported, what_ + " has a field " + core::quote(key) + ", which is not here");
  }
}

bool Fields::has(std::string_view key) const {
  return object_.has(key) && !object_.at(key).is(Kind::null);
}

JsonView Fields::at(std::string_view key) const {
  if (!has(key)) throw Error(ErrorCode::corrupt, what_ + " has no field " + core::quote(key));
  return object_.at(key);
}

std::string Fields::text(std::string_view key) const {
  return text_of(at(key), core::quote(key) + " of " + what_);
}

std::string Fields::text_or(std::string_view key, std::string_view otherwise) const {
  return has(key) ? text(key) : std::string(otherwise);
}

bool Fields::flag_or(std::string_view key, bool otherwise) const {
  if (!has(key)) return otherwise;
  if (!at(key).is(Kind::boolean))
    throw Error(ErrorCode::corrupt, core::quote(key) + " of " + what_ + " is neither true nor false");
  return at(key).as_boolean();
}

std::uint64_t Fields::count_or(std::string_view key, std::uint64_t otherwise) const {
  if (!has(key)) return otherwise;
  if (!at(key).is_count())
    throw Error(ErrorCode::corrupt, core::quote(key) + " of " + what_ + " is no whole number from 0");
  return at(key).as_unsigned();
}

std::vector<JsonView> Fields::list(std::string_view key) const {
  if (!at(key).is(Kind::array)) throw Error(ErrorCode::corrupt, core::quote(key) + " of " + what_ + " is no list");
  return at(key).items();
}

std::string text_of(JsonView view, const std::string& what) {
  if (!view.is(Kind::text)) throw Error(ErrorCode::corrupt, what + " is no text");
  return std::string(view.as_text());
}

std::int64_t id_of(JsonView view, const std::string& what) {
  constexpr std::int64_t kEnd = std::int64_t{1} << 31;
  if (!view.is_count() || view.as_integer() >= kEnd) {
    throw Error(ErrorCode::corrupt, what + " is no number of a token (a whole number from 0 to 2147483647)");
  }
  return view.as_integer();
}

}  // namespace zoo::text
