#include "libckpt/format/torch/pickle_extent.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "libckpt/io/byte_window.h"
#include "libcore/base/error.h"
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

class Walker {
 public:
  Walker(const ByteSource& file, std::uint64_t offset) : bytes_(file), position_(offset) {}

  std::uint64_t position() const { return position_; }
  std::uint64_t left() const { return bytes_.source().size() - position_; }

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
  std::uint8_t next() { return std::to_integer<std::uint8_t>(bytes_.at(position_++)); }

  ByteWindow bytes_;
  std::uint64_t position_;
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

using namespace std::string_view_literals;

/// Written in place of a run, before its number. A file that has it by itself names another run of its own bytes.
constexpr std::string_view kStandIn = "ckpt: a long run"sv;
constexpr std::uint64_t kLeastRun = 4096;
constexpr std::uint64_t kRunNumber = 8;

/// Copies a pickle, and leaves out its long runs.
class Outliner {
 public:
  Outliner(const ByteSource& file, const Limits& limits, BuildRuns* runs)
      : file_(file), walker_(file, 0), limits_(limits), runs_(runs) {}

  PickleOutline run() {
    for (std::uint64_t opcodes = 0;; ++opcodes) {
      if (opcodes >= limits_.max_pickle_opcodes) {
        throw core::Error(core::ErrorCode::refused,
                          "the pickle has more than " + core::format_count(limits_.max_pickle_opcodes) + " opcodes");
      }
      std::optional<std::uint64_t> code = walker_.number(1);
      if (!code) fail("the pickle is cut off: it ends without STOP");
      if (*code == '.') break;
      step(*code);
    }
    copy_to(walker_.position());
    out_.length = walker_.position();
    return std::move(out_);
  }

 private:
  [[noreturn]] static void fail(const std::string& what) { throw core::Error(core::ErrorCode::corrupt, what); }

  void step(std::uint64_t code) {
    const std::uint64_t start = walker_.position() - 1;
    const bool framed = start < frame_end_;
    const Field field = kFields[code];
    if (code == 0x95) {
      std::optional<std::uint64_t> length = walker_.number(8);
      if (!length || *length > walker_.left()) fail("the pickle is cut off inside the opcode at byte " + at(start));
      frame_end_ = walker_.position() + *length;
      if (runs_ != nullptr) {
        copy_to(start);
        copied_ = walker_.position();
      }
      return;
    }
    if (!skip_field(walker_, field)) {
      fail(field == Field::unknown ? "the pickle is damaged at byte " + at(start) + ": unknown opcode"
                                   : "the pickle is cut off inside the opcode at byte " + at(start));
    }
    if (code == 'b' && runs_ != nullptr) ask_behind(start);
    // A frame says how long it is; long runs stand outside of frames.
    const bool bytes = code == 'B' || code == 0x8e || code == 0x96;
    const std::uint64_t head = 1 + (field == Field::counted4 ? 4 : 8);
    if (bytes && !framed && walker_.position() - start - head >= kLeastRun) leave_out(start, head, field);
  }

  static std::string at(std::uint64_t position) { return std::to_string(position); }

  /// Puts a run that lies behind BUILD, at `start`, into the state before it.
  void ask_behind(std::uint64_t start) {
    copy_to(start);
    const std::size_t known = std::exchange(asked_, out_.pickle.size());
    const std::optional<PickleOutline::Run> run =
        runs_->run_behind(core::Bytes(out_.pickle).subspan(known), walker_.position());
    if (!run) return;
    core::append_le<std::uint8_t>(out_.pickle, 0x8c);  // SHORT_BINUNICODE, BINBYTES8, SETITEM, BUILD
    core::append_le(out_.pickle, static_cast<std::uint8_t>(kRunKey.size()));
    core::append(out_.pickle, core::as_bytes(kRunKey));
    core::append_le<std::uint8_t>(out_.pickle, 0x8e);
    core::append_le<std::uint64_t>(out_.pickle, kStandIn.size() + kRunNumber);
    core::append(out_.pickle, core::as_bytes(kStandIn));
    core::append_le<std::uint64_t>(out_.pickle, out_.runs.size());
    core::append(out_.pickle, core::as_bytes("sb"sv));
    out_.runs.push_back(*run);
    if (!walker_.skip(run->offset + run->length - walker_.position()))
      fail("the pickle is cut off: values are missing");
    copied_ = walker_.position();
  }

  void leave_out(std::uint64_t start, std::uint64_t head, Field field) {
    copy_to(start + 1);
    constexpr std::uint64_t kLength = kStandIn.size() + kRunNumber;
    field == Field::counted4 ? core::append_le(out_.pickle, static_cast<std::uint32_t>(kLength))
                             : core::append_le(out_.pickle, kLength);
    core::append(out_.pickle, core::as_bytes(kStandIn));
    core::append_le<std::uint64_t>(out_.pickle, out_.runs.size());
    out_.runs.push_back({start + head, walker_.position() - start - head});
    copied_ = walker_.position();
  }

  /// All since the last run.
  void copy_to(std::uint64_t end) {
    const std::uint64_t known = out_.pickle.size();
    if (end - copied_ > limits_.max_pickle_bytes - known) {
      throw core::Error(core::ErrorCode::refused,
                        "the pickle is longer than " + core::format_size(limits_.max_pickle_bytes));
    }
    out_.pickle.resize(known + (end - copied_));
    file_.read(copied_, core::MutableBytes(out_.pickle).subspan(known));
    copied_ = end;
  }

  const ByteSource& file_;
  Walker walker_;
  const Limits& limits_;
  BuildRuns* runs_;
  PickleOutline out_;
  std::size_t asked_ = 0;  ///< up to where of the outline runs_ was asked
  std::uint64_t copied_ = 0;
  std::uint64_t frame_end_ = 0;
};

}  // namespace

const PickleOutline::Run* PickleOutline::run_behind(core::Bytes bytes) const {
  if (bytes.size() != kStandIn.size() + kRunNumber || !core::as_text(bytes).starts_with(kStandIn)) return nullptr;
  auto number = core::load_le<std::uint64_t>(bytes.data() + kStandIn.size());
  return number < runs.size() ? &runs[number] : nullptr;
}

PickleOutline outline_pickle(const ByteSource& file, const Limits& limits, BuildRuns* runs) {
  return Outliner(file, limits, runs).run();
}

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
