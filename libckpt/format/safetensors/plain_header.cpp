#include "libckpt/format/safetensors/plain_header.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "libckpt/format/safetensors/item.h"
#include "libckpt/io/checksum.h"
#include "libckpt/io/header_values.h"
#include "libckpt/io/json.h"
#include "libcore/base/bytes.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

constexpr std::size_t kMaxDigits = 18;  // any number of so many fits 63 bits
constexpr std::size_t kLeastText = std::string_view(R"("":{"dtype":"U8","shape":[],"data_offsets":[0,0]},)").size();
constexpr std::uint64_t kDepth =
    4;  // of the header, a tensor, its lists and their numbers, as the JSON document counts
constexpr std::size_t kMaxSizes = 16;  // more dimensions are for the JSON document

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// A place in the text that moves on over what it takes. After the first thing that is not plain all is refused.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  bool good() const { return good_; }
  std::size_t at() const { return at_; }
  void refuse() { good_ = false; }

  char peek() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take_if(char wanted) {
    if (peek() != wanted) return false;
    ++at_;
    return true;
  }
  void take(char wanted) {
    if (!take_if(wanted)) good_ = false;
  }

  /// Printable ASCII without escapes.
  std::string_view take_text() {
    take('"');
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_plain(text_[at_])) ++at_;
    const std::string_view found = text_.substr(begin, at_ - begin);
    if (at_ == text_.size() || text_[at_++] != '"') good_ = false;
    return found;
  }

  std::uint64_t take_count() {
    const char first = peek();
    const std::size_t begin = at_;
    std::uint64_t count = 0;
    for (; at_ < text_.size() && is_digit(text_[at_]) && at_ - begin < kMaxDigits; ++at_) {
      count = count * 10 + static_cast<std::uint64_t>(text_[at_] - '0');
    }
    const std::size_t digits = at_ - begin;
    if (digits == 0 || (first == '0' && digits > 1) || (at_ < text_.size() && is_digit(text_[at_]))) good_ = false;
    return count;
  }

  /// An object of any kind, whose brackets and texts are closed; how many commas and opening brackets it has is added.
  std::string_view take_object(std::uint64_t& values) {
    peek();
    const std::size_t begin = at_;
    std::size_t depth = 0;
    do {
      if (at_ == text_.size()) {
        good_ = false;
        return {};
      }
      const char c = text_[at_++];
      if (c == '"') skip_text();
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      if (c == '{' || c == '[' || c == ',') ++values;
    } while (depth > 0);
    return text_.substr(begin, at_ - begin);
  }

 private:
  static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
  static bool is_plain(char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; }

  void skip_text() {
    while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    at_ = std::min(at_ + 1, text_.size());
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool good_ = true;
};

/// Whether two texts have the same hash, which equal ones have; for texts that somebody chose to have one hash in
/// common it is as fast.
bool may_repeat(const std::vector<std::string_view>& texts) {
  std::vector<std::uint64_t> hashes;
  hashes.reserve(texts.size());
  for (std::string_view text : texts) hashes.push_back(hash128(core::as_bytes(text)).low);
  std::sort(hashes.begin(), hashes.end());
  return std::adjacent_find(hashes.begin(), hashes.end()) != hashes.end();
}

class PlainHeader {
 public:
  PlainHeader(SafetensorsHeader& header, const Limits& limits)
      : header_(header), limits_(limits), cursor_(header.text) {}

  bool read() {
    if (limits_.max_json_depth_header < kDepth) return false;
    header_.items.reserve(header_.text.size() / kLeastText + 1);  // memory that is not used is not there either
    cursor_.take('{');
    if (!cursor_.take_if('}')) {
      do {
        take_member();
      } while (cursor_.good() && cursor_.take_if(','));
      cursor_.take('}');
    }
    return cursor_.good() && cursor_.peek() == '\0' && cursor_.at() == header_.text.size() &&
           values_ <= most_header_values(header_.text.size(), limits_) && !may_repeat(names_);
  }

 private:
  void take_member() {
    ++values_;
    const std::string_view name = cursor_.take_text();
    cursor_.take(':');
    names_.push_back(name);
    if (!cursor_.good() || name.size() > limits_.max_name || names_.size() > limits_.max_tensors) {
      cursor_.refuse();
    } else if (name == kMetadataKey) {
      take_metadata();
    } else {
      take_tensor(name);
    }
  }

  void take_metadata() {
    if (cursor_.peek() != '{') return cursor_.refuse();
    const std::size_t begin = cursor_.at();
    const std::uint64_t before = values_;
    const std::string_view text = cursor_.take_object(values_);
    if (values_ - before > kMaxHeaderTexts) cursor_.refuse();  // before a document takes ten times its text
    if (!cursor_.good()) return;
    // One level of the depth is the header's.
    const JsonDocument json = JsonDocument::parse(text, {.max_depth = limits_.max_json_depth_header - 1});
    header_.metadata = read_metadata(json.root());
    header_.metadata_text = {begin, cursor_.at()};
  }

  void take_tensor(std::string_view name) {
    cursor_.peek();
    const std::size_t begin = cursor_.at();
    SafetensorsItem& item = header_.items.emplace_back();
    item.name = name;
    unsigned seen = 0;
    cursor_.take('{');
    do {
      seen |= take_field(item, seen);
    } while (cursor_.good() && cursor_.take_if(','));
    cursor_.take('}');
    if (seen != kAll) cursor_.refuse();
    if (!cursor_.good()) return;
    item.text = {begin, cursor_.at()};
    require_sound(item);
  }

  /// Its bit; a field that was seen, or that no tensor has, is refused.
  unsigned take_field(SafetensorsItem& item, unsigned seen) {
    ++values_;
    const std::string_view key = cursor_.take_text();
    cursor_.take(':');
    unsigned bit = 0;
    if (key == "dtype") {
      bit = kDtype;
      take_dtype(item);
    } else if (key == "shape") {
      bit = kShape;
      take_shape(item);
    } else if (key == "data_offsets") {
      bit = kOffsets;
      take_offsets(item);
    }
    if (bit == 0 || (seen & bit) != 0) cursor_.refuse();
    return bit;
  }

  void take_dtype(SafetensorsItem& item) {
    const std::string_view name = cursor_.take_text();
    if (name != last_name_ || name.empty()) {
      const std::optional<core::DType> dtype = safetensors_dtype(name);
      if (!dtype) return cursor_.refuse();
      last_name_ = name;
      last_dtype_ = *dtype;
    }
    item.dtype = last_dtype_;
  }

  void take_shape(SafetensorsItem& item) {
    ++values_;
    cursor_.take('[');
    if (cursor_.take_if(']')) return;
    do {
      ++values_;
      item.shape.push_back(static_cast<std::int64_t>(cursor_.take_count()));
    } while (cursor_.good() && item.shape.size() <= max_rank() && cursor_.take_if(','));
    cursor_.take(']');
    if (item.shape.size() > max_rank()) cursor_.refuse();
  }

  void take_offsets(SafetensorsItem& item) {
    values_ += 2;
    cursor_.take('[');
    item.begin = cursor_.take_count();
    cursor_.take(',');
    item.end = cursor_.take_count();
    cursor_.take(']');
  }

  std::size_t max_rank() const { return std::min<std::size_t>(kMaxSizes, limits_.max_rank); }

  static constexpr unsigned kDtype = 1, kShape = 2, kOffsets = 4, kAll = 7;

  SafetensorsHeader& header_;
  const Limits& limits_;
  Cursor cursor_;
  std::vector<std::string_view> names_;
  std::string_view last_name_;
  core::DType last_dtype_ = core::DType::f32;
  std::uint64_t values_ = 1;  ///< at least as many as header_values.h counts
};

}  // namespace

bool read_plain_header(SafetensorsHeader& header, const Limits& limits) {
  try {
    if (PlainHeader(header, limits).read()) return true;
  } catch (const core::Error&) {  // the JSON document says it of the right tensor, and what comes before it
  }
  header.items.clear();
  header.metadata.clear();
  header.metadata_text = {};
  return false;
}

}  // namespace ckpt::detail
