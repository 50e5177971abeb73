#include "libckpt/format/dcp/part_writer.h"

#include "libckpt/entry.h"
#include "libckpt/format/torch/archive_writer.h"
#include "libckpt/io/atomic_file.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

/// Large pieces begin at a page of the disk, small ones where a processor likes it.
constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kLine = 64;
constexpr std::uint64_t kLarge = 64 << 10;

/// Passes everything on and hashes it.
class HashingSink final : public ByteSink {
 public:
  explicit HashingSink(ByteSink& inner) : inner_(inner) {}
  void write(Bytes bytes) override {
    hasher_.update(bytes);
    inner_.write(bytes);
  }
  std::uint64_t position() const override { return inner_.position(); }
  Hash128 hash() const { return hasher_.finish(); }

 private:
  ByteSink& inner_;
  Hasher128 hasher_;
};

/// Of the CPU, without what belongs to the program that saved it: what torch.distributed.checkpoint writes.
Value plain_tensor(const Entry& entry) {
  auto plain = std::make_shared<Entry>();
  plain->dtype = entry.dtype;
  plain->shape = entry.shape;
  plain->bytes = entry.bytes;
  return Value::tensor(std::move(plain));
}

}  // namespace

struct DcpPartWriter::Impl {
  Impl(const std::filesystem::path& path, std::uint64_t expected, const SaveOptions& options)
      : file(path, {.overwrite = false,
                    .durable = options.durable,
                    .expected_size = expected,
                    .lock = false,
                    .io = options.io,
                    .threads = options.threads}),
        hashing(file),
        sink(hashing) {}

  void pad(std::uint64_t alignment) {
    std::uint64_t rest = sink.position() % alignment;
    if (rest > 0) sink.write(core::ByteVector(alignment - rest));
  }

  AtomicFile file;
  HashingSink hashing;
  BufferedSink sink;
  std::string name;
};

DcpPartWriter::DcpPartWriter(const std::filesystem::path& folder, const std::string& file, const std::string& save_id,
                             std::uint64_t expected, const SaveOptions& options)
    : impl_(std::make_unique<Impl>(folder / file, expected, options)) {
  impl_->name = file;
  impl_->sink.write(part_head(save_id));
}

DcpPartWriter::~DcpPartWriter() = default;

DcpPlace DcpPartWriter::add(const Value& value) {
  bool is_tensor = value.is(Value::Kind::tensor);
  ZipWriter archive = archive_of(is_tensor ? plain_tensor(value.as_entry()) : value);
  impl_->pad(archive.total_size() >= kLarge ? kPage : kLine);
  DcpPlace place{impl_->name, impl_->sink.position(), archive.total_size()};
  archive.write(impl_->sink);
  return place;
}

PartFacts DcpPartWriter::finish() {
  impl_->sink.flush();
  PartFacts facts{impl_->name, impl_->file.position(), impl_->hashing.hash()};
  impl_->file.commit();
  return facts;
}

Value boxed_tensor(const Entry& entry, const Box& box, PartCheck check) {
  auto part = std::make_shared<Entry>();
  part->dtype = entry.dtype;
  part->shape = box.sizes;
  part->requires_grad = entry.requires_grad;
  part->conjugate = entry.conjugate;
  part->negative = entry.negative;
  part->bytes = read_box(entry.bytes, entry.dtype, entry.shape, box, check);
  return Value::tensor(std::move(part));
}

}  // namespace ckpt::detail
