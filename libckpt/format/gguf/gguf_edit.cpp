// Edits that leave the data where they lie: the header takes the room that the old one had.

#include "libckpt/format/gguf/gguf_file.h"
#include "libckpt/format/gguf/gguf_plan.h"
#include "libckpt/io/edit_journal.h"

namespace ckpt::detail {
namespace {

/// True when the tensors of the file, and no others, are to be written in the order in which they lie there.
bool same_data(const GgufInPlace& old, const std::vector<FlatEntry>& entries) {
  bool there = !entries.empty() && entries.size() == old.tensors.size() && old.tensors[0].offset <= old.file->size();
  if (!there) return false;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Entry& entry = *entries[i].entry;
    bool same = entry.bytes == old.sources[i] && gguf_type(entry) == old.tensors[i].type;
    if (!same) return false;
  }
  return true;
}

/// Another alignment may move them.
bool same_places(const GgufInPlace& old, const GgufPlan& plan) {
  for (std::size_t i = 0; i < old.tensors.size(); ++i) {
    if (plan.header.size() + plan.offsets[i] != old.tensors[i].offset) return false;
  }
  return true;
}

/// Replaces what differs, page by page: a vocabulary of megabytes in front of the names stays as it is.
void replace_pages(FileEdit& edit, core::Bytes old_bytes, core::Bytes new_bytes) {
  constexpr std::size_t kPage = 4096;
  auto differs = [&](std::size_t at) {
    return !std::ranges::equal(old_bytes.subspan(at).first(std::min(kPage, old_bytes.size() - at)),
                               new_bytes.subspan(at).first(std::min(kPage, new_bytes.size() - at)));
  };
  for (std::size_t begin = 0; begin < old_bytes.size();) {
    std::size_t end = begin;
    while (end < old_bytes.size() && differs(end)) end += std::min(kPage, old_bytes.size() - end);
    edit.replace(begin, old_bytes.subspan(begin, end - begin), new_bytes.subspan(begin, end - begin));
    begin = std::max(end, begin + std::min(kPage, old_bytes.size() - begin));
  }
}

/// True when all but the last `moved` tensors stay, and those lie behind the end of the file as they lay at its begin.
bool front_is_moved(const GgufInPlace& old, const GgufPlan& plan, std::size_t moved) {
  std::size_t stay = old.tensors.size() - moved;
  std::uint64_t first = plan.offsets[stay];
  if (plan.header.size() + first < old.file->size()) return false;
  for (std::size_t i = 0; i < stay; ++i) {
    if (plan.header.size() + plan.offsets[i] != old.tensors[i + moved].offset) return false;
  }
  for (std::size_t i = 0; i < moved; ++i) {
    if (plan.offsets[stay + i] - first != old.tensors[i].offset - old.tensors[0].offset) return false;
  }
  return true;
}

/// The edit that gives the header the room of the first tensors, up to byte `end` of the file: they go behind the last.
FileEdit move_front(const GgufInPlace& old, const GgufPlan& plan, std::size_t moved, std::uint64_t end) {
  core::ByteVector front(end);
  old.file->read(0, front);
  std::uint64_t begin = old.tensors[0].offset;
  std::uint64_t place = plan.header.size() + plan.offsets[old.tensors.size() - moved];
  FileEdit edit{.old_size = old.file->size(), .new_size = place + end - begin};
  edit.tail.resize(place - edit.old_size);
  core::append(edit.tail, core::Bytes(front).subspan(begin));
  replace_pages(edit, front, plan.header);
  edit.part = "header and first tensors";
  return edit;
}

/// Where the names have no room: nullopt where more tensors would have to move than a small part of the file.
std::optional<FileEdit> edit_with_front_moved(const GgufInPlace& old, std::vector<FlatEntry> entries,
                                              const std::vector<GgufValue>& values) {
  constexpr std::uint64_t kMostBytes = 32ULL << 20;
  constexpr std::uint64_t kSmallPart = 16;
  std::uint64_t begin = old.tensors[0].offset;
  std::uint64_t most = begin + std::min(kMostBytes, (old.file->size() - begin) / kSmallPart);
  std::uint64_t needed = plan_gguf(entries, values).header.size();
  for (std::size_t moved = 1; moved < old.tensors.size(); ++moved) {
    std::uint64_t end = old.tensors[moved].offset;
    if (end < begin || end > most) return std::nullopt;
    std::ranges::rotate(entries, entries.begin() + 1);
    std::optional<GgufPlan> plan = end < needed ? std::nullopt : plan_gguf_before(entries, values, end);
    if (plan && front_is_moved(old, *plan, moved)) return move_front(old, *plan, moved, end);
  }
  return std::nullopt;
}

}  // namespace

std::optional<FileEdit> edit_gguf(const Checkpoint& checkpoint, const SaveOptions& options) {
  const GgufInPlace& old = *dynamic_cast<const GgufDetail&>(*checkpoint.detail).in_place;
  std::vector<FlatEntry> entries = flat_entries(checkpoint, gguf_obstacle);
  if (!same_data(old, entries)) return std::nullopt;
  std::uint64_t data_begin = old.tensors[0].offset;
  std::vector<GgufValue> values = metadata_values(checkpoint, nullptr);
  std::optional<GgufPlan> plan = plan_gguf_before(entries, values, data_begin);
  if (!plan) {
    std::optional<FileEdit> moved = edit_with_front_moved(old, entries, values);
    if (moved) warn_about_losses(checkpoint, entries, options.report);
    return moved;
  }
  if (!same_places(old, *plan)) return std::nullopt;
  warn_about_losses(checkpoint, entries, options.report);
  core::ByteVector header(data_begin);
  old.file->read(0, header);
  FileEdit edit{.old_size = old.file->size(), .new_size = old.file->size()};
  replace_pages(edit, header, plan->header);
  return edit;
}

}  // namespace ckpt::detail
