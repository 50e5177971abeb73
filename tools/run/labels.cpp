#include "tools/run/labels.h"

#include <algorithm>
#include <set>

#include "libckpt/io/byte_source.h"
#include "libckpt/io/json.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace cli {
namespace {

using ckpt::JsonView;
using ckpt::Value;
using core::Error;
using core::ErrorCode;

constexpr std::uint64_t kMaxText = 256 << 20;

std::string read_text(const std::filesystem::path& path) {
  ckpt::SourcePtr file = ckpt::open_file(path);
  if (file->size() > kMaxText) {
    throw Error(ErrorCode::refused, "a text of " + core::format_size(file->size()) + "; at most 256 MiB are read");
  }
  const core::ByteVector bytes = ckpt::read_all(*file);
  return std::string(core::as_text(bytes));
}

std::string name_in(const JsonView& value) {
  if (value.is(JsonView::Kind::text)) return std::string(value.as_text());
  if (value.is(JsonView::Kind::array)) {
    const auto items = value.items();
    if (!items.empty() && items.back().is(JsonView::Kind::text)) return std::string(items.back().as_text());
  }
  throw Error(ErrorCode::corrupt, "a label is neither a name nor a list that ends in one");
}

std::vector<std::string> labels_in_json(const std::string& text) {
  const ckpt::JsonDocument document = ckpt::JsonDocument::parse(text);
  std::vector<std::string> labels;
  if (document.root().is(JsonView::Kind::array)) {
    for (const JsonView& item : document.root().items()) labels.push_back(name_in(item));
    return labels;
  }
  const std::size_t count = document.root().members().size();
  for (std::size_t i = 0; i < count; ++i) labels.push_back(name_in(document.root().at(std::to_string(i))));
  return labels;
}

std::vector<std::string> labels_in_lines(std::string_view text) {
  std::vector<std::string> labels;
  for (std::string_view line : core::split(text, '\n')) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    labels.emplace_back(line);
  }
  while (!labels.empty() && labels.back().empty()) labels.pop_back();
  return labels;
}

/// Characters of a text, each with the bytes of its UTF-8 form. REQUIRES: UTF-8.
std::vector<std::string> characters(std::string_view text) {
  std::vector<std::string> out;
  for (char c : text) {
    const bool goes_on = (static_cast<unsigned char>(c) & 0xC0) == 0x80;
    if (goes_on && !out.empty()) {
      out.back() += c;
    } else {
      out.emplace_back(1, c);
    }
  }
  return out;
}

/// {"a": 0, "b": 1}; empty unless it numbers texts from 0 without a gap.
std::vector<std::string> from_numbers(const ckpt::Dict& dict) {
  std::vector<std::string> tokens(dict.items.size());
  std::vector<bool> seen(tokens.size());
  for (const auto& [a, b] : dict.items) {
    const Value& number = a.is(Value::Kind::integer) ? a : b;
    const Value& text = a.is(Value::Kind::integer) ? b : a;
    if (!number.is(Value::Kind::integer) || !text.is(Value::Kind::text)) return {};
    const auto at = static_cast<std::uint64_t>(number.as_integer());
    if (at >= tokens.size() || seen[at]) return {};
    seen[at] = true;
    tokens[at] = text.as_text();
  }
  return tokens;
}

std::vector<std::string> from_value(const Value& value) {
  if (value.is(Value::Kind::text)) return characters(value.as_text());
  if (value.is(Value::Kind::dict)) return from_numbers(value.as_dict());
  std::vector<std::string> tokens;
  if (!value.is_sequence()) return tokens;
  for (const Value& item : value.as_list()) {
    if (!item.is(Value::Kind::text)) return {};
    tokens.push_back(item.as_text());
  }
  return tokens;
}

}  // namespace

std::vector<std::string> read_labels(const std::filesystem::path& path) {
  return core::with_context(path.string(), [&] {
    const std::string text = read_text(path);
    const std::size_t start = text.find_first_not_of(" \t\r\n");
    const bool json = start != std::string::npos && (text[start] == '[' || text[start] == '{');
    std::vector<std::string> labels = json ? labels_in_json(text) : labels_in_lines(text);
    if (labels.empty()) throw Error(ErrorCode::corrupt, "has no labels");
    return labels;
  });
}

Vocabulary::Vocabulary(std::vector<std::string> tokens) : tokens_(std::move(tokens)) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) ids_.emplace(tokens_[i], static_cast<std::int64_t>(i));
}

std::vector<std::int64_t> Vocabulary::encode(std::string_view text) const {
  std::vector<std::int64_t> ids;
  for (const std::string& character : characters(text)) {
    auto found = ids_.find(character);
    if (found == ids_.end()) {
      throw Error(ErrorCode::usage, "the vocabulary of " + std::to_string(size()) + " has no " +
                                        core::quote(character) + ", which the prompt has");
    }
    ids.push_back(found->second);
  }
  return ids;
}

Vocabulary characters_of(const std::filesystem::path& path) {
  return core::with_context(path.string(), [&] {
    const std::string text = read_text(path);
    if (!core::is_utf8(text)) throw Error(ErrorCode::corrupt, "no UTF-8 text");
    const std::vector<std::string> all = characters(text);
    const std::set<std::string> distinct(all.begin(), all.end());  // bytes of UTF-8 sort as code points do
    return Vocabulary({distinct.begin(), distinct.end()});
  });
}

Vocabulary vocabulary_in(const ckpt::Value& root) {
  for (const Value* place : {&root, root.find("meta")}) {
    if (place == nullptr) continue;
    for (const char* name : {"itos", "stoi", "chars", "vocab", "vocabulary"}) {
      const Value* value = place->find(name);
      std::vector<std::string> tokens = value == nullptr ? std::vector<std::string>() : from_value(*value);
      if (!tokens.empty()) return Vocabulary(std::move(tokens));
    }
  }
  return Vocabulary({});
}

}  // namespace cli
