#pragma once
// Numbers and texts as bytes that ranks send each other: numbers as short as they are. Thread safety: one owner. Use:
// MessageWriter out; out.number(7); out.text("a"); MessageReader in(bytes); in.number();

#include <cstdint>
#include <string>
#include <string_view>

namespace ckpt::dist {

class MessageWriter {
 public:
  void number(std::uint64_t value);
  void text(std::string_view text);
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

class MessageReader {
 public:
  explicit MessageReader(std::string_view bytes) : rest_(bytes) {}
  /// Errors of both: Error(corrupt) past the end, so no count is believed before its bytes are there.
  std::uint64_t number();
  std::string_view text();
  bool at_end() const { return rest_.empty(); }
  /// A number that says how many parts follow, each of at least a byte.
  std::uint64_t count();

 private:
  std::string_view rest_;
};

}  // namespace ckpt::dist
