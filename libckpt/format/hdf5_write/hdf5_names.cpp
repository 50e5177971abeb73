#include "libckpt/format/hdf5_write/hdf5_names.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

// After a percent sign: two hexadecimal digits for a byte, or one of these.
constexpr std::string_view kEmpty = "%-";        // a component of no bytes
constexpr std::string_view kBesideGroup = "%=";  // the tensor "a" where "a.b" makes a group of "a"
constexpr std::string_view kRepeated = "%~";     // and a number from 2: the same name once more

/// Deeper names keep their remaining dots inside the last link: walkers limit the depth of groups.
constexpr std::size_t kMaxLinks = 24;

void append_escaped_byte(std::string& out, unsigned char byte) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  out += '%';
  out += kDigits[byte >> 4];
  out += kDigits[byte & 15];
}

std::string escape(std::string_view component) {
  if (component.empty()) return std::string(kEmpty);
  auto is_plain = [](unsigned char byte) { return byte < 0x80 && byte != '%' && byte != '/' && byte != 0; };
  if (std::ranges::all_of(component, is_plain)) return std::string(component);
  bool utf8 = core::is_utf8(component);
  std::string out;
  for (unsigned char byte : component) {
    if (byte == '%' || byte == '/' || byte == 0 || (byte >= 0x80 && !utf8)) {
      append_escaped_byte(out, byte);
    } else {
      out += static_cast<char>(byte);
    }
  }
  return out;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string unescape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
    } else if (text.substr(i).starts_with(kEmpty)) {
      i += kEmpty.size() - 1;
    } else if (i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0) {
      out += static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
      i += 2;
    } else {
      out += '%';
    }
  }
  return out;
}

Hdf5Path split_name(std::string_view name) {
  Hdf5Path path;
  for (std::string_view component : core::split(name, '.')) {
    if (path.size() < kMaxLinks) {
      path.push_back(escape(component));
    } else {
      path.back() += "." + escape(component);
    }
  }
  return path;
}

std::string joined(const Hdf5Path& path, std::size_t links) {
  return core::join(std::span(path).first(links), "/");
}

std::unordered_set<std::string> all_groups(const std::vector<Hdf5Path>& paths) {
  std::unordered_set<std::string> groups;
  for (const Hdf5Path& path : paths) {
    // From the inside out: when a group is known, so are the ones around it.
    for (std::size_t links = path.size() - 1; links > 0; --links) {
      if (!groups.insert(joined(path, links)).second) break;
    }
  }
  return groups;
}

}  // namespace

std::vector<Hdf5Path> plan_hdf5_paths(std::span<const std::string> names) {
  std::vector<Hdf5Path> paths;
  paths.reserve(names.size());
  for (const std::string& name : names) paths.push_back(split_name(name));
  std::unordered_set<std::string> groups = all_groups(paths);
  std::unordered_map<std::string, std::size_t> seen;
  for (Hdf5Path& path : paths) {
    std::string whole = joined(path, path.size());
    if (groups.contains(whole)) path.back() += kBesideGroup;
    std::size_t count = ++seen[std::move(whole)];
    if (count > 1) path.back() += std::string(kRepeated) + std::to_string(count);
  }
  return paths;
}

std::string name_of_hdf5_path(const Hdf5Path& path) {
  std::string name;
  for (std::size_t i = 0; i < path.size(); ++i) {
    std::string_view link = path[i];
    if (i + 1 == path.size()) {
      link = link.substr(0, link.rfind(kRepeated));
      if (link.ends_with(kBesideGroup)) link.remove_suffix(kBesideGroup.size());
    }
    name += (i == 0 ? "" : ".") + unescape(link);
  }
  return name;
}

bool path_shows_name(const Hdf5Path& path, std::string_view name) {
  return core::join(path, ".") == name;
}

}  // namespace ckpt::detail
