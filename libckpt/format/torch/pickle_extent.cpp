#include "libckpt/format/torch/pickle_extent.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "libcore/base/text.h"

namespace ckpt {
namespace {

/// What stands behind an opcode.
enum class Field : std::uint8_t {
  unknown,
  nothing,
  byte1,
  byte2,
  byte4,
  byte8,
  line,
  two_lines,
  counted1,
  counted4,
  counted4_signed,
  counted8,
};

constexpr std::array<Field, 256> make_fields() {
  std::array<Field, 256> fields{};
  auto set = [&](std::string_view codes, Field field) {
    for (char code : codes) fields[static_cast<unsigned char>(code)] = field;
  };
  using namespace std::string_view_literals;
  set(".(012N\x88\x89}]\x8f)t\x85\x86\x87ld\x91"
      "aesu\x90\x94\x93R\x81\x92obQ\x97\x98"sv,
      Field::nothing);
  set("\x80Kqh\x82"sv, Field::byte1);
  set("M\x83"sv, Field::byte2);
  set("Jrj\x84"sv, Field::byte4);
  set("\x95G"sv, Field::byte8);
  set("ILFSVpgP"sv, Field::line);
  set("ci"sv, Field::two_lines);
  set("\x8aU\x8c"
      "C"sv,
      Field::counted1);
  set("XB"sv, Field::counted4);
  set("T\x8b"sv, Field::counted4_signed);
  set("\x8d\x8e\x96"sv, Field::counted8);
  return fields;
}
constexpr std::array<Field, 256> kFields = make_fields();

/// Walks a source through a window of 64 KiB.
class Walker {
 public:
  Walker(const ByteSource& file, std::uint64_t offset) : file_(file), position_(offset) {}

  std::uint64_t position() const { return position_; }
  std::uint64_t left() const { return file_.size() - position_; }

  std::optional<std::uint64_t> number(unsigned width) {
    if (left() < width) return std::nullopt;
    std::uint64_t value = 0;
    for (unsigned i = 0; i < width; ++i) value |= std::uint64_t{next()} << (8 * i);
    return value;
  }
  bool skip(std::uint64_t count) {
    if (count > left()) return false;
    position_ += count;
    return true;
  }
  bool skip_line() {
    while (left() > 0) {
      if (next() == '\n') return true;
    }
    return false;
  }

 private:
  std::uint8_t next() {
    if (position_ < begin_ || position_ >= begin_ + window_.size()) load();
    return std::to_integer<std::uint8_t>(window_[position_++ - begin_]);
  }
  void load() {
    constexpr std::uint64_t kWindow = 64 << 10;
    begin_ = position_;
    window_.resize(std::min(kWindow, left()));
    file_.read(begin_, window_);
  }

  const ByteSource& file_;
  std::uint64_t position_;
  std::uint64_t begin_ = 0;
  core::ByteVector window_;
};

bool skip_counted(Walker& walker, unsigned width, bool is_signed) {
  std::optional<std::uint64_t> count = walker.number(width);
  if (!count || (is_signed && *count > 0x7fffffff)) return false;
  return walker.skip(*count);
}

bool skip_field(Walker& walker, Field field) {
  switch (field) {
    case Field::unknown:
      return false;
    case Field::nothing:
      return true;
    case Field::byte1:
      return walker.skip(1);
    case Field::byte2:
      return walker.skip(2);
    case Field::byte4:
      return walker.skip(4);
    case Field::byte8:
      return walker.skip(8);
    case Field::line:
      return walker.skip_line();
    case Field::two_lines:
      return walker.skip_line() && walker.skip_line();
    case Field::counted1:
      return skip_counted(walker, 1, false);
    case Field::counted4:
      return skip_counted(walker, 4, false);
    case Field::counted4_signed:
      return skip_counted(walker, 4, true);
    case Field::counted8:
      return skip_counted(walker, 8, false);
  }
  return false;
}

}  // namespace

PickleExtent find_pickle_end(const ByteSource& file, std::uint64_t offset, const Limits& limits) {
  Walker walker(file, offset);
  auto stop = [&](bool complete, std::string problem) {
    return PickleExtent{walker.position() - offset, complete, std::move(problem)};
  };
  for (std::uint64_t opcodes = 0; opcodes < limits.max_pickle_opcodes; ++opcodes) {
    std::uint64_t at = walker.position() - offset;
    if (at > limits.max_pickle_bytes) return stop(false, "the pickle is longer than " + core::format_size(at - 1));
    std::optional<std::uint64_t> code = walker.number(1);
    if (!code) return stop(false, "the pickle is cut off: it ends without STOP");
    if (*code == '.') return stop(true, "");
    Field field = kFields[*code];
    if (field == Field::unknown) {
      return stop(false, "the pickle is damaged at byte " + std::to_string(at + 1) + ": unknown opcode " +
                             std::to_string(*code));
    }
    if (!skip_field(walker, field)) {
      walker.skip(walker.left());
      return stop(false, "the pickle is cut off inside the opcode at byte " + std::to_string(at));
    }
  }
  return stop(false, "the pickle has more than " + core::format_count(limits.max_pickle_opcodes) + " opcodes");
}

}  // namespace ckpt
