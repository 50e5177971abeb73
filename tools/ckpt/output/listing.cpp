#include "tools/ckpt/output/listing.h"

#include <algorithm>

#include "libckpt/children.h"
#include "libckpt/format/format.h"
#include "libckpt/transform/selector.h"
#include "tools/ckpt/output/few_of_a_kind.h"

namespace cli {
namespace {

/// Strides and offset where they say more than the shape.
bool is_plain_view(const ckpt::Entry& entry) {
  return !entry.view || (entry.view->offset == 0 && entry.view->strides == core::contiguous_strides(entry.shape));
}

void write_shape(ckpt::JsonWriter& json, std::string_view key, const core::Shape& shape) {
  json.key(key).begin_array();
  for (std::int64_t size : shape) json.value(size);
  json.end_array();
}

void write_unusual(ckpt::JsonWriter& json, const ckpt::Entry& entry) {
  if (!is_plain_view(entry)) {
    write_shape(json, "strides", entry.view->strides);
    json.key("offset").value(entry.view->offset);
  }
  if (entry.parameter) json.key("parameter").value(true);
  if (entry.requires_grad) json.key("requires_grad").value(true);
  if (entry.conjugate) json.key("conjugate").value(true);
  if (entry.negative) json.key("negative").value(true);
  if (!entry.python_class.empty()) json.key("class").value(entry.python_class);
}

template <class Key>
bool all_differ(const Listing& listing, Key key) {
  std::vector<const void*> all;
  all.reserve(listing.tensors.size());
  for (const ckpt::NamedEntry& tensor : listing.tensors) all.push_back(key(*tensor.entry));
  std::sort(all.begin(), all.end());
  return std::adjacent_find(all.begin(), all.end()) == all.end();
}

/// Indexes of the tensors that have `key`, equal keys together and in file order. A sorted list, because hash tables of
/// 100,000 nodes cost more than reading the file.
template <class Key>
std::vector<std::pair<const void*, std::size_t>> sorted_by(const Listing& listing, Key key) {
  std::vector<std::pair<const void*, std::size_t>> order;
  order.reserve(listing.tensors.size());
  for (std::size_t i = 0; i < listing.tensors.size(); ++i) {
    if (const void* found = key(*listing.tensors[i].entry)) order.emplace_back(found, i);
  }
  if (!all_differ(listing, key)) std::sort(order.begin(), order.end());
  return order;
}

void count_bytes(Listing& listing) {
  auto order = sorted_by(listing, [](const ckpt::Entry& entry) { return entry.bytes.get(); });
  for (std::size_t i = 0; i < order.size(); ++i) {
    const ckpt::Entry& entry = *listing.tensors[order[i].second].entry;
    if (i > 0 && order[i].first == order[i - 1].first) continue;
    listing.bytes += entry.byte_size();
    const std::string& name = listing.tensors[order[i].second].name;
    if (ckpt::tensor_kind(name, entry) == ckpt::TensorKind::parameter) listing.parameters += entry.numel();
  }
  for (const ckpt::NamedEntry& tensor : listing.tensors) listing.elements += tensor.entry->numel();
}

void find_ties(Listing& listing) {
  listing.tied_to.assign(listing.tensors.size(), -1);
  auto order = sorted_by(listing, ckpt::storage_identity);
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

void write_strings(ckpt::JsonWriter& json, std::string_view key, const std::vector<std::string>& texts) {
  json.key(key).begin_array();
  for (const std::string& text : texts) json.value(text);
  json.end_array();
}

/// The sentences, and under "more_KEY" the number of those that are only counted.
void write_few(ckpt::JsonWriter& json, const std::string& key, const std::vector<std::string>& texts) {
  std::vector<Said> all = few_of_a_kind(texts);
  json.key(key).begin_array();
  for (const Said& said : all) {
    if (said.more == 0) json.value(said.text);
  }
  json.end_array();
  if (std::uint64_t more = counted_only(all); more > 0) json.key("more_" + key).value(more);
}

void write_pieces(ckpt::JsonWriter& json, const std::vector<ckpt::SpreadPiece>& pieces) {
  json.key("chunks").begin_array();
  for (const ckpt::SpreadPiece& piece : pieces) {
    json.begin_object();
    write_shape(json, "offsets", piece.offsets);
    write_shape(json, "sizes", piece.sizes);
    json.key("part").value(piece.file);
    json.key("at").value(piece.offset);
    json.key("stored").value(piece.length);
    json.end_object();
  }
  json.end_array();
}

}  // namespace

Listing make_listing(const ckpt::Value& root) {
  Listing listing;
  // list_entries() without the paths, of which nothing is shown.
  ckpt::visit_tensors(root, [&](std::string_view name, const ckpt::Value& tensor) {
    listing.tensors.push_back({.path = {}, .name = std::string(name), .entry = tensor.entry_ptr()});
  });
  listing.values = ckpt::list_plain_values(root);
  count_bytes(listing);
  find_ties(listing);
  return listing;
}

void write_tensor(ckpt::JsonWriter& json, const Listing& listing, std::size_t index, std::string_view file,
                  const ckpt::Spread* spread) {
  const ckpt::NamedEntry& tensor = listing.tensors[index];
  const ckpt::Entry& entry = *tensor.entry;
  json.begin_object();
  json.key("name").value(tensor.name);
  json.key("dtype").value(entry.stored_type.empty() ? ckpt::type_name(entry) : entry.stored_type);
  if (!entry.stored_type.empty()) json.key("read_as").value(ckpt::type_name(entry));
  write_shape(json, "shape", ckpt::value_shape(entry));
  json.key("location").value(entry.location);
  json.key("bytes").value(entry.byte_size());
  json.key("file").value(file);
  std::ptrdiff_t tied = listing.tied_to[index];
  if (tied >= 0) json.key("tied").value(listing.tensors[static_cast<std::size_t>(tied)].name);
  write_unusual(json, entry);
  if (spread != nullptr) write_pieces(json, spread->of(entry));
  json.end_object();
}

void write_metadata(ckpt::JsonWriter& json, const ckpt::Checkpoint& checkpoint) {
  json.key("metadata").begin_object();
  for (const auto& [key, text] : checkpoint.metadata) json.key(key).value(text);
  json.end_object();
}

void write_report(ckpt::JsonWriter& json, const ckpt::Report& report) {
  write_strings(json, "dropped", report.dropped);
  write_few(json, "warnings", report.warnings);
  write_few(json, "relaxations", report.relaxations);
}

std::string format_title(const ckpt::Checkpoint& checkpoint) {
  const ckpt::Format* format = ckpt::find_format(checkpoint.format);
  return format == nullptr ? checkpoint.format : std::string(format->title);
}

}  // namespace cli
