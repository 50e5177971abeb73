#include "libckpt/format/native/opened_file.h"

#include <algorithm>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

NativeHeader read_header(const Input& input) {
  if (input.head.size() >= kHeaderBytes) return parse_header(core::Bytes(input.head).first(kHeaderBytes));
  throw Error(ErrorCode::corrupt,
              "the file is cut: it ends after " + std::to_string(input.file->size()) + " bytes, inside its header");
}

void require_size(const NativeHeader& header, std::uint64_t size) {
  std::uint64_t expected = header.user_block + header.body_size;
  if (size == expected) return;
  std::string sizes = std::to_string(size) + " bytes where " + std::to_string(expected) + " were written";
  if (size < expected) throw Error(ErrorCode::corrupt, "the file is cut: " + sizes);
  throw Error(ErrorCode::corrupt, "the file has grown behind its index, another program changed it: " + sizes);
}

void require_signature(const ByteSource& body) {
  core::ByteVector found(kHdf5Signature.size());
  body.read(0, found);
  if (core::as_text(found) == kHdf5Signature) return;
  throw Error(ErrorCode::corrupt, "the HDF5 part is damaged: no signature stands behind the user block");
}

core::ByteVector read_index(const Input& input, const NativeHeader& header, const Limits& limits) {
  if (header.index_size > limits.max_index_bytes) {
    throw Error(ErrorCode::refused, "the index takes " + core::format_size(header.index_size) + "; the limit is " +
                                        core::format_size(limits.max_index_bytes));
  }
  core::ByteVector bytes(header.index_size);
  input.file->read(kHeaderBytes, bytes);
  if (hash128(bytes) == header.index_hash) return bytes;
  throw Error(ErrorCode::corrupt, "the index is damaged: its checksum does not fit its bytes");
}

}  // namespace

std::shared_ptr<const OpenedNative> open_native(const Input& input, const Limits& limits) {
  auto file = std::make_shared<OpenedNative>();
  file->header = read_header(input);
  require_size(file->header, input.file->size());
  file->body = slice(input.file, file->header.user_block, file->header.body_size);
  require_signature(*file->body);
  core::ByteVector bytes = read_index(input, file->header, limits);
  file->index = parse_index(bytes, file->header, limits);
  return file;
}

const StampedRange* find_stale_range(const OpenedNative& file) {
  for (const StampedRange& range : file.index.ranges) {
    if (hash128(*slice(file.body, range.offset, range.length)) != range.hash) return &range;
  }
  return nullptr;
}

std::string describe(const StampedRange& range) {
  return "bytes " + std::to_string(range.offset) + " to " + std::to_string(range.offset + range.length) +
         " behind the user block";
}

}  // namespace ckpt::detail
