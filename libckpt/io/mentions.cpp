#include "libckpt/io/mentions.h"

#include <algorithm>

#include "libckpt/io/byte_source.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxIndex = 256 << 20;

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x80; });
}

}  // namespace

IndexMentions::IndexMentions(const fs::path& folder, const std::string& skipped) {
  std::error_code error;
  std::error_code ignored;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::string file = at->path().filename().string();
    bool is_index = file != skipped && file.find(".index.") != std::string::npos && file[0] != '.';
    if (!is_index || at->is_directory(ignored)) continue;
    has_others_ = true;
    add(at->path());
  }
  in_doubt_ |= static_cast<bool>(error);
}

void IndexMentions::add(const fs::path& index) {
  std::error_code ignored;
  try {
    bool readable = fs::is_regular_file(index, ignored) && fs::file_size(index, ignored) <= kMaxIndex;
    if (readable) add_text(core::as_text(read_all(*open_file(index))));
    in_doubt_ |= !readable;
  } catch (const core::Error&) {
    in_doubt_ = true;
  }
}

/// Every piece between two quotation marks: names among them are found whatever the rest of the JSON is.
void IndexMentions::add_text(std::string_view index) {
  for (std::string_view piece : core::split(index, '"')) {
    if (is_plain_name(piece)) texts_.emplace(piece);
  }
}

bool IndexMentions::holds(const std::string& name) const {
  // Another writer may spell what is not ASCII in escapes.
  return in_doubt_ || (has_others_ && !is_ascii(name)) || texts_.contains(name);
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.size() <= 255 && core::is_utf8(name) &&
         std::none_of(name.begin(), name.end(),
                      [](unsigned char c) { return c < 0x20 || c == '/' || c == '\\' || c == '"' || c == 0x7f; });
}

}  // namespace ckpt::detail
