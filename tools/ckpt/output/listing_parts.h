#pragma once
// What the lists of a tree (listing.h) and of a row (row_listing.h) have in common: how a line is put together, and
// which tensors are tied. Internal to the two. Thread safety: pure. Use: Line line(out); line.text("{\"name\":", name);

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libckpt/io/json.h"
#include "tools/ckpt/output/listing.h"

namespace cli {

/// An object of a list on one line, of which 100,000 are written: put together here, with keys that are plain, it takes
/// a fraction of the time of a writer that looks at every text.
class Line {
 public:
  explicit Line(std::string& out) : text_(out) {}
  /// `separator` and key as they are: `,"bytes":`.
  void text(std::string_view key, std::string_view value) {
    text_ += key;
    ckpt::append_json_text(text_, value);
  }
  void number(std::string_view key, std::uint64_t value) {
    text_ += key;
    digits(value);
  }
  void shape(std::string_view key, std::span<const std::int64_t> shape) {
    text_ += key;
    char before = '[';
    for (std::int64_t size : shape) {
      text_ += before;
      digits(size);
      before = ',';
    }
    text_ += before == '[' ? "[]" : "]";
  }
  void rest(std::string_view json) { text_ += json; }

 private:
  template <class Number>
  void digits(Number number) {
    char buffer[24];
    text_.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, number).ptr);
  }

  std::string& text_;
};

/// What every line says behind the name.
struct LineFacts {
  std::string_view type;
  std::string_view stored_type;  ///< "" for that
  std::span<const std::int64_t> shape;
  std::string_view location;
  std::uint64_t bytes = 0;
};

/// `file` is JSON.
inline void append_facts(Line& line, const LineFacts& facts, std::string_view file) {
  line.text(",\"dtype\":", facts.stored_type.empty() ? facts.type : facts.stored_type);
  if (!facts.stored_type.empty()) line.text(",\"read_as\":", facts.type);
  line.shape(",\"shape\":", facts.shape);
  line.text(",\"location\":", facts.location);
  line.number(",\"bytes\":", facts.bytes);
  line.rest(",\"file\":");
  line.rest(file);
}

/// Indexes of the tensors that have a key, equal keys together and in file order. A sorted list, because hash tables of
/// 100,000 nodes cost more than reading the file.
template <class Key>
std::vector<std::pair<Key, std::size_t>> sorted(const std::vector<Key>& keys) {
  std::vector<std::pair<Key, std::size_t>> order;
  order.reserve(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] != Key{}) order.emplace_back(keys[i], i);
  }
  std::sort(order.begin(), order.end());
  return order;
}

/// Where tensors are, in their order: addresses, or numbers from 1 on.
template <class Key>
struct Places {
  std::vector<Key> sources;   ///< of their bytes
  std::vector<Key> storages;  ///< that tied tensors share

  explicit Places(std::size_t count) {
    sources.reserve(count);
    storages.reserve(count);
  }
};

/// Bytes of all sources, each once. `bytes_of(index)` are those of a tensor.
template <class Key, class BytesOf>
std::uint64_t distinct_bytes(const std::vector<Key>& sources, const BytesOf& bytes_of) {
  std::uint64_t bytes = 0;
  Key last{};
  for (const auto& [source, index] : sorted(sources)) {
    if (std::exchange(last, source) != source) bytes += bytes_of(index);
  }
  return bytes;
}

template <class Key>
void find_ties(Listing& listing, const std::vector<Key>& storages) {
  auto order = sorted(storages);
  std::size_t first = 0;
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (order[i].first != order[first].first) {
      first = i;
      continue;
    }
    listing.tied_to[order[first].second] = static_cast<std::ptrdiff_t>(order[first].second);
    listing.tied_to[order[i].second] = static_cast<std::ptrdiff_t>(order[first].second);
  }
}

/// Of an Entry or a RowTensor.
template <class Tensor>
bool has_flag(const Tensor& tensor) {
  return tensor.parameter || tensor.requires_grad || tensor.conjugate || tensor.negative;
}

template <class Tensor>
void write_flags(ckpt::JsonWriter& json, const Tensor& tensor) {
  if (tensor.parameter) json.key("parameter").value(true);
  if (tensor.requires_grad) json.key("requires_grad").value(true);
  if (tensor.conjugate) json.key("conjugate").value(true);
  if (tensor.negative) json.key("negative").value(true);
}

/// The members of an object that is open in `json`, each behind a comma.
inline std::string members(ckpt::JsonWriter& json) {
  std::string text = json.take();
  if (text.size() == 1) return "";
  text.front() = ',';
  return text;
}

}  // namespace cli
