#include "libckpt/io/mapped_file.h"

#include <sys/mman.h>

#include <utility>

#include "libckpt/io/file_source.h"

namespace ckpt::detail {
namespace {

/// Reads are those of the file, which a file that becomes shorter does not hurt.
class MappedFile final : public ByteSource, public MadeOf {
 public:
  MappedFile(SourcePtr file, void* memory) : file_(std::move(file)), memory_(memory) {}
  ~MappedFile() override { ::munmap(memory_, file_->size()); }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::uint64_t size() const override { return file_->size(); }
  void read(std::uint64_t offset, MutableBytes out) const override { file_->read(offset, out); }
  Bytes memory() const override { return {static_cast<const std::byte*>(memory_), file_->size()}; }
  std::optional<FileRange> file_range() const override { return file_->file_range(); }
  void require_unchanged() const override { file_->require_unchanged(); }
  const ByteSource& made_of() const override { return *file_; }

 private:
  SourcePtr file_;
  void* memory_;
};

}  // namespace

SourcePtr reached(SourcePtr file, Io io, Residency residency) {
  read_as(*file, io);
  const std::optional<FileRange> range = file->file_range();
  if (residency == Residency::on_demand || !range || file->size() == 0) return file;
  const int flags = MAP_SHARED | (residency == Residency::resident ? MAP_POPULATE : 0);
  void* memory = ::mmap(nullptr, file->size(), PROT_READ, flags, range->fd, static_cast<off_t>(range->offset));
  if (memory == MAP_FAILED) return file;
  return std::make_shared<MappedFile>(std::move(file), memory);
}

}  // namespace ckpt::detail
