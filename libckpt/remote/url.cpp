#include "libckpt/remote/url.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::size_t kLongest = 8192;

[[noreturn]] void refuse(const std::string& why) {
  throw Error(ErrorCode::usage, why);
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

bool is_hex(char c) {
  return std::isxdigit(static_cast<unsigned char>(c)) != 0;
}

/// What an address may not hold as it is becomes %XX; %XX that is there already stays.
std::string encode(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  constexpr std::string_view kOdd = " \"<>\\^`{|}";
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto c = static_cast<unsigned char>(text[i]);
    bool lone_percent = c == '%' && !(i + 2 < text.size() && is_hex(text[i + 1]) && is_hex(text[i + 2]));
    if (c < 0x80 && kOdd.find(text[i]) == std::string_view::npos && !lone_percent) {
      out += text[i];
    } else {
      out += {'%', kHex[c >> 4U], kHex[c & 15U]};
    }
  }
  return out;
}

bool is_host(std::string_view host) {
  bool numbers = host.starts_with('[') && host.ends_with(']') && host.size() > 3;
  if (numbers) host = host.substr(1, host.size() - 2);
  return !host.empty() && std::ranges::all_of(host, [&](unsigned char c) {
    return numbers ? is_hex(static_cast<char>(c)) || c == ':' || c == '.'
                   : std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
  });
}

bool is_port(std::string_view text) {
  std::uint32_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 1 && number <= 65535;
}

/// "host:8080" without what stands before an '@', which no address here may have.
void take_authority(std::string_view text, Url& url) {
  if (text.find('@') != std::string_view::npos) {
    refuse("the address has a user or password in it, which is not taken from an address; use a token");
  }
  std::size_t colon = text.find(':', text.starts_with('[') ? std::min(text.find(']'), text.size()) : 0);
  url.host = lower(text.substr(0, colon));
  url.port = colon == std::string_view::npos ? (url.scheme == "https" ? "443" : "80") : text.substr(colon + 1);
  if (!is_host(url.host)) refuse("the address names no host: " + core::quote(url.host, 80));
  if (!is_port(url.port)) refuse("the address has the port " + core::quote(url.port, 20) + "; ports are 1 to 65535");
}

}  // namespace

Url parse_url(std::string_view text) {
  std::size_t mark = text.find("://");
  if (mark == std::string_view::npos) refuse("it is no address: '://' is missing");
  Url url;
  url.scheme = lower(text.substr(0, mark));
  if (url.scheme == "file")
    throw Error(ErrorCode::unsupported, "name a file of this machine by its path, without 'file://'");
  if (url.scheme != "https" && url.scheme != "http") {
    throw Error(ErrorCode::unsupported, core::quote(url.scheme + "://", 40) +
                                            " is not read; https:// and hf:// are, and files of this machine");
  }
  if (text.size() > kLongest) refuse("the address is longer than " + std::to_string(kLongest) + " bytes");
  std::string_view rest = text.substr(mark + 3);
  if (std::ranges::any_of(rest, [](unsigned char c) { return c < 0x20 || c == 0x7f; })) {
    refuse("the address has a line break or another control character in it");
  }
  std::size_t end = std::min(rest.find_first_of("/?#"), rest.size());
  take_authority(rest.substr(0, end), url);
  std::string_view target = rest.substr(end);
  if (target.find('#') != std::string_view::npos) refuse("the address has a '#' in it; write %23 where a name has one");
  url.target = (target.starts_with('/') ? "" : "/") + encode(target);
  return url;
}

bool is_loopback(const Url& url) {
  if (url.host == "localhost" || url.host == "[::1]") return true;
  std::vector<std::string_view> parts = core::split(url.host, '.');
  auto is_byte = [](std::string_view part) {
    std::uint32_t number = 0;
    auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    return error == std::errc() && end == part.data() + part.size() && number <= 255;
  };
  return parts.size() == 4 && parts[0] == "127" && std::ranges::all_of(parts, is_byte);
}

}  // namespace ckpt::detail
