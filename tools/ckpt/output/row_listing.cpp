#include "tools/ckpt/output/row_listing.h"

#include <algorithm>
#include <cstring>

#include "tools/ckpt/output/listing_parts.h"

namespace cli {
namespace {

using ckpt::detail::RowReader;
using ckpt::detail::RowTensor;
using ckpt::detail::TensorRow;

/// Behind a line and before the name of the next one.
constexpr std::string_view kBetween = ",{\"name\":\"";

/// What few tensors have, each behind a comma.
std::string unusual(const RowTensor& tensor) {
  if (!has_flag(tensor)) return "";
  ckpt::JsonWriter json;
  json.begin_object();
  write_flags(json, tensor);
  return members(json);
}

}  // namespace

Listing list_row(const ckpt::Value& rest, const TensorRow& row) {
  Listing listing;
  // An empty dict is what is left of one that was none.
  if (!rest.as_dict().items.empty()) listing.values = ckpt::list_plain_values(rest);
  listing.elements = row.elements;
  listing.bytes = row.bytes;
  if (row.all_differ) return listing;
  Places<std::uint64_t> places(row.count);
  std::vector<std::uint64_t> bytes;
  RowReader reader(row);
  while (const RowTensor* tensor = reader.next()) {
    places.sources.push_back(tensor->source);
    places.storages.push_back(tensor->storage);
    bytes.push_back(tensor->bytes);
  }
  listing.bytes = distinct_bytes(places.sources, [&](std::size_t i) { return bytes[i]; });
  listing.tied_to.assign(row.count, -1);
  find_ties(listing, places.storages);
  return listing;
}

RowLines::RowLines(const Listing& listing, const TensorRow& row, std::string_view file)
    : listing_(listing), reader_(row), file_(ckpt::json_quote(file)) {
  if (listing.tied_to.empty()) return;
  RowReader names(row);
  while (const RowTensor* tensor = names.next()) names_.push_back(tensor->name);
}

void RowLines::note_facts(const RowTensor& tensor) {
  facts_.clear();
  Line facts(facts_);
  append_facts(facts, {core::name(tensor.dtype), "", tensor.shape, tensor.location, tensor.bytes}, file_);
  flags_ = unusual(tensor) + "}";
  behind_ = "\"" + facts_ + flags_ + std::string(kBetween);
}

std::string_view RowLines::take() {
  constexpr std::size_t kPiece = 128 << 10;  // in one write each
  lines_.resize(std::max(lines_.size(), kBetween.size()));
  const std::string_view before = next_ == 0 ? kBetween.substr(1) : kBetween;
  lines_.replace(0, before.size(), before);
  used_ = before.size();
  const RowTensor* tensor = nullptr;
  while (used_ < kPiece && (tensor = reader_.next()) != nullptr) {
    if (!tensor->as_before) note_facts(*tensor);
    add(tensor->name, listing_.tied_to.empty() ? -1 : listing_.tied_to[next_]);
    ++next_;
  }
  return used_ == before.size() ? "" : std::string_view(lines_).substr(0, used_ - kBetween.size());
}

void RowLines::add(std::string_view name, std::ptrdiff_t tied) {
  if (tied >= 0 || !ckpt::is_plain_json(name)) return add_unlike(name, tied);
  const std::size_t end = used_ + name.size() + behind_.size();
  if (end > lines_.size()) lines_.resize(2 * end);
  std::memcpy(lines_.data() + used_, name.data(), name.size());
  std::memcpy(lines_.data() + used_ + name.size(), behind_.data(), behind_.size());
  used_ = end;
}

void RowLines::add_unlike(std::string_view name, std::ptrdiff_t tied) {
  std::string text;
  Line line(text);
  line.text("", name);
  line.rest(facts_);
  if (tied >= 0) line.text(",\"tied\":", names_[static_cast<std::size_t>(tied)]);
  line.rest(flags_);
  line.rest(kBetween);
  const std::string_view unquoted = std::string_view(text).substr(1);  // that quote stands before it
  if (used_ + unquoted.size() > lines_.size()) lines_.resize(used_ + unquoted.size());
  lines_.replace(used_, unquoted.size(), unquoted);
  used_ += unquoted.size();
}

}  // namespace cli
