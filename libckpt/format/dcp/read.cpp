#include <algorithm>
#include <mutex>
#include <utility>

#include "libckpt/budget.h"
#include "libckpt/format/corrupt.h"
#include "libckpt/format/dcp/chunk_source.h"
#include "libckpt/format/dcp/data_files.h"
#include "libckpt/format/dcp/dcp.h"
#include "libckpt/format/dcp/detail.h"
#include "libckpt/format/folder.h"
#include "libckpt/format/torch/torch_archive.h"
#include "libckpt/io/remote_name.h"
#include "libcore/base/checked_math.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;
using core::quote;

Value read_archive(const SourcePtr& bytes, const OpenOptions& options) {
  TorchArchive archive = TorchArchive::open(bytes, options);
  return read_object(archive, read_object_pickle(archive, options), options);
}

/// When what is held of a small archive goes.
enum class Hold {
  until_open,
  until_read,  ///< once more: it is opened for who reads it next
};

/// A small archive, which is read at once when it is opened: its directory and its records would be ten reads of a few
/// bytes each.
class HeldArchive final : public ByteSource {
 public:
  explicit HeldArchive(SourcePtr whole)
      : whole_(std::move(whole)), held_(std::make_shared<const core::ByteVector>(read_all(*whole_))) {}
  std::uint64_t size() const override { return whole_->size(); }
  void read(std::uint64_t offset, MutableBytes out) const override {
    const std::shared_ptr<const core::ByteVector> held = out.empty() ? nullptr : held_for_read();
    bool inside = held != nullptr && offset <= held->size() && out.size() <= held->size() - offset;
    if (!inside) return whole_->read(offset, out);
    std::copy_n(held->begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
  }
  std::optional<FileRange> file_range() const override { return whole_->file_range(); }
  /// What is held was so when it was read.
  void require_unchanged() const override {
    if (is_opening_) return;
    whole_->require_unchanged();
  }
  void visit_checked(const CheckedVisitor& see) const override { whole_->visit_checked(see); }
  /// REQUIRES: nothing reads it meanwhile.
  void opened(Hold hold) {
    is_opening_ = false;
    if (hold == Hold::until_open) held_ = nullptr;
  }

 private:
  std::shared_ptr<const core::ByteVector> held_for_read() const {
    std::lock_guard lock(mutex_);
    return is_opening_ ? held_ : std::exchange(held_, nullptr);
  }

  SourcePtr whole_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const core::ByteVector> held_;
  bool is_opening_ = true;  ///< by the one thread that knows of it
};

Value read_small_archive(SourcePtr bytes, const OpenOptions& options, Hold hold) {
  auto held = std::make_shared<HeldArchive>(std::move(bytes));
  Value value = read_archive(held, options);
  held->opened(hold);
  return value;
}

/// The bytes of one chunk, which is an archive with one tensor.
SourcePtr open_chunk(const DcpItem& item, const DcpChunk& chunk, DcpFiles& files, const OpenOptions& options,
                     Hold hold) {
  std::string where = "the chunk at " + core::to_list(chunk.offsets);
  return core::with_context(where, [&] {
    if (!chunk.place) corrupt("the metadata do not say where it lies");
    constexpr std::uint64_t kSmall = 64 << 10;
    SourcePtr bytes = files.range(*chunk.place);
    bool is_small = bytes->size() <= kSmall && !files.are_far();
    Value value = is_small ? read_small_archive(std::move(bytes), options, hold) : read_archive(bytes, options);
    if (!value.is(Value::Kind::tensor)) corrupt("it has no tensor");
    const Entry& entry = value.as_entry();
    if (entry.dtype != item.dtype || entry.shape != chunk.sizes || entry.bytes == nullptr) {
      corrupt("it holds " + std::string(core::name(entry.dtype)) + " " + core::to_list(entry.shape) + " where " +
              std::string(core::name(item.dtype)) + " " + core::to_list(chunk.sizes) + " is expected");
    }
    return entry.bytes;
  });
}

/// On what is known to be there only what is read is asked for: the metadata say everything else.
SourcePtr chunk_when_read(const DcpItem& item, const DcpChunk& chunk, const std::shared_ptr<DcpFiles>& files,
                          const OpenOptions& options) {
  std::optional<std::uint64_t> numel = core::try_numel(chunk.sizes.span());
  std::optional<std::uint64_t> bytes = numel ? core::byte_size(item.dtype, *numel) : std::nullopt;
  if (!bytes) corrupt("a chunk has the shape " + core::to_list(chunk.sizes) + ", which no memory can hold");
  DcpItem known;
  known.name = item.name;
  known.dtype = item.dtype;
  OpenOptions later = options;
  later.report = nullptr;
  return opened_when_read(*bytes, [known = std::move(known), chunk, files, later] {
    return core::with_context(quote(known.name),
                              [&] { return open_chunk(known, chunk, *files, later, Hold::until_read); });
  });
}

std::vector<SourceChunk> open_chunks(const DcpItem& item, const std::shared_ptr<DcpFiles>& files,
                                     const OpenOptions& options) {
  std::vector<SourceChunk> chunks;
  for (const DcpChunk& chunk : item.chunks) {
    bool has_none = !chunk.place && core::try_numel(chunk.sizes.span()).value_or(1) == 0;
    if (has_none) continue;
    SourcePtr bytes = files->opens_late() ? chunk_when_read(item, chunk, files, options)
                                          : open_chunk(item, chunk, *files, options, Hold::until_open);
    chunks.push_back({{chunk.offsets, chunk.sizes}, std::move(bytes)});
  }
  return chunks;
}

/// Where each chunk lies is checked now, also where it is opened later.
void check_places(const DcpItem& item) {
  for (std::size_t i = 0; i < item.chunks.size(); ++i) {
    if (item.chunks.is_placed(i) || core::try_numel(item.chunks.sizes(i).span()).value_or(1) == 0) continue;
    corrupt("the chunk at " + core::to_list(item.chunks.offsets(i)) + ": the metadata do not say where it lies");
  }
}

Value read_tensor(const std::shared_ptr<const DcpDetail>& detail, std::size_t number,
                  const std::shared_ptr<DcpFiles>& files, const OpenOptions& options) {
  const DcpItem& item = detail->metadata.items[number];
  std::optional<std::uint64_t> numel = core::try_numel(item.shape.span());
  if (!numel || !core::byte_size(item.dtype, *numel)) {
    corrupt("it has the shape " + core::to_list(item.shape) + ", which no memory can hold");
  }
  if (core::bit_width(item.dtype) % 8 != 0) {
    throw Error(ErrorCode::unsupported, "it is of dtype " + std::string(core::name(item.dtype)) + " in chunks");
  }
  check_tiling(item.shape, item.chunks.boxes());
  check_places(item);
  Entry entry;
  entry.dtype = item.dtype;
  entry.shape = item.shape;
  entry.requires_grad = item.requires_grad;
  auto width = static_cast<std::uint64_t>(core::bit_width(item.dtype)) / 8;
  OpenOptions later = options;
  later.report = nullptr;
  entry.bytes = files->opens_late() && item.chunks.size() > 1
                    ? assemble_when_read(item.shape, width,
                                         [detail, number, files, later] {
                                           return open_chunks(detail->metadata.items[number], files, later);
                                         })
                    : assemble_chunks(item.shape, width, open_chunks(item, files, options));
  return Value::tensor(std::make_shared<const Entry>(std::move(entry)));
}

/// Anything but a tensor is an archive, or bytes that a program of its own wrote.
Value read_object_item(const DcpItem& item, DcpFiles& files, const OpenOptions& options) {
  SourcePtr bytes = files.range(*item.place);
  constexpr std::string_view kZip = "PK\x03\x04";
  core::ByteVector head(std::min<std::uint64_t>(kZip.size(), bytes->size()));
  bytes->read(0, head);
  if (core::as_text(head) == kZip) return read_archive(bytes, options);
  if (bytes->size() > options.limits.max_pickle_bytes) {
    throw Error(ErrorCode::refused, "it holds " + core::format_size(bytes->size()) + " of plain bytes");
  }
  return Value::bytes(read_all(*bytes));
}

/// Of all items, as the metadata tell; a file that is shorter is an error once it is opened.
std::uint64_t bytes_named(const DcpMetadata& metadata) {
  std::uint64_t sum = 0;
  auto add = [&](const std::optional<DcpPlace>& place) {
    if (place) sum = core::checked_add(sum, place->length);
  };
  for (const DcpItem& item : metadata.items) {
    add(item.place);
    for (const DcpChunk& chunk : item.chunks) add(chunk.place);
  }
  return sum;
}

}  // namespace

DcpFiles::DcpFiles(std::filesystem::path folder, const std::string& save_id, const OpenOptions& options)
    : folder_(std::move(folder)), options_(options) {
  options_.report = nullptr;
  std::error_code ignored;
  bool listed = !save_id.empty() && !are_far() && std::filesystem::exists(folder_ / kPartsFile, ignored);
  if (listed) read_parts(save_id);
}

void DcpFiles::read_parts(const std::string& save_id) {
  PartsFile parts = read_parts_file(*open_part(folder_, std::string(kPartsFile), options_, "the folder"), options_);
  if (parts.save_id != save_id) return;  // another program has saved here since
  for (const PartFacts& part : parts.parts) {
    std::error_code missing;
    std::uint64_t size = std::filesystem::file_size(folder_ / part.file, missing);
    std::string file = "the file " + quote(part.file);
    if (missing) corrupt(file + " is missing: " + std::string(kPartsFile) + " names it as a part of this save");
    if (size == part.size) continue;
    corrupt(file + " has " + core::format_count(size) + " bytes where this save wrote " +
            core::format_count(part.size) + ": it is cut off, or a part of another save");
  }
  parts_ = std::move(parts);
}

SourcePtr DcpFiles::open(const std::string& name) const {
  SourcePtr file =
      core::with_context("file " + quote(name), [&] { return open_part(folder_, name, options_, "the metadata"); });
  if (parts_.find(name) == nullptr || save_id_in(*file) == parts_.save_id) return file;
  corrupt("the file " + quote(name) + " is a part of another save than the metadata");
}

SourcePtr DcpFiles::opened_file(const std::string& name) {
  std::lock_guard lock(opening_);
  SourcePtr& file = files_[name];
  if (file == nullptr) file = open(name);
  return file;
}

SourcePtr DcpFiles::range(const DcpPlace& place) {
  const SourcePtr file = opened_file(place.file);
  if (place.offset > file->size() || place.length > file->size() - place.offset) {
    corrupt("the file " + quote(place.file) + " is cut off: it has " + core::format_count(file->size()) +
            " bytes where " + core::format_count(place.length) + " are expected at byte " +
            core::format_count(place.offset));
  }
  return slice(file, place.offset, place.length);
}

std::ptrdiff_t DcpDetail::item_of(const Value& value, const std::string& name) const {
  if (value.is(Value::Kind::tensor)) {
    const Entry& entry = value.as_entry();
    auto found = tensors.find(entry.bytes.get());
    bool same = found != tensors.end() && metadata.items[found->second].dtype == entry.dtype &&
                metadata.items[found->second].shape == entry.shape;
    return same ? static_cast<std::ptrdiff_t>(found->second) : -1;
  }
  std::ptrdiff_t alike = -1;
  for (const auto& [item, known] : objects) {
    if (!(known == value)) continue;
    if (metadata.items[item].name == name) return static_cast<std::ptrdiff_t>(item);
    if (alike < 0) alike = static_cast<std::ptrdiff_t>(item);
  }
  return alike;
}

Checkpoint read_dcp(const Input& input, const OpenOptions& options) {
  auto detail = std::make_shared<DcpDetail>();
  detail->folder = input.path.parent_path();
  detail->file = input.file;
  detail->metadata = read_dcp_metadata(*input.file, options);
  auto files = std::make_shared<DcpFiles>(detail->folder, detail->metadata.save_id, options);
  detail->save = files->parts();
  NestedBuilder tree(options.limits);
  for (std::size_t i = 0; i < detail->metadata.items.size(); ++i) {
    const DcpItem& item = detail->metadata.items[i];
    core::with_context(quote(item.name), [&] {
      Value value = item.is_tensor ? read_tensor(detail, i, files, options) : read_object_item(item, *files, options);
      if (item.is_tensor) {
        detail->tensors.emplace(value.as_entry().bytes.get(), i);
      } else {
        detail->objects.emplace_back(i, value);
      }
      tree.add(item.path.empty() ? std::vector<PathStep>{item.name} : item.path, std::move(value));
    });
  }
  if (input.budget) input.budget->add_disk(files->are_far() ? bytes_named(detail->metadata) : files->bytes());
  Checkpoint checkpoint;
  checkpoint.root = tree.take();
  checkpoint.detail = std::move(detail);
  return checkpoint;
}

}  // namespace ckpt::detail
