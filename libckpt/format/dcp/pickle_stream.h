#pragma once
// PickleStream: the words of a pickle one after the other, through a window, for a reader that knows what has to come:
// texts, symbols, whole numbers and the opcodes around them. What the memo has of anything else is not kept. It makes
// no objects and says no errors: what it does not expect is Unusual, and read by PickleMachine, which finds words for
// it. Thread safety: one owner. Use: PickleStream in(file); in.start(); if (in.take('(')) ...; PickleWord w =
// in.word();

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "libckpt/format/torch/symbols.h"
#include "libckpt/io/byte_source.h"

namespace ckpt::detail {

/// Number of a text or of a symbol in its PickleStream, or something of which nothing was kept but that it is harmless.
struct PickleWord {
  enum class Kind : std::uint8_t { text, symbol, plain };
  Kind kind = Kind::text;
  std::uint32_t number = 0;

  bool is_text() const { return kind == Kind::text; }
  bool is_symbol() const { return kind == Kind::symbol; }
};

class PickleStream {
 public:
  /// Thrown, here and by who reads on, for a pickle that is to be read as a whole.
  struct Unusual {};

  /// Errors of all reads: Error(io) of the file.
  explicit PickleStream(const ByteSource& file);

  /// The mark of the protocol.
  void start();
  /// STOP, which is the last byte.
  void finish();

  /// The code of the next opcode. Frames are opened and closed on the way, and no field may cross their ends.
  std::uint8_t peek() {
    if (at_ == end_ || *at_ == kFrame) cross_frame();
    return *at_;
  }
  bool take(std::uint8_t code) {
    if (peek() != code) return false;
    ++at_;
    return true;
  }
  void expect(std::uint8_t code) {
    if (!take(code)) throw Unusual();
  }
  /// A number from 0 on.
  std::int64_t count();
  /// A text, or a symbol that is one word.
  PickleWord word();
  std::uint32_t text();
  /// Also of two texts, as newer protocols name it.
  std::uint32_t symbol();
  /// The symbol behind the text of its module, which was read already.
  std::uint32_t symbol_in(std::uint32_t module);

  /// What was read last gets a number in the memo, where the pickle says so, and is not kept.
  void forget() { memoise(kGone); }
  /// The same of what says nothing, which the pickle may come back to.
  void keep_plain() { memoise(kPlain); }

  /// A number for a text that will come.
  std::uint32_t intern(std::string_view text);
  const std::string& text_of(std::uint32_t number) const { return *texts_[number]; }
  const PickleSymbol& symbol_of(std::uint32_t number) const { return symbols_[number]; }
  /// All that were named so far, also those that the pickle drops again.
  const std::vector<PickleSymbol>& symbols() const { return symbols_; }

 private:
  static constexpr std::uint8_t kFrame = 0x95;
  static constexpr std::uint32_t kGone = 0xffffffff;
  static constexpr std::uint32_t kPlain = 0xfffffffe;
  static constexpr std::uint32_t kSymbol = 0x80000000;

  const std::uint8_t* bytes(std::size_t count) {
    if (static_cast<std::size_t>(end_ - at_) < count) fill(count);
    const std::uint8_t* from = at_;
    at_ += count;
    return from;
  }
  template <class T>
  T number() {
    return core::load_le<T>(reinterpret_cast<const std::byte*>(bytes(sizeof(T))));
  }
  std::uint64_t position() const { return window_at_ + static_cast<std::uint64_t>(at_ - window_.data()); }
  void cross_frame();
  void open_frame();
  void fill(std::size_t count);
  void read_on();
  void set_end();
  std::string_view line();
  PickleWord new_text(std::uint64_t size);
  PickleWord recall(std::uint32_t index);
  PickleWord global(std::string_view module, std::string_view name);
  /// Remembers a word under the next number, where an opcode asks for it.
  void memoise(std::uint32_t what);
  std::uint32_t far_word(std::uint32_t index);

  const ByteSource& file_;
  std::vector<std::uint8_t> window_;
  std::uint64_t window_at_ = 0;  ///< where in the file it begins
  std::uint8_t* window_end_;     ///< of what was read
  const std::uint8_t* at_;
  const std::uint8_t* end_;          ///< of the window or of the frame
  std::uint64_t frame_end_ = 0;      ///< in the file; 0 outside of frames
  std::uint32_t memoised_ = 0;       ///< numbers given
  std::vector<std::uint32_t> near_;  ///< words of the first numbers; kGone for what was not kept
  struct Far {
    std::uint32_t index;
    std::uint32_t word;
  };
  std::vector<Far> far_;      ///< words of later numbers
  std::size_t far_last_ = 0;  ///< the one that was asked for last
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>> numbers_;
  std::vector<const std::string*> texts_;
  std::unordered_map<std::string, std::uint32_t> symbol_numbers_;
  std::vector<PickleSymbol> symbols_;
};

}  // namespace ckpt::detail
