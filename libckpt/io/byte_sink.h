#pragma once
// ByteSink: where a writer puts bytes, in order. AtomicFile is the sink that reaches a path; memory sinks serve tests
// and headers that must be measured before they are written. Thread safety: one writer at a time. Use:
// sink.write(core::as_bytes("PK"));

#include <cstdint>
#include <utility>

#include "libckpt/io/byte_source.h"

namespace ckpt {

class ByteSink {
 public:
  virtual ~ByteSink() = default;
  /// Appends all of `bytes` or throws Error(io).
  virtual void write(Bytes bytes) = 0;
  /// Appends all of `source`. Sinks on a file copy inside the kernel where they can; never holds more than a buffer.
  virtual void write_from(const ByteSource& source);
  /// Bytes written so far.
  virtual std::uint64_t position() const = 0;
};

/// Collects everything in memory.
class MemorySink final : public ByteSink {
 public:
  void write(Bytes bytes) override { core::append(bytes_, bytes); }
  std::uint64_t position() const override { return bytes_.size(); }
  const core::ByteVector& bytes() const { return bytes_; }
  core::ByteVector take() { return std::move(bytes_); }

 private:
  core::ByteVector bytes_;
};

/// Gathers small writes into large ones in front of another sink. Nothing is certain to have arrived before flush().
class BufferedSink final : public ByteSink {
 public:
  explicit BufferedSink(ByteSink& inner) : inner_(inner) {}
  void write(Bytes bytes) override;
  void write_from(const ByteSource& source) override;
  std::uint64_t position() const override { return inner_.position() + buffer_.size(); }
  void flush();

 private:
  ByteSink& inner_;
  core::ByteVector buffer_;
};

}  // namespace ckpt
