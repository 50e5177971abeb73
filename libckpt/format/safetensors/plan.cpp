#include "libckpt/format/safetensors/plan.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "libckpt/io/json.h"
#include "libckpt/limits.h"
#include "libcore/base/checked_math.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

constexpr std::uint64_t kCopyStep = 64ULL << 20;
constexpr std::uint64_t kAlignment = 8;
constexpr std::uint64_t kBlock = 4096;

/// Large types first, so that every tensor is aligned by itself; names in byte order.
void sort_canonically(std::vector<FlatTensor>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const FlatTensor& a, const FlatTensor& b) {
    int rank_a = safetensors_rank(a.entry->dtype);
    int rank_b = safetensors_rank(b.entry->dtype);
    return rank_a != rank_b ? rank_a > rank_b : a.name < b.name;
  });
}

/// F4 sizes count values, of which an element holds two.
core::Shape stored_shape(const Entry& entry) {
  core::Shape shape = entry.shape;
  if (entry.dtype == core::DType::f4_e2m1fn_x2) shape.data()[shape.size() - 1] *= 2;
  return shape;
}

bool same_tensor(const SafetensorsItem& item, const Entry& entry) {
  return item.dtype == entry.dtype && item.shape == entry.shape;
}

const std::string* value_of(const TextPairs& pairs, std::string_view key) {
  auto found = std::find_if(pairs.begin(), pairs.end(), [&](const auto& pair) { return pair.first == key; });
  return found == pairs.end() ? nullptr : &found->second;
}

/// What the file had beside our own notes. Hints that an earlier save left and that its notes account for are stale:
/// the new notes bring their own.
TextPairs without_old_notes(const TextPairs& metadata) {
  const std::string* note = value_of(metadata, kExtraKey);
  std::optional<Extra> noted = note == nullptr ? std::nullopt : parse_extra(*note);
  if (!noted) return metadata;
  std::set<TextPairs::value_type> stale(noted->tied.begin(), noted->tied.end());
  TextPairs kept;
  for (const auto& pair : metadata) {
    if (pair.first != kExtraKey && !stale.contains(pair)) kept.push_back(pair);
  }
  return kept;
}

std::set<TextPairs::value_type> ties_noted_in(const TextPairs* metadata) {
  const std::string* note = metadata == nullptr ? nullptr : value_of(*metadata, kExtraKey);
  std::optional<Extra> noted = note == nullptr ? std::nullopt : parse_extra(*note);
  if (!noted) return {};
  return {noted->tied.begin(), noted->tied.end()};
}

/// Keys that the old header has in its order, new ones behind them.
void sort_as(const TextPairs& old, TextPairs& wanted) {
  std::unordered_map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < old.size(); ++i) places.emplace(old[i].first, i);
  auto place = [&](const auto& pair) {
    auto found = places.find(pair.first);
    return found == places.end() ? old.size() : found->second;
  };
  std::stable_sort(wanted.begin(), wanted.end(), [&](const auto& a, const auto& b) { return place(a) < place(b); });
}

}  // namespace

TextPairs plan_metadata(const Checkpoint& checkpoint, const Extra& extra, const TextPairs* old) {
  TextPairs wanted = without_old_notes(checkpoint.metadata);
  std::unordered_set<std::string> named;
  for (const auto& [key, text] : wanted) named.insert(key);
  auto add = [&](const std::string& key, auto&& text) {
    if (named.insert(key).second) wanted.emplace_back(key, text());
  };
  // A tie is a note of ours only where the hint has no place, or the file had it so: nothing changes that need not.
  std::set<TextPairs::value_type> before = ties_noted_in(old);
  Extra noted = extra;
  std::erase_if(noted.tied, [&](const auto& tie) {
    if (tie.first == "format" || tie.first.empty() || named.contains(tie.first)) return false;
    add(tie.first, [&] { return tie.second; });
    return !before.contains(tie);
  });
  if (!noted.empty()) add(std::string(kExtraKey), [&] { return extra_json(noted); });
  if (old == nullptr) {
    add("format", [] { return "pt"; });
    std::sort(wanted.begin(), wanted.end());
  } else {
    sort_as(*old, wanted);
  }
  return wanted;
}

SafetensorsPlan::SafetensorsPlan(std::vector<FlatTensor> tensors, const TextPairs& metadata,
                                 std::shared_ptr<const SafetensorsDetail> old, std::uint64_t slack)
    : tensors_(std::move(tensors)), old_(std::move(old)), slack_(slack), metadata_(metadata) {
  if (!old_) sort_canonically(tensors_);
  place();
  make_header(metadata);
}

SafetensorsPlan::SafetensorsPlan(const SafetensorsPlan& plan, std::uint64_t front)
    : tensors_(plan.tensors_), old_(plan.old_), slack_(0), front_(front), metadata_(plan.metadata_) {
  place();
  make_header(metadata_);
}

void SafetensorsPlan::place() {
  for (const FlatTensor& tensor : tensors_) placed_.push_back({&tensor, 0, 0});
  std::vector<Placed*> by_data;
  for (Placed& placed : placed_) by_data.push_back(&placed);
  auto old_place = [&](const Placed* placed) {
    const SafetensorsItem* item = old_ ? old_->find(*placed->tensor->entry) : nullptr;
    return item == nullptr ? std::pair(UINT64_MAX, UINT64_MAX) : std::pair(item->begin, item->end);
  };
  if (old_) {
    std::stable_sort(by_data.begin(), by_data.end(),
                     [&](const Placed* a, const Placed* b) { return old_place(a) < old_place(b); });
    auto stays = [&](const Placed* placed) { return front_ == 0 || old_place(placed).second > front_; };
    std::stable_partition(by_data.begin(), by_data.end(), stays);
  }
  for (Placed* placed : by_data) {
    placed->begin = data_size_;
    data_size_ = core::checked_add(data_size_, placed->tensor->entry->byte_size());
    placed->end = data_size_;
  }
}

std::string SafetensorsPlan::entry_text(const Placed& placed) const {
  const Entry& entry = *placed.tensor->entry;
  const SafetensorsItem* item = old_ ? old_->find(entry) : nullptr;
  if (item != nullptr && item->begin == placed.begin && item->end == placed.end && same_tensor(*item, entry)) {
    return old_->header.text.substr(item->text.begin, item->text.end - item->text.begin);
  }
  JsonWriter out;
  out.begin_object().key("dtype").value(safetensors_name(entry.dtype)).key("shape").begin_array();
  for (std::int64_t size : stored_shape(entry)) out.value(size);
  out.end_array().key("data_offsets").begin_array().value(placed.begin).value(placed.end).end_array().end_object();
  return out.take();
}

/// True when the old header says exactly what the new one must say.
bool SafetensorsPlan::is_verbatim(const TextPairs& metadata) const {
  if (!old_ || metadata != old_->header.metadata || placed_.size() != old_->header.items.size()) return false;
  for (std::size_t i = 0; i < placed_.size(); ++i) {
    const SafetensorsItem& item = old_->header.items[i];
    const Placed& placed = placed_[i];
    if (old_->find(*placed.tensor->entry) != &item || item.name != placed.tensor->name) return false;
    if (item.begin != placed.begin || !same_tensor(item, *placed.tensor->entry)) return false;
  }
  return true;
}

/// Where the new text fits in the old place, it takes it, so that a later edit finds room again. Where it does not, the
/// tensors move by whole blocks, which some file systems share between the old file and the new one.
std::uint64_t SafetensorsPlan::header_length() const {
  std::uint64_t old_length = old_ ? old_->header.text.size() : 0;
  if (header_.size() <= old_length + front_) return old_length + front_;
  std::uint64_t exact = core::align_up(header_.size(), kAlignment);
  std::uint64_t limit = Limits().max_safetensors_header;
  if (slack_ == 0 || slack_ > limit || exact > limit - slack_) return exact;
  std::uint64_t wanted = exact + slack_;
  std::uint64_t length = old_ ? old_length + core::align_up(wanted - old_length, kBlock)
                              : core::align_up(kLengthBytes + wanted, kBlock) - kLengthBytes;
  return length > limit ? exact : length;
}

void SafetensorsPlan::make_header(const TextPairs& metadata) {
  if (is_verbatim(metadata)) {
    header_ = old_->header.text;
    return;
  }
  JsonWriter out;
  out.begin_object();
  bool same_metadata = old_ && metadata == old_->header.metadata;
  if (same_metadata) {
    TextSpan span = old_->header.metadata_text;
    if (span.end > 0) out.key(kMetadataKey).raw(old_->header.text.substr(span.begin, span.end - span.begin));
  } else if (!metadata.empty()) {
    out.key(kMetadataKey).begin_object();
    for (const auto& [key, value] : metadata) out.key(key).value(value);
    out.end_object();
  }
  for (const Placed& placed : placed_) out.key(placed.tensor->name).raw(entry_text(placed));
  out.end_object();
  header_ = out.take();
  text_size_ = header_.size();
  std::uint64_t length = header_length();
  if (length > Limits().max_safetensors_header) {
    throw core::Error(core::ErrorCode::unsupported,
                      "the header would be " + core::format_size(length) + " long, which other readers refuse");
  }
  header_.resize(length, ' ');
}

/// The data as a whole lie as they lay before: one copy inside the kernel does.
bool SafetensorsPlan::data_is_unchanged() const {
  if (!old_ || data_size_ != old_->file->size() - old_->header.data_offset()) return false;
  return std::all_of(placed_.begin(), placed_.end(), [&](const Placed& placed) {
    const SafetensorsItem* item = old_->find(*placed.tensor->entry);
    return item != nullptr && item->begin == placed.begin && item->end == placed.end;
  });
}

/// How many bytes of the data, up to the end of a tensor, make enough room for the header; 0 where none do. Only a
/// small part of the file, or copying it is no worse; and all tensors stay aligned as they were.
std::uint64_t SafetensorsPlan::movable_front() const {
  constexpr std::uint64_t kMostBytes = 32ULL << 20;
  constexpr std::uint64_t kSmallPart = 16;
  constexpr std::uint64_t kLongerOffsets = 32;  // of the entry of a tensor that moves
  std::uint64_t old_length = old_->header.text.size();
  std::uint64_t most = std::min(kMostBytes, data_size_ / kSmallPart);
  if (old_length % kAlignment != 0 || data_size_ % kAlignment != 0) return 0;
  std::vector<std::uint64_t> ends;
  for (const Placed& placed : placed_) ends.push_back(placed.end);
  std::ranges::sort(ends);
  std::uint64_t moved = 0;
  for (std::uint64_t end : ends) {
    if (end > most) return 0;
    ++moved;
    bool enough = old_length + end >= text_size_ + moved * kLongerOffsets;
    if (enough && end % kAlignment == 0) return end;
  }
  return 0;
}

std::optional<FileEdit> SafetensorsPlan::edit() const {
  if (!data_is_unchanged()) return std::nullopt;
  std::uint64_t size = old_->file->size();
  FileEdit edit{.old_size = size, .new_size = size};
  if (changes_header_alone()) {
    edit.replace(kLengthBytes, core::as_bytes(old_->header.text), core::as_bytes(header_));
    return edit;
  }
  std::uint64_t front = movable_front();
  if (front == 0) return std::nullopt;
  const SafetensorsPlan moved(*this, front);
  std::uint64_t old_begin = old_->header.data_offset();
  if (moved.header_.size() != old_->header.text.size() + front) return std::nullopt;
  core::ByteVector old_bytes(old_begin + front);
  old_->file->read(0, old_bytes);
  core::ByteVector new_bytes;
  core::append_le<std::uint64_t>(new_bytes, moved.header_.size());
  core::append(new_bytes, core::as_bytes(moved.header_));
  edit.new_size = size + front;
  edit.tail.assign(old_bytes.begin() + static_cast<std::ptrdiff_t>(old_begin), old_bytes.end());
  edit.replace(0, old_bytes, new_bytes);
  edit.part = "header and first tensors";
  return edit;
}

void SafetensorsPlan::write(ByteSink& sink, const std::function<void(std::uint64_t)>& step) const {
  BufferedSink out(sink);
  std::uint64_t base = out.position();
  auto copy = [&](const SourcePtr& source) {
    for (std::uint64_t done = 0; done < source->size(); done += kCopyStep) {
      out.write_from(*slice(source, done, std::min(kCopyStep, source->size() - done)));
      step(out.position() - base);
    }
  };
  core::ByteVector length;
  core::append_le<std::uint64_t>(length, header_.size());
  out.write(length);
  out.write(core::as_bytes(header_));
  if (data_is_unchanged()) {
    copy(slice(old_->file, old_->header.data_offset(), data_size_));
  } else {
    std::vector<const Placed*> by_data;
    for (const Placed& placed : placed_) by_data.push_back(&placed);
    std::stable_sort(by_data.begin(), by_data.end(),
                     [](const Placed* a, const Placed* b) { return a->begin < b->begin; });
    for (const Placed* placed : by_data) copy(placed->tensor->entry->bytes);
  }
  out.flush();
  step(total_size());
}

}  // namespace ckpt::detail
