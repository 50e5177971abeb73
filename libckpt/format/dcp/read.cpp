#include "libckpt/budget.h"
#include "libckpt/format/corrupt.h"
#include "libckpt/format/dcp/chunk_source.h"
#include "libckpt/format/dcp/data_files.h"
#include "libckpt/format/dcp/dcp.h"
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

/// The bytes of one chunk, which is an archive with one tensor.
SourcePtr open_chunk(const DcpItem& item, const DcpChunk& chunk, DcpFiles& files, const OpenOptions& options) {
  std::string where = "the chunk at " + core::to_list(chunk.offsets);
  return core::with_context(where, [&] {
    if (!chunk.place) corrupt("the metadata do not say where it lies");
    Value value = read_archive(files.range(*chunk.place), options);
    if (!value.is(Value::Kind::tensor)) corrupt("it has no tensor");
    const Entry& entry = value.as_entry();
    if (entry.dtype != item.dtype || entry.shape != chunk.sizes || entry.bytes == nullptr) {
      corrupt("it holds " + std::string(core::name(entry.dtype)) + " " + core::to_list(entry.shape) + " where " +
              std::string(core::name(item.dtype)) + " " + core::to_list(chunk.sizes) + " is expected");
    }
    return entry.bytes;
  });
}

/// On another machine only what is read is asked for: the metadata say everything else.
SourcePtr chunk_when_read(const DcpItem& item, const DcpChunk& chunk, const std::shared_ptr<DcpFiles>& files,
                          const OpenOptions& options) {
  std::optional<std::uint64_t> numel = core::try_numel(chunk.sizes.span());
  std::optional<std::uint64_t> bytes = numel ? core::byte_size(item.dtype, *numel) : std::nullopt;
  if (!bytes) corrupt("a chunk has the shape " + core::to_list(chunk.sizes) + ", which no memory can hold");
  OpenOptions later = options;
  later.report = nullptr;
  DcpItem known = item;
  known.chunks.clear();
  return opened_when_read(*bytes, [known, chunk, files, later] {
    std::lock_guard lock(files->opening());
    return core::with_context(quote(known.name), [&] { return open_chunk(known, chunk, *files, later); });
  });
}

SourcePtr read_chunk(const DcpItem& item, const DcpChunk& chunk, const std::shared_ptr<DcpFiles>& files,
                     const OpenOptions& options) {
  bool empty = core::try_numel(chunk.sizes.span()).value_or(1) == 0;
  if (!chunk.place && empty) return nullptr;
  return files->are_far() ? chunk_when_read(item, chunk, files, options) : open_chunk(item, chunk, *files, options);
}

Value read_tensor(const DcpItem& item, const std::shared_ptr<DcpFiles>& files, const OpenOptions& options) {
  std::optional<std::uint64_t> numel = core::try_numel(item.shape.span());
  if (!numel || !core::byte_size(item.dtype, *numel)) {
    corrupt("it has the shape " + core::to_list(item.shape) + ", which no memory can hold");
  }
  if (core::bit_width(item.dtype) % 8 != 0) {
    throw Error(ErrorCode::unsupported, "it is of dtype " + std::string(core::name(item.dtype)) + " in chunks");
  }
  std::vector<Box> boxes;
  for (const DcpChunk& chunk : item.chunks) boxes.push_back({chunk.offsets, chunk.sizes});
  check_tiling(item.shape, boxes);
  std::vector<SourceChunk> chunks;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    chunks.push_back({boxes[i], read_chunk(item, item.chunks[i], files, options)});
  }
  Entry entry;
  entry.dtype = item.dtype;
  entry.shape = item.shape;
  entry.requires_grad = item.requires_grad;
  auto width = static_cast<std::uint64_t>(core::bit_width(item.dtype)) / 8;
  entry.bytes = assemble_chunks(item.shape, width, std::move(chunks));
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

DcpFiles::DcpFiles(std::filesystem::path folder, const OpenOptions& options)
    : folder_(std::move(folder)), options_(options) {
  options_.report = nullptr;
}

SourcePtr DcpFiles::range(const DcpPlace& place) {
  SourcePtr& file = files_[place.file];
  if (file == nullptr) {
    file = core::with_context("file " + quote(place.file),
                              [&] { return open_part(folder_, place.file, options_, "the metadata"); });
  }
  if (place.offset > file->size() || place.length > file->size() - place.offset) {
    corrupt("the file " + quote(place.file) + " is cut off: it has " + core::format_count(file->size()) +
            " bytes where " + core::format_count(place.length) + " are expected at byte " +
            core::format_count(place.offset));
  }
  return slice(file, place.offset, place.length);
}

Checkpoint read_dcp(const Input& input, const OpenOptions& options) {
  DcpMetadata metadata = read_dcp_metadata(read_dcp_pickle(*input.file, options), options);
  auto files = std::make_shared<DcpFiles>(input.path.parent_path(), options);
  NestedBuilder tree(options.limits);
  for (const DcpItem& item : metadata.items) {
    core::with_context(quote(item.name), [&] {
      Value value = item.is_tensor ? read_tensor(item, files, options) : read_object_item(item, *files, options);
      tree.add(item.path.empty() ? std::vector<PathStep>{item.name} : item.path, std::move(value));
    });
  }
  if (input.budget) input.budget->add_disk(files->are_far() ? bytes_named(metadata) : files->bytes());
  Checkpoint checkpoint;
  checkpoint.root = tree.take();
  return checkpoint;
}

}  // namespace ckpt::detail
