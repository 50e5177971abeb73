#include "tests/mutations/mutator.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <random>

#include "libckpt/io/byte_sink.h"
#include "libckpt/io/zip.h"
#include "libcore/base/error.h"

namespace test {
namespace {

using Random = std::mt19937_64;

/// What a length says that wants to do harm.
constexpr std::array<std::uint64_t, 12> kLengths = {
    0, 1, 0x7f, 0xff, 0xffff, 1ULL << 31, 0x7fffffff, 0xffffffff, 1ULL << 32, 1ULL << 62, UINT64_MAX / 2, UINT64_MAX};

void put_number(std::string& bytes, std::size_t at, std::size_t width, std::uint64_t value) {
  for (std::size_t i = 0; i < width && at + i < bytes.size(); ++i) bytes[at + i] = static_cast<char>(value >> (8 * i));
}

std::uint64_t number_at(const std::string& bytes, std::size_t at, std::size_t width) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < width && at + i < bytes.size(); ++i) {
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  }
  return value;
}

/// From `from` on, the first place that may hold a length: a number that is neither 0 nor more than the file has.
std::size_t find_length(const std::string& bytes, std::size_t from, std::size_t width) {
  for (std::size_t at = from; at + width <= bytes.size(); ++at) {
    std::uint64_t value = number_at(bytes, at, width);
    if (value > 0 && value <= bytes.size()) return at;
  }
  return from;
}

void change_length(std::string& bytes, std::size_t at, Random& random) {
  constexpr std::array<std::size_t, 4> kWidths = {1, 2, 4, 8};
  std::size_t width = kWidths[random() % kWidths.size()];
  if (random() % 4 != 0) at = find_length(bytes, at, width);
  std::uint64_t old = number_at(bytes, at, width);
  std::uint64_t choice = random() % (kLengths.size() + 3);
  std::uint64_t value = choice < kLengths.size() ? kLengths[choice] : old + (choice - kLengths.size()) - 1;
  put_number(bytes, at, width, value);
}

/// A number that is written in digits, as JSON and headers of arrays do.
void change_digits(std::string& bytes, std::size_t at, Random& random) {
  auto is_digit = [&](std::size_t i) { return std::isdigit(static_cast<unsigned char>(bytes[i])) != 0; };
  while (at < bytes.size() && !is_digit(at)) ++at;
  std::size_t end = at;
  while (end < bytes.size() && is_digit(end)) ++end;
  if (at < end) bytes.replace(at, end - at, std::to_string(kLengths[random() % kLengths.size()]));
}

void change(std::string& bytes, const std::string& other, Random& random) {
  if (bytes.empty()) bytes.assign(1, '\0');
  std::size_t at = random() % bytes.size();
  std::size_t length = 1 + random() % std::min<std::size_t>(64, bytes.size() - at);
  switch (random() % 12) {
    case 0:
      return bytes.resize(at);
    case 1:
    case 2:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
      return;
    case 3:
    case 4:
    case 5:
      return change_length(bytes, at, random);
    case 6:
      return change_digits(bytes, at, random);
    case 7:
      std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), length, random() % 2 == 0 ? '\xff' : '\0');
      return;
    case 8:
      bytes.erase(at, length);
      return;
    case 9:
      bytes.insert(random() % bytes.size(), bytes.substr(at, length));
      return;
    case 10:
      bytes += random() % 2 == 0 ? bytes : bytes.substr(at);
      return;
    default:
      if (!other.empty()) bytes.replace(at, length, other.substr(random() % other.size(), 1 + random() % 256));
  }
}

/// Changes one member and writes the archive anew, with the checksums that it must have, so that the change gets past
/// them. False where this is no archive that can be read.
bool change_member(std::string& bytes, const std::string& other, Random& random) {
  if (!bytes.starts_with("PK")) return false;
  try {
    core::Bytes view = core::as_bytes(bytes);
    auto zip = ckpt::ZipArchive::open(ckpt::memory_source(core::ByteVector(view.begin(), view.end())));
    if (zip.members().empty()) return false;
    std::size_t chosen = random() % zip.members().size();
    std::vector<ckpt::ZipItem> items;
    for (const ckpt::ZipMember& member : zip.members()) {
      core::ByteVector content = ckpt::read_all(*zip.payload(member));
      std::string text(core::as_text(content));
      bool pickle = member.name.ends_with(".pkl") && random() % 2 == 0;
      if (items.size() == chosen || pickle) change(text, other, random);
      core::Bytes now = core::as_bytes(text);
      items.push_back({member.name, ckpt::memory_source(core::ByteVector(now.begin(), now.end()))});
    }
    ckpt::MemorySink sink;
    ckpt::ZipWriter(std::move(items)).write(sink);
    core::ByteVector made = sink.take();
    bytes = core::as_text(made);
    return true;
  } catch (const core::Error&) {
    return false;
  }
}

}  // namespace

/// One change in eight of what the helper program reads is made; the others are of the file behind it.
const Seed& Mutator::choose(std::uint64_t number) const {
  constexpr std::uint64_t kOf = 8;
  const Seed& seed = seeds_[number % seeds_.size()];
  if (!seed.needs_helper || number / seeds_.size() % kOf == 0) return seed;
  for (std::size_t i = 1; i < seeds_.size(); ++i) {
    const Seed& next = seeds_[(number + i) % seeds_.size()];
    if (!next.needs_helper) return next;
  }
  return seed;
}

Mutation Mutator::make(std::uint64_t number) const {
  Random random(number);
  Mutation made;
  made.seed = &choose(number);
  made.file = random() % made.seed->files.size();
  made.bytes = made.seed->files[made.file].bytes;
  const Seed& stranger = seeds_[random() % seeds_.size()];
  const std::string& other = stranger.files[random() % stranger.files.size()].bytes;
  if (random() % 2 == 0 && change_member(made.bytes, other, random)) return made;
  for (std::uint64_t changes = 1 + random() % 3; changes > 0; --changes) change(made.bytes, other, random);
  return made;
}

}  // namespace test
