#include "tools/ckpt/output/row_listing.h"

#include "tools/ckpt/output/listing_parts.h"

namespace cli {
namespace {

using ckpt::detail::RowReader;
using ckpt::detail::RowTensor;
using ckpt::detail::TensorRow;

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

bool RowLines::append(std::string& out) {
  const RowTensor* tensor = reader_.next();
  if (tensor == nullptr) return false;
  const std::ptrdiff_t tied = listing_.tied_to.empty() ? -1 : listing_.tied_to[next_];
  ++next_;
  if (!tensor->as_before) {
    facts_.clear();
    Line facts(facts_);
    append_facts(facts, {core::name(tensor->dtype), "", tensor->shape, tensor->location, tensor->bytes}, file_);
    flags_ = unusual(*tensor) + "}";
  }
  Line line(out);
  line.text("{\"name\":", tensor->name);
  line.rest(facts_);
  if (tied >= 0) line.text(",\"tied\":", names_[static_cast<std::size_t>(tied)]);
  line.rest(flags_);
  return true;
}

}  // namespace cli
