#pragma once
// What is remembered of safetensors files so that rewriting changes no byte that need not change: the text of the
// header, where each tensor lay, how tensors were spread over shards. Thread safety: immutable. Use: auto detail =
// std::dynamic_pointer_cast<const SafetensorsDetail>(checkpoint.detail);

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/format/format.h"
#include "libckpt/format/safetensors/header.h"
#include "libckpt/io/object_arena.h"

namespace ckpt::detail {

/// One file.
struct SafetensorsDetail final : FormatDetail {
  const ByteSource* file_read() const override { return file.get(); }

  SourcePtr file;
  SafetensorsHeader header;
  std::vector<SourcePtr> sources;                                    ///< data of header.items
  std::vector<std::pair<const ByteSource*, std::size_t>> by_source;  ///< sorted; place in header.items

  /// The item whose data `entry` still has, or null.
  const SafetensorsItem* find(const Entry& entry) const {
    const ByteSource* source = entry.bytes.get();
    auto found =
        std::lower_bound(by_source.begin(), by_source.end(), std::pair<const ByteSource*, std::size_t>(source, 0));
    return found == by_source.end() || found->first != source ? nullptr : &header.items[found->second];
  }
};

struct SafetensorsShard {
  std::string file_name;
  std::shared_ptr<const SafetensorsDetail> detail;
};

/// An index and its shards.
struct SafetensorsShards final : FormatDetail {
  std::filesystem::path index_path;  ///< where it was read from
  std::string index_text;
  std::string index_name;                ///< "model.safetensors.index.json"
  TextPairs weight_map;                  ///< in the order of the text
  TextPairs metadata;                    ///< text values of the index's metadata, in order
  std::vector<SafetensorsShard> shards;  ///< in order of first mention
  bool lenient = false;                  ///< tensors that the index does not list may be left behind
};

/// Tensors under the names that a header or an index has, which must outlive this.
using NamedTensors = std::vector<std::pair<std::string_view, EntryPtr>>;

/// Reads one file whole: header and a source for each tensor. Errors: as read_safetensors_header().
std::shared_ptr<const SafetensorsDetail> read_safetensors_file(SourcePtr file, const OpenOptions& options);

/// Puts tensors in a dict in the order given, together with what kExtraKey in `metadata` says about them and the names
/// that save_model() of the reference library left out for a tie.
Value make_state_dict(const NamedTensors& tensors, const TextPairs& metadata, const OpenOptions& options);
/// The metadata without the pairs "dropped name": "kept name" that became tensors of `root` beside `tensors`, those of
/// the file; a save writes them again.
TextPairs without_tie_hints(const TextPairs& metadata, const Value& root, const NamedTensors& tensors);
/// About what an entry takes in an arena.
inline constexpr std::uint64_t kBytesOfEntry = sizeof(Entry) + 32;
/// The entry of an item.
EntryPtr make_entry(const SafetensorsItem& item, SourcePtr source, ObjectArena& arena);

Checkpoint read_safetensors(const Input& input, const OpenOptions& options);
Checkpoint read_safetensors_index(const Input& input, const OpenOptions& options);
/// Damage that reading lets pass: tensors that the index does not list.
std::vector<Finding> find_unlisted_tensors(const SafetensorsShards& shards);

}  // namespace ckpt::detail
