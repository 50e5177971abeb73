#pragma once
// Sources that stand for a damaged file as it should be: of its full length though it is cut, and with other bytes in
// some places. Thread safety: read() from many threads once everything has been patched. Use:
// auto whole = std::make_shared<PatchedSource>(file, size, folder); whole->patch(offset, bytes);

#include <filesystem>
#include <map>
#include <mutex>

#include "libckpt/io/byte_source.h"
#include "libckpt/io/file_ops.h"

namespace ckpt {

/// `file` with replaced ranges. Bytes behind its end that were not patched are Error(corrupt) when they are read.
class PatchedSource final : public ByteSource {
 public:
  /// The new bytes go to a file without a name in `folder`.
  PatchedSource(SourcePtr file, std::uint64_t size, std::filesystem::path folder)
      : file_(std::move(file)), size_(size), folder_(std::move(folder)) {}

  /// From any thread. REQUIRES: patches do not overlap; nobody reads yet what is patched.
  void patch(std::uint64_t offset, Bytes bytes);

  std::uint64_t size() const override { return size_; }
  void read(std::uint64_t offset, MutableBytes out) const override;
  void require_unchanged() const override { file_->require_unchanged(); }

 private:
  struct Place {
    std::uint64_t length = 0;
    std::uint64_t at = 0;  ///< in the file of patches
  };
  void read_unpatched(std::uint64_t offset, MutableBytes out) const;
  void read_patch(std::uint64_t at, MutableBytes out) const;

  SourcePtr file_;
  std::uint64_t size_;
  std::filesystem::path folder_;
  std::mutex mutex_;
  detail::Fd scratch_;
  std::uint64_t scratch_end_ = 0;
  std::map<std::uint64_t, Place> places_;  ///< by offset
};

/// `size` bytes that are not there: reading any of them is Error(corrupt) with this text.
SourcePtr missing_source(std::uint64_t size, std::string text);

}  // namespace ckpt
