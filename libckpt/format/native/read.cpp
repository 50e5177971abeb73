// Reading: the index alone, by bounded parsers; libhdf5 is not involved.

#include <array>
#include <map>
#include <tuple>

#include "libckpt/budget.h"
#include "libckpt/format/hdf5_write/payload_source.h"
#include "libckpt/format/native/damaged_head.h"
#include "libckpt/format/native/elsewhere.h"
#include "libckpt/format/native/index_tables.h"
#include "libckpt/format/native/native.h"
#include "libckpt/format/native/opened_file.h"
#include "libckpt/format/native/parity_writer.h"
#include "libckpt/format/native/value_codec.h"
#include "libckpt/hint.h"
#include "libckpt/io/checked_source.h"
#include "libckpt/io/parallel_io.h"
#include "libckpt/io/remote_name.h"
#include "libcore/base/checked_math.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

[[noreturn]] void throw_contradiction(const std::string& what) {
  throw Error(ErrorCode::corrupt, "the index contradicts itself: " + what);
}

/// Gives tensors their sources, and storages theirs.
class EntryBuilder {
 public:
  EntryBuilder(std::shared_ptr<const OpenedNative> file, const OpenOptions& options) : file_(std::move(file)) {
    std::shared_ptr<ChunkCache> cache = make_chunk_cache();
    PayloadOpener opener(file_, options);
    ObjectArena arena(file_->index.payloads.size() * kBytesOfChecked);
    payloads_.reserve(file_->index.payloads.size());
    for (const Payload& payload : file_->index.payloads) {
      payloads_.push_back(opener.open_checked(payload, cache, arena));
    }
    storages_.resize(file_->index.storages.size());
  }

  void complete(const EntryRecord& record, Entry& entry) {
    std::optional<std::uint64_t> numel = core::try_numel(entry.shape.span());
    std::optional<std::uint64_t> size = numel ? core::byte_size(entry.dtype, *numel) : std::nullopt;
    if (!size) throw_contradiction("a tensor has the impossible shape " + core::to_list(entry.shape));
    if (record.window) entry.bytes = window_source(*record.window, *size);
    if (!record.view) return;
    entry.view = View{storage(record.view->storage), record.view->offset, record.view->strides};
    SourcePtr gathered = gather(*entry.view, entry.dtype, entry.shape);  // also checks the view
    if (!record.window) entry.bytes = std::move(gathered);
  }

 private:
  /// Tensors over the same bytes get the same source: that is what ties them.
  SourcePtr window_source(const Window& window, std::uint64_t size) {
    if (window.payload >= payloads_.size()) throw_contradiction("a tensor names a payload that is not there");
    const SourcePtr& payload = payloads_[window.payload];
    if (window.offset > payload->size() || size > payload->size() - window.offset) {
      throw_contradiction("a tensor of " + std::to_string(size) + " bytes reaches past its payload of " +
                          std::to_string(payload->size()));
    }
    if (size == payload->size()) return payload;
    SourcePtr& part = parts_[{window.payload, window.offset, size}];
    if (part == nullptr) part = slice(payload, window.offset, size);
    return part;
  }

  std::shared_ptr<const Storage> storage(std::uint32_t number) {
    if (number >= storages_.size()) throw_contradiction("a tensor names a storage that is not there");
    if (storages_[number] == nullptr) storages_[number] = make_storage(file_->index.storages[number]);
    return storages_[number];
  }

  std::shared_ptr<const Storage> make_storage(const StorageRecord& record) const {
    SourcePtr bytes = payloads_[record.payload];
    if (record.order) {
      auto payload = std::make_shared<const Storage>(Storage{record.order->dtype, bytes, record.location});
      bytes = gather(View{payload, 0, record.order->strides}, record.order->dtype, record.order->shape);
    }
    return std::make_shared<const Storage>(Storage{record.dtype, std::move(bytes), record.location});
  }

  std::shared_ptr<const OpenedNative> file_;
  std::vector<SourcePtr> payloads_;
  std::vector<std::shared_ptr<const Storage>> storages_;
  std::map<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>, SourcePtr> parts_;
};

void require_fresh(const OpenedNative& file) {
  // On another machine these ranges, at the end of the file, cost requests; the hash of each tensor is compared anyway.
  if (is_far(*file.body)) return;
  const StampedRange* range = find_stale_range(file);
  if (range == nullptr) return;
  throw HintedError(ErrorCode::corrupt, stale_text(*range), stale_hint());
}

std::shared_ptr<const NativeDetail> detail_of(const Input& input, const std::shared_ptr<const OpenedNative>& file) {
  auto detail = std::make_shared<NativeDetail>();
  if (file->index.parity) detail->parity = file->index.parity->share;
  detail->whole = input.file;
  detail->file = file;
  return detail;
}

void warn_of_cut_parity(const OpenedNative& file, const OpenOptions& options) {
  if (!file.parity_cut || options.report == nullptr) return;
  options.report->warnings.emplace_back(
      "the file is cut inside its parity data; the tensors are all there, and 'ckpt rescue' rebuilds the "
      "parity data");
}

}  // namespace

Value build_tree(const std::shared_ptr<const OpenedNative>& file, const OpenOptions& options) {
  EntryBuilder builder(file, options);
  EntryCompleter complete = [&](const EntryRecord& record, Entry& entry) { builder.complete(record, entry); };
  return decode_tree(file->index.tree.bytes(), complete, options.limits);
}

bool detect_native(const Input& input) {
  return core::as_text(input.head).starts_with(kNativeMagic) || find_head_damage(input) != HeadDamage::none;
}

namespace {

Checkpoint read_by(const std::function<Value()>& build, const Input& input,
                   const std::shared_ptr<const OpenedNative>& file, const OpenOptions& options) {
  Checkpoint checkpoint;
  checkpoint.metadata = file->index.metadata;
  checkpoint.detail = detail_of(input, file);
  warn_of_cut_parity(*file, options);
  // The stamps of large files take about as long as the tree. That is the first step, which runs on this thread: the
  // heap of another one grows by a page at a time, with a system call for each.
  const std::array<std::function<void()>, 2> steps = {
      [&] { checkpoint.root = build(); },
      [&] { require_fresh(*file); },
  };
  parallel_for(steps.size(), thread_count(options.threads), [&](std::size_t i) { steps[i](); });
  return checkpoint;
}

void count_packed(const Input& input, const NativeIndex& index) {
  if (!input.budget) return;
  for (const Payload& payload : index.payloads) {
    if (is_packed(payload)) input.budget->add_packed(payload.size);
  }
}

Checkpoint read_tree(const Input& input, const std::shared_ptr<const OpenedNative>& file, const OpenOptions& options) {
  count_packed(input, file->index);
  return read_by([&] { return build_tree(file, options); }, input, file, options);
}

}  // namespace

Checkpoint read_native(const Input& input, const OpenOptions& options) {
  return read_tree(input, open_native(input, options.limits), options);
}

Checkpoint read_native_row(const Input& input, const OpenOptions& options, TensorRow& row) {
  const CheckedIndex block = read_user_block(input, options.limits);
  std::optional<LightIndex> light = parse_light_index(block.index, block.header, options.limits);
  if (!light) {
    NativeIndex index = parse_index(block.index, block.header, options.limits);
    return read_tree(input, open_body(input, block.header, std::move(index)), options);
  }
  const std::shared_ptr<const OpenedNative> file = open_body(input, block.header, std::move(light->rest));
  std::shared_ptr<OpenedNative> whole;  // where it turns out to be no row
  const auto build = [&] {
    std::optional<Value> rest = build_row(file->index.tree, light->rows, options.limits, row);
    if (rest) return std::move(*rest);
    whole = std::make_shared<OpenedNative>(*file);
    whole->index = parse_index(block.index, block.header, options.limits);
    return build_tree(whole, options);
  };
  Checkpoint checkpoint = read_by(build, input, file, options);
  if (whole != nullptr) {
    checkpoint.detail = detail_of(input, whole);
    count_packed(input, whole->index);
  } else if (input.budget) {
    input.budget->add_packed(light->rows.packed_bytes);
  }
  return checkpoint;
}

}  // namespace ckpt::detail
