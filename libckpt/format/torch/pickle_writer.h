#pragma once
// PickleWriter: the opcodes of protocol 2 that torch.load(weights_only=True) and libtorch both read. It knows bytes,
// not meaning. Thread safety: one owner. Use: PickleWriter w; w.text("a"); w.stop(); w.take();

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "libcore/base/bytes.h"

namespace ckpt {

class PickleWriter {
 public:
  PickleWriter();

  void none() { op('N'); }
  void boolean(bool value) { op(value ? 0x88 : 0x89); }
  void integer(std::int64_t value);
  /// An integer past 64 bits, two's complement.
  void big_integer(core::Bytes twos_complement);
  void real(double value);
  void text(std::string_view utf8);
  /// The symbol "module.name"; the second time from the memo.
  void global(std::string_view symbol);
  /// A text that comes again and again ("storage", "cpu"): the second time from the memo.
  void common_text(std::string_view utf8);

  void mark() { op('('); }
  void empty_dict() { op('}'); }
  void empty_list() { op(']'); }
  void empty_tuple() { op(')'); }
  /// Closes the tuple whose members were written; `count` says how many. Past three they stand behind a mark.
  static bool tuple_needs_mark(std::size_t count) { return count > 3; }
  void close_tuple(std::size_t count);
  void append() { op('a'); }
  void appends() { op('e'); }
  void set_item() { op('s'); }
  void set_items() { op('u'); }
  void reduce() { op('R'); }
  void new_object() { op(0x81); }
  /// Protocol 4; only for objects that weights_only refuses anyway.
  void new_object_kwargs() { op(0x92); }
  void build() { op('b'); }
  void persistent_id() { op('Q'); }
  void stop() { op('.'); }
  /// Drops the object on top, which the memo may keep.
  void pop() { op('0'); }

  /// Remembers the object on top and gives its number.
  std::uint32_t put();
  void get(std::uint32_t number);
  /// How many objects are remembered; the last has the number below this.
  std::uint32_t memo_size() const { return memo_size_; }

  std::size_t size() const { return out_.size(); }
  core::ByteVector take() { return std::move(out_); }

 private:
  void op(int code) { out_.push_back(static_cast<std::byte>(code)); }

  core::ByteVector out_;
  std::uint32_t memo_size_ = 0;
  std::unordered_map<std::string, std::uint32_t> symbols_;
  std::unordered_map<std::string, std::uint32_t> texts_;
};

}  // namespace ckpt
