#include "tools/ckpt/output/row_listing.h"

#include "tools/ckpt/output/listing_parts.h"

namespace cli {
namespace {

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
  Places places(row.tensors.size());
  for (const RowTensor& tensor : row.tensors) {
    listing.elements += core::try_numel(row.shape(tensor)).value_or(0);
    listing.bytes += tensor.bytes;
    places.sources.push_back(tensor.source);
    places.storages.push_back(tensor.storage);
  }
  settle(listing, places, [&](std::size_t i) { return row.tensors[i].bytes; });
  return listing;
}

RowLines::RowLines(const Listing& listing, const TensorRow& row, std::string_view file)
    : listing_(listing), row_(row), file_(ckpt::json_quote(file)) {}

void RowLines::append(std::string& out, std::size_t index) const {
  const RowTensor& tensor = row_.tensors[index];
  Line line(out);
  append_facts(line, {tensor.name, core::name(tensor.dtype), "", row_.shape(tensor), tensor.location, tensor.bytes},
               file_);
  const std::ptrdiff_t tied = listing_.tied_to[index];
  if (tied >= 0) line.text(",\"tied\":", row_.tensors[static_cast<std::size_t>(tied)].name);
  line.rest(unusual(tensor));
  line.rest("}");
}

}  // namespace cli
