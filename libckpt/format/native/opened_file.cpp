#include "libckpt/format/native/opened_file.h"

#include <algorithm>
#include <optional>

#include "libckpt/format/native/damaged_head.h"
#include "libckpt/hint.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

NativeHeader read_header(const Input& input) {
  if (HeadDamage damage = find_head_damage(input); damage != HeadDamage::none) {
    throw HintedError(ErrorCode::corrupt, describe(damage), Hint{"run {} to restore it", {{Hint::Option::rescue}}});
  }
  if (input.head.size() >= kHeaderBytes) return parse_header(core::Bytes(input.head).first(kHeaderBytes));
  throw Error(ErrorCode::corrupt,
              "the file is cut: it ends after " + std::to_string(input.file->size()) + " bytes, inside its header");
}

/// A file whose parity data is cut has all of its tensors, and can be used.
bool lacks_only_parity(const NativeIndex& index, const ByteSource& file) {
  return index.parity && file.size() >= index.parity->covered && file.size() < index.parity->end();
}

void require_size(const NativeHeader& header, const NativeIndex& index, const ByteSource& file) {
  std::uint64_t expected = header.user_block + header.body_size;
  if (file.size() == expected) return;
  std::string sizes = std::to_string(file.size()) + " bytes where " + std::to_string(expected) + " were written";
  if (end_by_superblock(header, file) == file.size()) {
    throw HintedError(ErrorCode::corrupt, "another program edited the file, its index is out of date: " + sizes,
                      Hint{"run {}", {{Hint::Option::reindex}}});
  }
  if (lacks_only_parity(index, file)) return;
  if (file.size() < expected) throw Error(ErrorCode::corrupt, "the file is cut: " + sizes);
  throw HintedError(ErrorCode::corrupt, "the file is longer than its index says, another program changed it: " + sizes,
                    stale_hint());
}

void require_signature(const ByteSource& body) {
  core::ByteVector found(kHdf5Signature.size());
  body.read(0, found);
  if (core::as_text(found) == kHdf5Signature) return;
  throw Error(ErrorCode::corrupt, "the HDF5 part is damaged: no signature after the user block");
}

SharedBytes read_index(const Input& input, const NativeHeader& header, const Limits& limits) {
  if (header.index_size > limits.max_index_bytes) {
    throw Error(ErrorCode::refused, "the index takes " + core::format_size(header.index_size) + "; the limit is " +
                                        core::format_size(limits.max_index_bytes));
  }
  LargeBlock bytes(header.index_size);
  input.file->read(kHeaderBytes, bytes.bytes());
  if (hash128(bytes.bytes()) == header.index_hash) return SharedBytes(std::move(bytes));
  throw Error(ErrorCode::corrupt, "the index is damaged: its checksum does not fit its bytes");
}

void require_room(const NativeHeader& header, std::uint64_t size) {
  if (size > header.user_block) return;
  throw Error(ErrorCode::corrupt, "the file is cut: " + std::to_string(size) + " bytes where " +
                                      std::to_string(header.user_block + header.body_size) + " were written");
}

}  // namespace

std::optional<std::uint64_t> end_by_superblock(const NativeHeader& header, const ByteSource& file) {
  constexpr std::uint64_t kEndOfFile = 40;  // in a superblock of version 0, behind version, sizes and two addresses
  core::ByteVector superblock(kEndOfFile + 8);
  if (header.user_block > file.size() || file.size() - header.user_block < superblock.size()) return std::nullopt;
  file.read(header.user_block, superblock);
  return core::load_le<std::uint64_t>(superblock.data() + kEndOfFile);
}

std::shared_ptr<const OpenedNative> open_index(const Input& input, const Limits& limits) {
  auto file = std::make_shared<OpenedNative>();
  file->header = read_header(input);
  file->folder = input.path.parent_path();
  require_room(file->header, input.file->size());
  file->body = slice(input.file, file->header.user_block, input.file->size() - file->header.user_block);
  file->index = parse_index(read_index(input, file->header, limits), file->header, limits);
  return file;
}

std::shared_ptr<const OpenedNative> open_edited_native(const Input& input, const Limits& limits) {
  std::shared_ptr<const OpenedNative> file = open_index(input, limits);
  require_signature(*file->body);
  return file;
}

CheckedIndex read_user_block(const Input& input, const Limits& limits) {
  CheckedIndex block{read_header(input), {}};
  const std::uint64_t size = input.file->size();
  if (size < block.header.user_block + block.header.body_size) require_room(block.header, size);
  block.index = read_index(input, block.header, limits);
  return block;
}

std::shared_ptr<const OpenedNative> open_body(const Input& input, const NativeHeader& header, NativeIndex index) {
  auto file = std::make_shared<OpenedNative>();
  file->header = header;
  file->index = std::move(index);
  file->folder = input.path.parent_path();
  require_size(file->header, file->index, *input.file);
  file->parity_cut = lacks_only_parity(file->index, *input.file);
  file->body = slice(input.file, header.user_block, input.file->size() - header.user_block);
  require_signature(*file->body);
  return file;
}

std::shared_ptr<const OpenedNative> open_native(const Input& input, const Limits& limits) {
  const CheckedIndex block = read_user_block(input, limits);
  return open_body(input, block.header, parse_index(block.index, block.header, limits));
}

const StampedRange* find_stale_range(const OpenedNative& file) {
  for (const StampedRange& range : file.index.ranges) {
    if (hash128(*slice(file.body, range.offset, range.length)) != range.hash) return &range;
  }
  return nullptr;
}

std::string stale_text(const StampedRange& range) {
  return "the index no longer describes the file: its HDF5 part was damaged or changed by another program (bytes " +
         std::to_string(range.offset) + " to " + std::to_string(range.offset + range.length) + " after the user block)";
}

Hint stale_hint() {
  return {"if a program such as h5py edited it, run {}", {{Hint::Option::reindex}}};
}

}  // namespace ckpt::detail
