#include "libckpt/io/checksum.h"

#include <libdeflate.h>
#include <xxhash.h>

#include <algorithm>
#include <new>

namespace ckpt {
namespace {

constexpr std::uint64_t kHashedPart = 1 << 20;

Hash128 from_xxh(XXH128_hash_t hash) {
  return {hash.low64, hash.high64};
}

}  // namespace

struct Hasher128::State {
  State() : xxh(XXH3_createState()) {
    if (xxh == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(xxh);
  }
  ~State() { XXH3_freeState(xxh); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  XXH3_state_t* xxh;
};

Hasher128::Hasher128() : state_(std::make_unique<State>()) {}
Hasher128::~Hasher128() = default;
Hasher128::Hasher128(Hasher128&&) noexcept = default;
Hasher128& Hasher128::operator=(Hasher128&&) noexcept = default;

void Hasher128::update(Bytes bytes) {
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}

Hash128 Hasher128::finish() const {
  return from_xxh(XXH3_128bits_digest(state_->xxh));
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
  return from_xxh(XXH3_128bits(bytes.data(), bytes.size()));
}

Hash128 hash128(const ByteSource& source) {
  Hasher128 hasher;
  for_each_part(source, [&](Bytes part) { hasher.update(part); });
  return hasher.finish();
}

std::uint32_t crc32(Bytes bytes, std::uint32_t so_far) {
  return libdeflate_crc32(so_far, bytes.data(), bytes.size());
}

std::uint32_t crc32(const ByteSource& source) {
  std::uint32_t crc = 0;
  for_each_part(source, [&](Bytes part) { crc = crc32(part, crc); });
  return crc;
}

void for_each_part(const ByteSource& source, const std::function<void(Bytes)>& body) {
  Bytes memory = source.memory();
  core::ByteVector buffer(memory.empty() ? std::min(kHashedPart, source.size()) : 0);
  for (std::uint64_t done = 0; done < source.size();) {
    std::uint64_t length = std::min(kHashedPart, source.size() - done);
    if (memory.empty()) source.read(done, MutableBytes(buffer).first(length));
    body(memory.empty() ? Bytes(buffer).first(length) : memory.subspan(done, length));
    done += length;
  }
  source.require_unchanged();
}

}  // namespace ckpt
