#include "zoo/config.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>

#include "libckpt/io/json.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace zoo {

using ckpt::JsonDocument;
using ckpt::JsonView;
using core::Error;
using core::ErrorCode;

namespace {

constexpr std::uintmax_t kLargestFile = 16 << 20;
constexpr std::int64_t kLargestCount = std::numeric_limits<std::int32_t>::max();

std::string joined(std::initializer_list<std::string_view> words) {
  std::string text;
  std::size_t left = words.size();
  for (std::string_view word : words) {
    text += "\"" + std::string(word) + "\"";
    if (--left > 0) text += left == 1 ? " and " : ", ";
  }
  return text;
}

}  // namespace

Config Config::parse(std::string_view json, std::string_view what) {
  const JsonDocument document = JsonDocument::parse(json, {.what = what});
  if (!document.root().is(JsonView::Kind::object)) {
    throw Error(ErrorCode::corrupt, std::string(what) + " is no JSON object");
  }
  Config config;
  const auto members = document.root().members();
  const auto spans = document.member_spans();
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::string_view value = document.text().substr(spans[i].begin, spans[i].end - spans[i].begin);
    config.fields_.emplace_back(std::string(members[i].first), std::string(value));
  }
  return config;
}

Config Config::read(const std::filesystem::path& file) {
  return core::with_context(file.string(), [&] {
    std::error_code fault;
    const std::uintmax_t size = std::filesystem::file_size(file, fault);
    if (fault) throw Error(ErrorCode::io, "cannot be read: " + fault.message());
    if (size > kLargestFile) {
      throw Error(ErrorCode::refused, "has " + core::format_count(size) + " bytes, too many for a configuration");
    }
    std::ifstream in(file, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(in), {}};
    if (!in.good() && !in.eof()) throw Error(ErrorCode::io, "cannot be read");
    return parse(text);
  });
}

const std::string* Config::json_of(std::string_view name) const {
  for (const auto& [field, json] : fields_) {
    if (field == name) return json == "null" ? nullptr : &json;
  }
  return nullptr;
}

bool Config::is_null(std::string_view name) const {
  return std::any_of(fields_.begin(), fields_.end(),
                     [&](const auto& field) { return field.first == name && field.second == "null"; });
}

std::optional<std::string> Config::text_of(std::string_view name) const {
  const std::string* json = json_of(name);
  if (json == nullptr) return std::nullopt;
  const JsonDocument document = JsonDocument::parse(std::string_view(*json));
  if (!document.root().is(JsonView::Kind::text)) return std::nullopt;
  return std::string(document.root().as_text());
}

void Config::set(std::string name, std::string json) {
  for (auto& [field, value] : fields_) {
    if (field != name) continue;
    value = std::move(json);
    return;
  }
  fields_.emplace_back(std::move(name), std::move(json));
}

Config Config::with(const Config& over) const {
  Config both = *this;
  for (const auto& [name, json] : over.fields_) both.set(name, json);
  return both;
}

std::string Config::json() const {
  std::string text;
  for (const auto& [name, value] : fields_) {
    text += (text.empty() ? "{" : ", ") + ckpt::json_quote(name) + ": " + value;
  }
  return text.empty() ? "{}" : text + "}";
}

std::optional<JsonDocument> Fields::take(std::string_view name) {
  read_.emplace(name);
  const std::string* json = config_.json_of(name);
  if (json == nullptr) return std::nullopt;
  return JsonDocument::parse(std::string_view(*json), {.what = "field '" + std::string(name) + "' of " + family_});
}

void Fields::mistaken(std::string_view name, const std::string& wanted) const {
  throw Error(ErrorCode::usage, "field '" + std::string(name) + "' of " + family_ + " has to be " + wanted + ", not " +
                                    core::quote(*config_.json_of(name), 60));
}

void Fields::refuse(std::string_view name, const std::string& why) const {
  throw Error(ErrorCode::unsupported, "field '" + std::string(name) + "' of " + family_ + " " + why);
}

std::int64_t Fields::count(std::string_view name, std::int64_t fallback, std::int64_t least) {
  const auto value = take(name);
  if (!value) return fallback;
  const JsonView root = value->root();
  if (!root.is(JsonView::Kind::integer) || root.as_integer() < least || root.as_integer() > kLargestCount) {
    mistaken(name, "a whole number from " + std::to_string(least) + " to " + std::to_string(kLargestCount));
  }
  return root.as_integer();
}

std::int64_t Fields::depth(std::string_view name, std::int64_t fallback) {
  const std::int64_t layers = count(name, fallback);
  if (layers > kDeepest) mistaken(name, "a whole number from 1 to " + std::to_string(kDeepest));
  return layers;
}

double Fields::number(std::string_view name, double fallback) {
  const auto value = take(name);
  if (!value) return fallback;
  const JsonView root = value->root();
  if (root.is(JsonView::Kind::integer)) return static_cast<double>(root.as_integer());
  if (!root.is(JsonView::Kind::real)) mistaken(name, "a number");
  return root.as_real();
}

double Fields::number(std::string_view name, double fallback, std::int64_t least, std::int64_t most) {
  const double x = number(name, fallback);
  if (!(x >= static_cast<double>(least) && x <= static_cast<double>(most))) {
    mistaken(name, "a number from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return x;
}

bool Fields::flag(std::string_view name, bool fallback) {
  const auto value = take(name);
  if (!value) return fallback;
  if (!value->root().is(JsonView::Kind::boolean)) mistaken(name, "true or false");
  return value->root().as_boolean();
}

std::string Fields::word(std::string_view name, std::string_view fallback) {
  const auto value = take(name);
  if (!value) return std::string(fallback);
  if (!value->root().is(JsonView::Kind::text)) mistaken(name, "a text");
  return std::string(value->root().as_text());
}

std::string Fields::choice(std::string_view name, std::string_view fallback,
                           std::initializer_list<std::string_view> known) {
  std::string chosen = word(name, fallback);
  if (std::find(known.begin(), known.end(), chosen) == known.end()) {
    refuse(name, "is \"" + chosen + "\", and only " + joined(known) + (known.size() == 1 ? " is here" : " are here"));
  }
  return chosen;
}

std::vector<std::int64_t> Fields::counts(std::string_view name, std::vector<std::int64_t> fallback) {
  const auto value = take(name);
  if (!value) return fallback;
  std::vector<JsonView> items{value->root()};
  if (items[0].is(JsonView::Kind::array)) items = value->root().items();
  std::vector<std::int64_t> found;
  for (const JsonView& item : items) {
    const bool fits = item.is(JsonView::Kind::integer) && item.as_integer() >= 1 && item.as_integer() <= kLargestCount;
    if (!fits) mistaken(name, "a list of whole numbers of at least 1");
    found.push_back(item.as_integer());
  }
  if (found.empty()) mistaken(name, "a list of at least one number");
  return found;
}

std::vector<std::int64_t> Fields::depths(std::string_view name, std::vector<std::int64_t> fallback) {
  std::vector<std::int64_t> found = counts(name, std::move(fallback));
  for (std::int64_t depth : found) {
    if (depth > kDeepest) mistaken(name, "a list of whole numbers of at most " + std::to_string(kDeepest));
  }
  return found;
}

std::int64_t Fields::square(std::string_view name, std::int64_t fallback) {
  const std::vector<std::int64_t> sides = counts(name, {fallback});
  for (std::int64_t side : sides) {
    if (side != sides[0]) refuse(name, "has two different sides, and only squares are here");
  }
  return sides[0];
}

std::vector<bool> Fields::flags(std::string_view name, std::vector<bool> fallback) {
  const auto value = take(name);
  if (!value) return fallback;
  if (!value->root().is(JsonView::Kind::array)) mistaken(name, "a list of true and false");
  std::vector<bool> found;
  for (const JsonView& item : value->root().items()) {
    if (!item.is(JsonView::Kind::boolean)) mistaken(name, "a list of true and false");
    found.push_back(item.as_boolean());
  }
  return found;
}

std::optional<JsonDocument> Fields::value(std::string_view name) {
  return take(name);
}

std::int64_t Fields::members(std::string_view name, std::int64_t fallback) {
  const auto value = take(name);
  if (!value) return fallback;
  if (!value->root().is(JsonView::Kind::object)) mistaken(name, "an object");
  return static_cast<std::int64_t>(value->root().members().size());
}

void Fields::only(std::string_view name, std::string_view json) {
  const auto value = take(name);
  if (value && value->text() != json) {
    refuse(name, "is " + std::string(value->text()) + ", and only " + std::string(json) + " is here");
  }
}

void Fields::pass(std::initializer_list<std::string_view> names) {
  for (std::string_view name : names) read_.emplace(name);
}

void Fields::finish() const {
  for (const auto& [name, json] : config_.fields()) {
    if (json != "null" && !read_.contains(name)) refuse(name, "is not known here");
  }
}

void Fields::divides(std::string_view part_name, std::int64_t part, std::string_view whole_name,
                     std::int64_t whole) const {
  if (whole % part == 0) return;
  throw Error(ErrorCode::usage, "field '" + std::string(part_name) + "' of " + family_ + " is " + std::to_string(part) +
                                    ", which does not divide '" + std::string(whole_name) + "', " +
                                    std::to_string(whole));
}

}  // namespace zoo
