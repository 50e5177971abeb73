#include "tools/ckpt/output/listing.h"

#include <algorithm>

#include "libckpt/children.h"
#include "libckpt/format/format.h"
#include "libckpt/io/distinct.h"
#include "tools/ckpt/output/few_of_a_kind.h"
#include "tools/ckpt/output/listing_parts.h"

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

/// In one pass: of 100,000 tensors none is near the processor any more when the next pass comes to it.
void sum_up(Listing& listing) {
  Places<const void*> places(listing.tensors.size());
  for (const ListedTensor& tensor : listing.tensors) {
    const ckpt::Entry& entry = *tensor.entry;
    listing.elements += entry.numel();
    listing.bytes += entry.byte_size();
    places.sources.push_back(entry.bytes.get());
    places.storages.push_back(ckpt::storage_identity(entry));
  }
  if (!ckpt::detail::all_differ(places.sources)) {
    listing.bytes =
        distinct_bytes(places.sources, [&](std::size_t i) { return listing.tensors[i].entry->byte_size(); });
  }
  listing.tied_to.assign(places.storages.size(), -1);
  if (!ckpt::detail::all_differ(places.storages)) find_ties(listing, places.storages);
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

/// What few tensors have, each behind a comma.
std::string unusual(const ckpt::Entry& entry, const ckpt::Spread* spread) {
  if (spread == nullptr && !has_flag(entry) && entry.python_class.empty() && is_plain_view(entry)) return "";
  ckpt::JsonWriter json;
  json.begin_object();
  if (!is_plain_view(entry)) {
    write_shape(json, "strides", entry.view->strides);
    json.key("offset").value(entry.view->offset);
  }
  write_flags(json, entry);
  if (!entry.python_class.empty()) json.key("class").value(entry.python_class);
  if (spread != nullptr) write_pieces(json, spread->of(entry));
  return members(json);
}

LineFacts facts_of(const ckpt::Entry& entry) {
  const std::string_view type = entry.blocks ? std::string_view(entry.blocks->name) : core::name(entry.dtype);
  return {type, entry.stored_type, ckpt::value_shape(entry).span(), entry.location, entry.byte_size()};
}

}  // namespace

std::string_view NameBlocks::keep(std::string_view name) {
  constexpr std::size_t kFirst = 64 << 10;
  constexpr std::size_t kLargest = 8 << 20;
  if (blocks_.empty() || blocks_.back().size() - used_ < name.size()) {
    const std::size_t next = blocks_.empty() ? kFirst : std::min(kLargest, 4 * blocks_.back().size());
    blocks_.emplace_back(std::max(next, name.size()));
    used_ = 0;
  }
  char* kept = reinterpret_cast<char*>(blocks_.back().data()) + used_;
  std::copy(name.begin(), name.end(), kept);
  used_ += name.size();
  return {kept, name.size()};
}

Listing make_listing(const ckpt::Value& root) {
  Listing listing;
  if (root.is(ckpt::Value::Kind::dict)) listing.tensors.reserve(root.as_dict().items.size());
  ckpt::visit_named_tensors(root, [&](std::string_view name, bool kept, const ckpt::Value& tensor) {
    listing.tensors.push_back({kept ? name : listing.names.keep(name), tensor.entry_ptr()});
  });
  listing.values = ckpt::list_plain_values(root);
  sum_up(listing);
  return listing;
}

TensorLines::TensorLines(const Listing& listing, std::string_view file, const ckpt::Spread* spread)
    : listing_(listing), file_(ckpt::json_quote(file)), spread_(spread) {}

void TensorLines::append(std::string& out, std::size_t index) const {
  const ListedTensor& tensor = listing_.tensors[index];
  Line line(out);
  line.text("{\"name\":", tensor.name);
  append_facts(line, facts_of(*tensor.entry), file_);
  std::ptrdiff_t tied = listing_.tied_to[index];
  if (tied >= 0) line.text(",\"tied\":", listing_.tensors[static_cast<std::size_t>(tied)].name);
  line.rest(unusual(*tensor.entry, spread_));
  line.rest("}");
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
