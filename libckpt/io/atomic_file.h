#pragma once
// AtomicFile: the only way to a path. Everything is written to a hidden temporary file in the same folder; commit()
// makes it durable and puts it in place with one rename, so a reader sees the old file or the new one, whole, also
// after a power cut. The source of the bytes may be the very file that is replaced. One writer a name: a second one is
// told who is writing; what killed writers left goes with the next save to the folder (leftovers.h). Thread safety:
// one owner; write_at() may be called from many threads on ranges that do not overlap. Use: AtomicFile file("net.ckpt",
// {.expected_size = n}); file.write(bytes); file.commit();

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "libckpt/io/byte_sink.h"
#include "libckpt/io/page_cache_use.h"

namespace ckpt {

class AtomicFile final : public ByteSink {
 public:
  struct Options {
    bool overwrite = true;  ///< false: Error(io) "already exists" when the path is taken, also at commit
    bool durable = true;    ///< false: no fsync; still atomic against a killed process
    std::uint64_t expected_size =
        0;             ///< preallocated at once, so that a full disk is noticed before any work; 0 = unknown
    bool lock = true;  ///< false: the caller holds a lock that covers this file
    /// What write() and write_from() append goes past the page cache as this says; automatic: where the file is durable
    /// and large.
    Io io = Io::automatic;
    unsigned threads = 0;  ///< 1: every system call is made by the thread that writes
  };

  /// Creates the temporary file. Follows a symbolic link to its target. Errors: Error(io) naming the path for a missing
  /// folder, a folder in place of a file, no permission, no space, another writer; Error(usage) for an empty name.
  AtomicFile(const std::filesystem::path& path, const Options& options);
  explicit AtomicFile(const std::filesystem::path& path) : AtomicFile(path, Options()) {}
  /// Removes the temporary file unless commit() succeeded. Never throws.
  ~AtomicFile() override;
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(Bytes bytes) override;
  void write_from(const ByteSource& source) override;
  std::uint64_t position() const override;
  /// Writes at an absolute offset without moving position(). The range may lie behind position().
  void write_at(std::uint64_t offset, Bytes bytes);
  /// Reads back what was written, at an absolute offset. Complete or Error(io).
  void read_at(std::uint64_t offset, MutableBytes out) const;
  /// Moves position() forward over bytes that write_at() fills (or that stay zero).
  void skip_to(std::uint64_t offset);

  /// Cuts to position(), keeps mode, owner and extended attributes of a file being replaced, fsync, close. Only for
  /// saves of several files, which are all prepared before the first is put in place; commit() does it by itself.
  /// Nothing may be written afterwards. Errors: Error(io); the old file is untouched.
  void prepare();

  /// prepare(), rename, fsync of the folder. Errors: Error(io); the old file is untouched unless the message says that
  /// its "durability is unknown". Only once.
  void commit();
  /// prepare(), and the file stays under its hidden name, which is returned; from now on the caller puts it in place or
  /// removes it. In place of commit(), for members of a set. Errors: Error(io).
  std::string leave_hidden();
  /// True once the new file has its name, also when commit() then failed to make that durable.
  bool in_place() const;

 private:
  void append_read(const ByteSource& source);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ckpt
