#include "libckpt/format/torch/crc_checked.h"

#include <mutex>

#include "libckpt/io/checksum.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

class CrcCheckedSource final : public ByteSource {
 public:
  CrcCheckedSource(SourcePtr source, std::uint32_t crc, std::string name)
      : source_(std::move(source)), crc_(crc), name_(std::move(name)) {}

  std::uint64_t size() const override { return source_->size(); }
  void require_unchanged() const override { source_->require_unchanged(); }
  void read(std::uint64_t offset, MutableBytes out) const override {
    std::call_once(checked_, [this] { check(); });
    source_->read(offset, out);
  }

 private:
  void check() const {
    if (crc32(*source_) == crc_) return;
    throw core::Error(core::ErrorCode::corrupt,
                      "the record " + core::quote(name_) + " is damaged: its CRC-32 is not the recorded one");
  }

  SourcePtr source_;
  std::uint32_t crc_;
  std::string name_;
  mutable std::once_flag checked_;
};

}  // namespace

SourcePtr crc_checked(SourcePtr source, std::uint32_t crc, std::string name) {
  return std::make_shared<CrcCheckedSource>(std::move(source), crc, std::move(name));
}

}  // namespace ckpt
