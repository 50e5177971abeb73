#include "tests/libcore/tensorboard/event_reader.h"

#include <cstring>
#include <stdexcept>

#include "tests/support/temp_dir.h"

namespace test {
namespace {

template <class T>
T number_at(std::string_view bytes) {
  T value;
  if (bytes.size() < sizeof value) throw std::runtime_error("a number is cut off");
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

std::string_view take(std::string_view& bytes, std::size_t size) {
  if (bytes.size() < size) throw std::runtime_error("cut off");
  const std::string_view part = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return part;
}

std::uint64_t take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(take(bytes, 1)[0]);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
}

std::uint32_t masked(std::string_view bytes) {
  const std::uint32_t crc = slow_crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

std::string_view take_checked(std::string_view& bytes, std::size_t size) {
  const std::string_view part = take(bytes, size);
  if (number_at<std::uint32_t>(take(bytes, 4)) != masked(part)) throw std::runtime_error("a wrong checksum");
  return part;
}

}  // namespace

Message::Message(std::string_view encoded) {
  while (!encoded.empty()) {
    const std::uint64_t key = take_varint(encoded);
    std::string value;
    if (const auto kind = key & 7; kind == 0) {
      const std::uint64_t number = take_varint(encoded);
      value.assign(reinterpret_cast<const char*>(&number), sizeof number);
    } else if (kind == 2) {
      const std::uint64_t size = take_varint(encoded);
      value = take(encoded, size);
    } else {
      value = take(encoded, kind == 1 ? 8 : 4);
    }
    fields_[static_cast<int>(key >> 3)].push_back(value);
  }
}

std::int64_t Message::integer(int field) const {
  return number_at<std::int64_t>(bytes(field));
}

double Message::real(int field) const {
  return number_at<double>(bytes(field));
}

float Message::real32(int field) const {
  return number_at<float>(bytes(field));
}

std::vector<double> Message::reals(int field) const {
  std::vector<double> values;
  for (std::string_view rest = bytes(field); !rest.empty();) values.push_back(number_at<double>(take(rest, 8)));
  return values;
}

std::uint32_t slow_crc32c(std::string_view bytes) {
  std::uint32_t crc = ~std::uint32_t{0};
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
  }
  return ~crc;
}

std::vector<Message> read_events(const std::filesystem::path& file) {
  const std::string content = read_file(file);
  std::vector<Message> events;
  for (std::string_view rest = content; !rest.empty();) {
    const auto size = number_at<std::uint64_t>(take_checked(rest, 8));
    events.emplace_back(take_checked(rest, size));
  }
  return events;
}

}  // namespace test
