#pragma once
// Event files read for tests: records whose checksums are checked bit by bit, and their messages as trees of fields.
// Use: for (const test::Message& event : test::read_events(file)) event.at(5).at(1).bytes(1);

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace test {

/// A protocol buffer: for each field number what stands there, in order.
class Message {
 public:
  explicit Message(std::string_view encoded);
  bool has(int field) const { return fields_.count(field) != 0; }
  /// The first value of a field; the others throw std::out_of_range when there is none.
  const std::string& bytes(int field) const { return fields_.at(field).front(); }
  const std::string& at_text(int field, std::size_t i) const { return fields_.at(field).at(i); }
  std::size_t count(int field) const { return has(field) ? fields_.at(field).size() : 0; }
  Message at(int field, std::size_t i = 0) const { return Message(fields_.at(field).at(i)); }
  std::int64_t integer(int field) const;
  double real(int field) const;
  float real32(int field) const;
  std::vector<double> reals(int field) const;

 private:
  std::map<int, std::vector<std::string>> fields_;  // numbers as their eight or four bytes
};

/// CRC-32C, one bit at a time.
std::uint32_t slow_crc32c(std::string_view bytes);
/// Throws std::runtime_error when a record is cut off or a checksum is wrong.
std::vector<Message> read_events(const std::filesystem::path& file);

}  // namespace test
