#include "libckpt/format/dcp/pickle_stream.h"

#include <algorithm>
#include <cstring>

#include "libckpt/format/torch/pickle_cursor.h"

namespace ckpt::detail {
namespace {

constexpr std::size_t kWindow = 256 << 10;  ///< bytes; longer texts are unusual
constexpr std::size_t kNear = 64 << 10;     ///< numbers of the memo that a table has
constexpr std::uint8_t kOldestProtocol = 2;
constexpr std::uint8_t kNewestProtocol = 5;

}  // namespace

PickleStream::PickleStream(const ByteSource& file)
    : file_(file),
      window_(std::clamp<std::uint64_t>(file.size(), 1, kWindow)),
      window_end_(window_.data()),
      at_(window_.data()),
      end_(window_.data()) {}

void PickleStream::start() {
  if (*bytes(1) != 0x80) throw Unusual();
  const auto protocol = number<std::uint8_t>();
  if (protocol < kOldestProtocol || protocol > kNewestProtocol) throw Unusual();
}

void PickleStream::finish() {
  expect('.');
  const bool whole = position() == file_.size() && (frame_end_ == 0 || frame_end_ == position());
  if (!whole) throw Unusual();
}

void PickleStream::set_end() {
  end_ = window_end_;
  if (frame_end_ == 0) return;
  const std::uint64_t left = frame_end_ - position();
  if (left < static_cast<std::uint64_t>(window_end_ - at_)) end_ = at_ + left;
}

/// More of the file behind what is left of the window.
void PickleStream::read_on() {
  const auto left = static_cast<std::size_t>(window_end_ - at_);
  const std::uint64_t next = window_at_ + static_cast<std::uint64_t>(window_end_ - window_.data());
  window_at_ = position();
  std::memmove(window_.data(), at_, left);
  const std::size_t more = std::min<std::uint64_t>(window_.size() - left, file_.size() - next);
  file_.read(next, std::as_writable_bytes(std::span(window_).subspan(left, more)));
  at_ = window_.data();
  window_end_ = window_.data() + left + more;
  set_end();
}

void PickleStream::fill(std::size_t count) {
  const bool crosses = frame_end_ != 0 && frame_end_ - position() < count;
  if (crosses || count > window_.size()) throw Unusual();
  read_on();
  if (static_cast<std::size_t>(end_ - at_) < count) throw Unusual();
}

void PickleStream::cross_frame() {
  for (;;) {
    if (at_ == end_ && frame_end_ != 0 && position() == frame_end_) {
      frame_end_ = 0;
      set_end();
    }
    if (at_ == end_) fill(1);
    if (*at_ != kFrame) return;
    open_frame();
  }
}

void PickleStream::open_frame() {
  if (frame_end_ != 0) throw Unusual();
  bytes(1);
  const auto length = number<std::uint64_t>();
  if (length == 0 || length > file_.size() - position()) throw Unusual();
  frame_end_ = position() + length;
  set_end();
}

std::int64_t PickleStream::count() {
  const std::uint8_t code = peek();
  ++at_;
  std::int64_t value = -1;
  if (code == 'K') {
    value = number<std::uint8_t>();
  } else if (code == 'M') {
    value = number<std::uint16_t>();
  } else if (code == 'J') {
    value = number<std::int32_t>();
  } else if (code == 0x8a) {
    const auto size = number<std::uint8_t>();
    const auto* digits = reinterpret_cast<const std::byte*>(bytes(size));
    value = small_integer({digits, size}).value_or(-1);
  }
  if (value < 0) throw Unusual();
  return value;
}

PickleWord PickleStream::word() {
  const std::uint8_t code = peek();
  ++at_;
  if (code == 'h') return recall(number<std::uint8_t>());
  if (code == 'j') return recall(number<std::uint32_t>());
  if (code == 0x8c) return new_text(number<std::uint8_t>());
  if (code == 'X') return new_text(number<std::uint32_t>());
  if (code != 'c') throw Unusual();
  const std::string module(line());
  return global(module, line());
}

std::uint32_t PickleStream::text() {
  const PickleWord word = this->word();
  if (!word.is_text()) throw Unusual();
  return word.number;
}

std::uint32_t PickleStream::symbol() {
  const PickleWord word = this->word();
  if (word.kind == PickleWord::Kind::plain) throw Unusual();
  return word.is_symbol() ? word.number : symbol_in(word.number);
}

std::uint32_t PickleStream::symbol_in(std::uint32_t module) {
  const std::uint32_t name = text();
  expect(0x93);
  return global(text_of(module), text_of(name)).number;
}

std::string_view PickleStream::line() {
  constexpr std::size_t kLongest = 256;
  for (;;) {
    const auto left = std::min<std::size_t>(static_cast<std::size_t>(end_ - at_), kLongest);
    const auto* stop = static_cast<const std::uint8_t*>(std::memchr(at_, '\n', left));
    if (stop != nullptr) {
      const auto size = static_cast<std::size_t>(stop - at_);
      return {reinterpret_cast<const char*>(bytes(size + 1)), size};
    }
    if (left == kLongest) throw Unusual();
    fill(left + 1);
  }
}

PickleWord PickleStream::new_text(std::uint64_t size) {
  const PickleWord word{PickleWord::Kind::text, intern({reinterpret_cast<const char*>(bytes(size)), size})};
  memoise(word.number);
  return word;
}

std::uint32_t PickleStream::intern(std::string_view text) {
  if (auto known = numbers_.find(text); known != numbers_.end()) return known->second;
  if (!is_pickle_utf8(text)) throw Unusual();
  auto at = numbers_.emplace(std::string(text), static_cast<std::uint32_t>(texts_.size())).first;
  texts_.push_back(&at->first);
  return at->second;
}

PickleWord PickleStream::global(std::string_view module, std::string_view name) {
  std::string full = std::string(module) + "\n" + std::string(name);
  auto [at, fresh] = symbol_numbers_.try_emplace(std::move(full), static_cast<std::uint32_t>(symbols_.size()));
  if (fresh) symbols_.push_back(make_symbol(module, name));
  memoise(kSymbol | at->second);
  return {PickleWord::Kind::symbol, at->second};
}

void PickleStream::memoise(std::uint32_t what) {
  const std::uint8_t code = peek();
  if (code != 0x94 && code != 'q' && code != 'r') return;
  ++at_;
  const bool next = code == 0x94 || memoised_ == (code == 'q' ? number<std::uint8_t>() : number<std::uint32_t>());
  if (!next) throw Unusual();
  if (memoised_ < kNear) {
    near_.push_back(what);
  } else if (what != kGone) {
    far_.push_back({memoised_, what});
  }
  ++memoised_;
}

std::uint32_t PickleStream::far_word(std::uint32_t index) {
  if (far_last_ < far_.size() && far_[far_last_].index == index) return far_[far_last_].word;
  auto at = std::ranges::lower_bound(far_, index, {}, &Far::index);
  if (at == far_.end() || at->index != index) return kGone;
  far_last_ = static_cast<std::size_t>(at - far_.begin());
  return at->word;
}

PickleWord PickleStream::recall(std::uint32_t index) {
  const std::uint32_t word = index < near_.size() ? near_[index] : far_word(index);
  if (word == kGone) throw Unusual();
  if (word == kPlain) return {PickleWord::Kind::plain, 0};
  return {(word & kSymbol) != 0 ? PickleWord::Kind::symbol : PickleWord::Kind::text, word & ~kSymbol};
}

}  // namespace ckpt::detail
