#include "tools/ckpt/output/listing.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "libckpt/children.h"
#include "libckpt/format/format.h"
#include "libckpt/io/distinct.h"
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
  void shape(std::string_view key, const core::Shape& shape) {
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

/// Indexes of the tensors that have a key, equal keys together and in file order. A sorted list, because hash tables of
/// 100,000 nodes cost more than reading the file.
std::vector<std::pair<const void*, std::size_t>> sorted(const std::vector<const void*>& keys) {
  std::vector<std::pair<const void*, std::size_t>> order;
  order.reserve(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] != nullptr) order.emplace_back(keys[i], i);
  }
  std::sort(order.begin(), order.end());
  return order;
}

/// Bytes of all sources, each once.
std::uint64_t distinct_bytes(const Listing& listing, const std::vector<const void*>& sources) {
  std::uint64_t bytes = 0;
  const void* last = nullptr;
  for (const auto& [source, index] : sorted(sources)) {
    if (std::exchange(last, source) != source) bytes += listing.tensors[index].entry->byte_size();
  }
  return bytes;
}

void find_ties(Listing& listing, const std::vector<const void*>& storages) {
  if (ckpt::detail::all_differ(storages)) return;
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

/// In one pass: of 100,000 tensors none is near the processor any more when the next pass comes to it.
void sum_up(Listing& listing) {
  std::vector<const void*> sources;
  std::vector<const void*> storages;
  sources.reserve(listing.tensors.size());
  storages.reserve(listing.tensors.size());
  for (const ListedTensor& tensor : listing.tensors) {
    const ckpt::Entry& entry = *tensor.entry;
    listing.elements += entry.numel();
    listing.bytes += entry.byte_size();
    sources.push_back(entry.bytes.get());
    storages.push_back(ckpt::storage_identity(entry));
  }
  if (!ckpt::detail::all_differ(sources)) listing.bytes = distinct_bytes(listing, sources);
  listing.tied_to.assign(listing.tensors.size(), -1);
  find_ties(listing, storages);
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

bool is_unusual(const ckpt::Entry& entry) {
  return entry.parameter || entry.requires_grad || entry.conjugate || entry.negative || !entry.python_class.empty() ||
         !is_plain_view(entry);
}

/// What few tensors have, each behind a comma.
std::string unusual(const ckpt::Entry& entry, const ckpt::Spread* spread) {
  if (spread == nullptr && !is_unusual(entry)) return "";
  ckpt::JsonWriter json;
  json.begin_object();
  if (!is_plain_view(entry)) {
    write_shape(json, "strides", entry.view->strides);
    json.key("offset").value(entry.view->offset);
  }
  if (entry.parameter) json.key("parameter").value(true);
  if (entry.requires_grad) json.key("requires_grad").value(true);
  if (entry.conjugate) json.key("conjugate").value(true);
  if (entry.negative) json.key("negative").value(true);
  if (!entry.python_class.empty()) json.key("class").value(entry.python_class);
  if (spread != nullptr) write_pieces(json, spread->of(entry));
  std::string text = json.take();
  if (text.size() > 1) text.front() = ',';
  return text.size() > 1 ? text : "";
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
  const ckpt::Entry& entry = *tensor.entry;
  Line line(out);
  line.text("{\"name\":", tensor.name);
  line.text(",\"dtype\":", entry.stored_type.empty() ? ckpt::type_name(entry) : entry.stored_type);
  if (!entry.stored_type.empty()) line.text(",\"read_as\":", ckpt::type_name(entry));
  line.shape(",\"shape\":", ckpt::value_shape(entry));
  line.text(",\"location\":", entry.location);
  line.number(",\"bytes\":", entry.byte_size());
  line.rest(",\"file\":");
  line.rest(file_);
  std::ptrdiff_t tied = listing_.tied_to[index];
  if (tied >= 0) line.text(",\"tied\":", listing_.tensors[static_cast<std::size_t>(tied)].name);
  line.rest(unusual(entry, spread_));
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
