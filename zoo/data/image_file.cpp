#include "zoo/data/image_file.h"

#include <string>

#include "libcore/base/error.h"
#include "zoo/data/ppm.h"

namespace zoo {
namespace {

using namespace std::string_view_literals;

/// The name of an image format that is known and not read, "" for anything else.
std::string_view unread_format(std::string_view head) {
  if (head.starts_with("GIF8")) return "GIF";
  if (head.starts_with("RIFF") && head.substr(0, 12).ends_with("WEBP")) return "WebP";
  if (head.starts_with("II*\0"sv) || head.starts_with("MM\0*"sv)) return "TIFF";
  if (head.starts_with("BM") && head.size() > 14 && head.substr(6, 4) == "\0\0\0\0"sv) return "BMP";
  if (head.substr(0, 12).ends_with("ftypavif")) return "AVIF";
  if (head.substr(0, 12).ends_with("ftypheic")) return "HEIC";
  if (head.starts_with("\0\0\0\x0CjP  "sv)) return "JPEG 2000";
  if (head.starts_with("\xFF\x0A"sv) || head.starts_with("\0\0\0\x0CJXL "sv)) return "JPEG XL";
  return "";
}

bool is_netpbm(std::string_view head) {
  return head.size() >= 3 && head[0] == 'P' && head[1] >= '1' && head[1] <= '7' &&
         (head[2] == '#' || (head[2] >= '\t' && head[2] <= '\r') || head[2] == ' ');
}

}  // namespace

std::optional<Image> try_read_image(core::Bytes content, ImageReading how) {
  const std::string_view head = core::as_text(content.first(std::min<std::size_t>(content.size(), 64)));
  if (head.starts_with("\x89PNG")) return read_png(content, how);
  if (head.starts_with("\xFF\xD8\xFF")) return read_jpeg(content, how);
  if (is_netpbm(head)) return parse_ppm(content, how == ImageReading::pillow ? WideGrey::clipped : WideGrey::scaled);
  if (std::string_view format = unread_format(head); !format.empty()) {
    throw core::Error(core::ErrorCode::unsupported,
                      "a " + std::string(format) + " image is not read; PNG, JPEG, PPM and PGM are");
  }
  return std::nullopt;
}

}  // namespace zoo
