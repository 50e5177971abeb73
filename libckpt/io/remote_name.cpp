#include "libckpt/io/remote_name.h"

#include <algorithm>
#include <cctype>
#include <mutex>

#include "libckpt/io/file_source.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::string_view kMark = "://";

std::shared_ptr<detail::RemoteOpener>& installed() {
  static std::shared_ptr<detail::RemoteOpener> opener;
  return opener;
}

class OpenedWhenRead final : public ByteSource {
 public:
  OpenedWhenRead(std::uint64_t size, std::function<SourcePtr()> open) : size_(size), open_(std::move(open)) {}
  std::uint64_t size() const override { return size_; }
  void read(std::uint64_t offset, MutableBytes out) const override { opened()->read(offset, out); }
  /// Known once some of it was read: who only lists sources opens none.
  std::optional<FileRange> file_range() const override {
    SourcePtr source = now();
    return source != nullptr ? source->file_range() : std::nullopt;
  }
  void require_unchanged() const override {
    if (SourcePtr source = now()) source->require_unchanged();
  }
  void visit_checked(const CheckedVisitor& see) const override {
    if (SourcePtr source = now()) source->visit_checked(see);
  }

 private:
  SourcePtr now() const {
    std::lock_guard lock(mutex_);
    return source_;
  }
  SourcePtr opened() const {
    std::lock_guard lock(mutex_);
    if (source_ != nullptr) return source_;
    SourcePtr source = open_();
    if (source->size() != size_) {
      throw Error(ErrorCode::corrupt, "it holds " + core::format_count(source->size()) + " bytes where " +
                                          core::format_count(size_) + " are expected");
    }
    source_ = std::move(source);
    return source_;
  }

  std::uint64_t size_;
  std::function<SourcePtr()> open_;
  mutable std::mutex mutex_;
  mutable SourcePtr source_;
};

/// As the name of one file stands in an address.
std::string encoded(std::string_view name) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (unsigned char c : name) {
    bool plain = std::isalnum(c) != 0 ||
                 std::string_view("-._~/+=,@!$&'()*;:").find(static_cast<char>(c)) != std::string_view::npos;
    if (plain) {
      out += static_cast<char>(c);
    } else {
      out += {'%', kHex[c >> 4U], kHex[c & 15U]};
    }
  }
  return out;
}

}  // namespace

bool is_remote_name(const std::filesystem::path& name) {
  std::string_view text = name.native();
  std::size_t at = text.find(kMark);
  if (at == std::string_view::npos || at < 2 || std::isalpha(static_cast<unsigned char>(text[0])) == 0) return false;
  return std::ranges::all_of(text.substr(0, at),
                             [](unsigned char c) { return std::isalnum(c) != 0 || c == '+' || c == '-' || c == '.'; });
}

bool has_password(const std::filesystem::path& name) {
  if (!is_remote_name(name)) return false;
  std::string_view rest = std::string_view(name.native()).substr(name.native().find(kMark) + kMark.size());
  return rest.substr(0, rest.find_first_of("/?#")).find('@') != std::string_view::npos;
}

std::string shown_name(const std::filesystem::path& name) {
  std::string text = name.string();
  if (!has_password(name)) return text;
  const std::size_t begin = text.find(kMark) + kMark.size();
  const std::size_t end = std::min(text.find_first_of("/?#", begin), text.size());
  return text.erase(begin, text.rfind('@', end - 1) + 1 - begin);
}

void detail::install_remote_opener(std::shared_ptr<RemoteOpener> opener) {
  installed() = std::move(opener);
}

detail::RemoteOpener& detail::remote_opener() {
  if (installed() != nullptr) return *installed();
  throw Error(ErrorCode::unsupported, "this program reads no files of other machines; download the file first");
}

std::string detail::remote_sibling(const std::filesystem::path& folder, const std::string& name) {
  auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::refused, "the name " + core::quote(name) + " " + why);
  };
  if (folder.native().find('?') != std::string::npos) {
    throw Error(ErrorCode::unsupported, "a model of several files is not read from an address with a '?'");
  }
  for (std::string_view part : core::split(name, '/')) {
    if (part.empty() || part == "." || part == "..") refuse("does not lie beside the file that names it");
  }
  bool odd = std::ranges::any_of(name, [](unsigned char c) { return c < 0x20 || c == 0x7f || c == '\\'; });
  if (odd || name.empty()) refuse("is no name of a file on a server");
  return (folder / encoded(name)).native();
}

const ByteSource* detail::far_file(const ByteSource& source) {
  return dynamic_cast<const FarSource*>(&whole_of(source));
}

SourcePtr detail::opened_when_read(std::uint64_t size, std::function<SourcePtr()> open) {
  return std::make_shared<OpenedWhenRead>(size, std::move(open));
}

}  // namespace ckpt
