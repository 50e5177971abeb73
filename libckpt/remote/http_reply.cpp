#include "libckpt/remote/http_reply.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

constexpr std::uint64_t kMostHeaders = 64 << 10;
constexpr std::uint64_t kMostDropped = 64 << 10;  ///< of a page that says what went wrong; more is cut off
constexpr std::uint64_t kMostBytes = 1ULL << 62;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  std::size_t first = std::min(text.find_first_not_of(kSpace), text.size());
  std::size_t last = text.find_last_not_of(kSpace);
  return last == std::string_view::npos ? std::string_view() : text.substr(first, last - first + 1);
}

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool good = !text.empty() && error == std::errc() && end == text.data() + text.size() && value <= kMostBytes;
  return good ? std::optional(value) : std::nullopt;
}

struct ContentRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::uint64_t size = 0;
};

/// "bytes 0-262143/107374182400".
std::optional<ContentRange> parse_range(std::string_view text) {
  if (!text.starts_with("bytes ")) return std::nullopt;
  text = trimmed(text.substr(6));
  std::size_t dash = std::min(text.find('-'), text.size());
  std::size_t slash = std::min(text.find('/'), text.size());
  if (dash >= slash || slash == text.size()) return std::nullopt;
  auto first = number(text.substr(0, dash));
  auto last = number(text.substr(dash + 1, slash - dash - 1));
  auto size = number(text.substr(slash + 1));
  if (!first || !last || !size || *first > *last || *last >= *size) return std::nullopt;
  return ContentRange{*first, *last, *size};
}

/// `<https://hub/api/...?cursor=x>; rel="next"`: the address; "" for another one.
std::string_view next_of(std::string_view link) {
  for (std::size_t begin = link.find('<'); begin != std::string_view::npos; begin = link.find('<', begin + 1)) {
    const std::size_t end = link.find('>', begin);
    if (end == std::string_view::npos) break;
    const std::string_view relation = link.substr(end, link.find(',', end) - end);
    const bool is_next =
        relation.find("rel=\"next\"") != std::string_view::npos || relation.find("rel=next") != std::string_view::npos;
    if (is_next) return link.substr(begin + 1, end - begin - 1);
  }
  return "";
}

}  // namespace

bool HttpReply::header(std::string_view line) {
  header_bytes_ += line.size();
  if (header_bytes_ > kMostHeaders) return fail("sends more than 64 KiB of headers");
  line = trimmed(line);
  if (line.empty()) return status_ < 200 || judge();  // 1xx: the answer itself is still to come
  if (line.starts_with("HTTP/")) {
    begin(line);
    return true;
  }
  std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return true;
  std::string name(line.substr(0, colon));
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  keep(name, trimmed(line.substr(colon + 1)));
  return true;
}

void HttpReply::begin(std::string_view status_line) {
  std::size_t space = std::min(status_line.find(' '), status_line.size());
  status_ = static_cast<int>(number(trimmed(status_line.substr(space)).substr(0, 3)).value_or(0));
  range_.clear();
  encoding_.clear();
  length_.reset();
  version_ = {};
  next_.clear();
}

void HttpReply::keep(std::string_view name, std::string_view value) {
  if (name == "content-range") range_ = value;
  if (name == "content-encoding") encoding_ = value;
  if (name == "content-length") length_ = number(value);
  if (name == "etag") version_.etag = value;
  if (name == "last-modified") version_.modified = value;
  if (name == "link") next_ = next_of(value);
  bool is_commit = name == "x-repo-commit" && value.size() == 40 &&
                   std::ranges::all_of(value, [](unsigned char c) { return std::isxdigit(c) != 0; });
  if (is_commit) commit_ = value;
}

bool HttpReply::judge() {
  if (status_ != 200 && status_ != 206) return true;  // a redirect or a failure: its page is of no interest
  if (!encoding_.empty() && encoding_ != "identity") {
    return fail("sends the file packed (" + core::quote(encoding_, 40) + "), although plain bytes were asked for");
  }
  taking_ = true;
  return status_ == 206 ? judge_part() : judge_whole();
}

bool HttpReply::judge_part() {
  if (request_.whole) return fail("sends a part where nobody asked for one");
  std::optional<ContentRange> range = parse_range(range_);
  if (!range) return fail("sends a part and does not say which: " + core::quote(range_, 80));
  version_.size = range->size;
  if (const auto& known = request_.version) {
    changed_ = known->size != range->size || (!known->etag.empty() && known->etag != version_.etag) ||
               (!known->modified.empty() && known->modified != version_.modified);
    if (changed_) return false;
  }
  std::uint64_t there = request_.offset < range->size ? range->size - request_.offset : 0;
  expected_ = std::min<std::uint64_t>(room_.size(), there);
  std::uint64_t sent = range->last - range->first + 1;
  if (range->first != request_.offset || sent != expected_) {
    return fail("sends other bytes than were asked for: " + core::quote(range_, 80) + " where " +
                core::format_count(expected_) + " bytes at byte " + core::format_count(request_.offset) +
                " were wanted");
  }
  if (length_ && *length_ != expected_) {
    return fail("contradicts itself about the length of a part: " + core::format_count(*length_) + " bytes and " +
                core::quote(range_, 80));
  }
  return true;
}

bool HttpReply::judge_whole() {
  if (request_.whole) {
    expected_ = length_.value_or(room_.size());
    if (expected_ <= room_.size()) return true;
    return fail("answers with " + core::format_size(expected_) + " where at most " + core::format_size(room_.size()) +
                " are taken");
  }
  if (request_.version) {
    changed_ = true;
    return false;
  }
  if (length_ == 0U && request_.offset == 0) return true;  // an empty file has no parts
  std::string size = length_ ? ", " + core::format_size(*length_) : "";
  return fail("cannot send parts of a file; download it first" + size);
}

bool HttpReply::body(Bytes bytes) {
  if (!taking_) {
    dropped_ += bytes.size();
    return dropped_ <= kMostDropped;
  }
  if (bytes.size() > expected_ - received_) return fail("sends more bytes than it announced");
  std::copy(bytes.begin(), bytes.end(), room_.begin() + static_cast<std::ptrdiff_t>(received_));
  received_ += bytes.size();
  return true;
}

}  // namespace ckpt::detail
