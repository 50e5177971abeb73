#include "libckpt/io/checksum.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <new>

#include "libckpt/io/scratch.h"
#include "libckpt/io/xxh3.h"
#include "libcore/backend/cpu/isa.h"

namespace ckpt {
namespace {

constexpr std::uint64_t kHashedPart = 1 << 20;

Hash128 from(detail::Xxh3::Hash hash) {
  return {hash.low, hash.high};
}

}  // namespace

const detail::Xxh3& detail::xxh3_here() {
#if defined(__x86_64__)
  static const bool has_avx2 = core::cpu::isa() >= core::cpu::Isa::avx2;
  if (has_avx2) return kXxh3Avx2;
#endif
  return kXxh3Plain;
}

struct Hasher128::State {
  State() : functions(detail::xxh3_here()), memory(::operator new(functions.state_size, alignment())) {
    functions.reset(memory);
  }
  ~State() { ::operator delete(memory, alignment()); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  std::align_val_t alignment() const { return std::align_val_t{functions.state_alignment}; }

  const detail::Xxh3& functions;
  void* memory;
};

Hasher128::Hasher128() : state_(std::make_unique<State>()) {}
Hasher128::~Hasher128() = default;
Hasher128::Hasher128(Hasher128&&) noexcept = default;
Hasher128& Hasher128::operator=(Hasher128&&) noexcept = default;

void Hasher128::update(Bytes bytes) {
  state_->functions.update(state_->memory, bytes.data(), bytes.size());
}

Hash128 Hasher128::finish() const {
  return from(state_->functions.digest(state_->memory));
}

std::string to_hex(const Hash128& hash) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::uint64_t half : {hash.high, hash.low}) {
    for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[half >> shift & 15];
  }
  return text;
}

Hash128 hash128(Bytes bytes) {
  return from(detail::xxh3_here().whole(bytes.data(), bytes.size()));
}

Hash128 hash128(const ByteSource& source) {
  Hasher128 hasher;
  for_each_part(source, [&](Bytes part) { hasher.update(part); });
  return hasher.finish();
}

std::uint32_t crc32(Bytes bytes, std::uint32_t so_far) {
  return ::crc32_gzip_refl(so_far, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

std::uint32_t crc32(const ByteSource& source) {
  std::uint32_t crc = 0;
  for_each_part(source, [&](Bytes part) { crc = crc32(part, crc); });
  return crc;
}

void for_each_part(const ByteSource& source, const std::function<void(Bytes)>& body) {
  Bytes memory = source.memory();
  const detail::Scratch room(memory.empty() ? std::min(kHashedPart, source.size()) : 0);
  for (std::uint64_t done = 0; done < source.size();) {
    std::uint64_t length = std::min(kHashedPart, source.size() - done);
    if (memory.empty()) source.read(done, room.bytes().first(length));
    body(memory.empty() ? Bytes(room.bytes().first(length)) : memory.subspan(done, length));
    done += length;
  }
  source.require_unchanged();
}

}  // namespace ckpt
