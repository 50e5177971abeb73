#include "tools/ckpt/output/listing.h"

#include <algorithm>
#include <charconv>

#include "libckpt/children.h"
#include "libckpt/format/format.h"
#include "libckpt/io/distinct.h"
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

/// An object of a list on one line, of which 100,000 are written: put together here, with keys that are plain, it takes
/// a quarter of the time of a writer that looks at every text.
class Line {
 public:
  Line() { text_.reserve(kRoom); }
  /// `separator` and key as they are: `,"bytes":`.
  void text(std::string_view key, std::string_view value) {
    text_ += key;
    text_ += ckpt::json_quote(value);
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
  const std::string& done() { return text_ += '}'; }

 private:
  static constexpr std::size_t kRoom = 240;

  template <class Number>
  void digits(Number number) {
    char buffer[24];
    text_.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, number).ptr);
  }

  std::string text_;
};

template <class Key>
bool all_differ(const Listing& listing, Key key) {
  std::vector<const void*> all;
  all.reserve(listing.tensors.size());
  for (const ckpt::NamedEntry& tensor : listing.tensors) all.push_back(key(*tensor.entry));
  return ckpt::detail::all_differ(all);
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
  Line line;
  line.text("{\"name\":", tensor.name);
  line.text(",\"dtype\":", entry.stored_type.empty() ? ckpt::type_name(entry) : entry.stored_type);
  if (!entry.stored_type.empty()) line.text(",\"read_as\":", ckpt::type_name(entry));
  line.shape(",\"shape\":", ckpt::value_shape(entry));
  line.text(",\"location\":", entry.location);
  line.number(",\"bytes\":", entry.byte_size());
  line.text(",\"file\":", file);
  std::ptrdiff_t tied = listing.tied_to[index];
  if (tied >= 0) line.text(",\"tied\":", listing.tensors[static_cast<std::size_t>(tied)].name);
  line.rest(unusual(entry, spread));
  json.raw(line.done());
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
