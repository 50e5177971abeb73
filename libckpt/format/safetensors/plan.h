#pragma once
// What a safetensors file will look like, decided before a byte is written: which tensors in which order, the header's
// text, the exact size. Thread safety: values; immutable once made. Use: SafetensorsPlan plan = plan_file(tensors,
// metadata, old); plan.write(sink, progress);

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "libckpt/format/safetensors/detail.h"
#include "libckpt/format/safetensors/extra.h"
#include "libckpt/io/byte_sink.h"
#include "libckpt/io/edit_journal.h"

namespace ckpt::detail {

struct FlatTensor {
  std::string name;
  EntryPtr entry;
};

/// The tensors to be written under their flat names, and what has to be noted about them.
struct FlatState {
  std::vector<FlatTensor> tensors;
  Extra extra;
};

/// Flattens a checkpoint: nested names are joined with dots, of tied names the first in the alphabet is kept, what the
/// format cannot hold is left out. Errors: Error(collision) naming the keys when two would become one.
FlatState flatten(const Checkpoint& checkpoint);
/// Everything that flatten() would leave out or change.
std::vector<Obstacle> find_obstacles(const Checkpoint& checkpoint);

/// The metadata of the new file: the checkpoint's own, the notes, hints for readers that know save_model() of the
/// reference library. `old`: metadata of the file it was read from, whose order is kept; null for a new file, which
/// gets "format": "pt" and sorted keys.
TextPairs plan_metadata(const Checkpoint& checkpoint, const Extra& extra, const TextPairs* old);

class SafetensorsPlan {
 public:
  /// `old`: the file that the tensors come from; its order, its spelling and the length of its header are kept as far
  /// as they still fit. Null: the reference library's order. Errors: Error(unsupported) when the header becomes too
  /// long. `slack`: bytes of room behind a header that does not take the place of the old one.
  SafetensorsPlan(std::vector<FlatTensor> tensors, const TextPairs& metadata,
                  std::shared_ptr<const SafetensorsDetail> old, std::uint64_t slack);
  SafetensorsPlan(SafetensorsPlan&&) = default;  // not copyable: placed_ points into tensors_

  std::uint64_t total_size() const { return kLengthBytes + header_.size() + data_size_; }
  /// True when the old file with another header of the same length is the new one.
  bool changes_header_alone() const {
    return old_ && header_.size() == old_->header.text.size() && data_is_unchanged();
  }
  const std::string& header() const { return header_; }
  /// The edit that makes the new file of the old one: the header alone, where it has the room; else with the first
  /// tensors moved behind the last, so that their room is the header's. nullopt where more would move than a small part
  /// of the file, or anything but names and metadata changes.
  std::optional<FileEdit> edit() const;
  /// True when the file would be the old one, byte for byte.
  bool is_unchanged() const { return old_ && header_ == old_->header.text && data_is_unchanged(); }
  void write(ByteSink& sink, const std::function<void(std::uint64_t)>& step) const;

 private:
  struct Placed {
    const FlatTensor* tensor = nullptr;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  /// The same file, but the tensors in the first `front` bytes of the data lie behind all others.
  SafetensorsPlan(const SafetensorsPlan& plan, std::uint64_t front);
  void place();
  void make_header(const TextPairs& metadata);
  std::uint64_t movable_front() const;
  std::uint64_t header_length() const;
  std::string entry_text(const Placed& placed) const;
  bool is_verbatim(const TextPairs& metadata) const;
  bool data_is_unchanged() const;

  std::vector<FlatTensor> tensors_;  ///< in the order of the header
  std::vector<Placed> placed_;       ///< the same order
  std::shared_ptr<const SafetensorsDetail> old_;
  std::uint64_t slack_;
  std::uint64_t front_ = 0;  ///< bytes of the old data that lie at the end now
  TextPairs metadata_;
  std::string header_;
  std::uint64_t text_size_ = 0;  ///< of the header without the spaces behind it
  std::uint64_t data_size_ = 0;
};

}  // namespace ckpt::detail
