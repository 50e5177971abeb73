#pragma once
// What the `Use:` lines inside libckpt/io take as given: files, bytes, and what is read or written.

#include <sys/stat.h>

#include <functional>
#include <string>
#include <vector>

#include "libckpt/entry.h"
#include "libckpt/io/atomic_file.h"
#include "libckpt/io/byte_cursor.h"
#include "libckpt/io/edit_record.h"
#include "libckpt/io/file_ops.h"
#include "libckpt/io/float_groups.h"
#include "libckpt/io/zip.h"
#include "libckpt/limits.h"

namespace ckpt::detail::user {

extern const std::filesystem::path path, folder;
extern const char* const name;  // of a file in the folder
extern Fd fd;
extern const int folder_fd, plain;
extern SourcePtr source;
extern const SourcePtr file;
extern ByteSink& sink;
extern const ZipArchive zip;
extern const ZipMember member;
extern const Entry entry;
extern const Limits limits;

extern const Bytes bytes, header, index_bytes, old_header, new_header;
extern const uid_t owner;
extern const std::vector<std::byte*> data, parity;  // blocks of them
extern const std::string text;
extern core::ByteVector out;
extern const ConstGroupParts parts;
extern const std::uint8_t base;  // the least exponent that has a code
extern ByteCursor in;
extern const core::DType dtype;
extern const std::uint64_t offset, stored, size, limit;
extern const std::uint32_t crc;
extern const std::size_t n, length;
extern const unsigned threads;
extern const std::vector<std::string> old_names, new_names;
extern const core::ByteVector old_index, new_index;  // of shards
extern const FileEdit changes;
extern const EditRecord record;
extern const struct stat status;

// Of n pieces: how much memory one takes, its bytes, and where they go.
extern const std::function<std::uint64_t(std::size_t)> size_of;
extern const std::function<core::ByteVector(std::size_t)> compress;
extern const std::function<void(std::size_t, core::ByteVector)> store;
extern const std::function<void(AtomicFile&)> write;

struct Context;  // of a compression library
Context* make_context();
std::size_t free_context(Context* context);

}  // namespace ckpt::detail::user
