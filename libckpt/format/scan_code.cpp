// Files without pickles that can carry code all the same: object arrays, chat templates, Lambda layers.

#include <algorithm>
#include <array>

#include "libckpt/format/gguf/gguf_header.h"
#include "libckpt/format/hdf5_foreign/user_block.h"
#include "libckpt/format/scan_walk.h"
#include "libckpt/io/byte_cursor.h"
#include "libckpt/io/checksum.h"
#include "libckpt/io/json.h"
#include "libckpt/limits.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

[[noreturn]] void throw_corrupt_array(const std::string& what) {
  throw Error(ErrorCode::corrupt, what);
}

struct ArrayHeader {
  std::string text;
  std::uint64_t end = 0;
};

ArrayHeader read_array_header(const ByteSource& source) {
  constexpr std::uint64_t kFixed = 8;
  core::ByteVector fixed(std::min<std::uint64_t>(source.size(), 12));
  source.read(0, fixed);
  if (fixed.size() < 12) throw_corrupt_array("the array is cut off inside its header");
  bool wide = fixed[6] != std::byte{1};
  std::uint64_t begin = kFixed + (wide ? 4 : 2);
  std::uint64_t length =
      wide ? core::load_le<std::uint32_t>(fixed.data() + kFixed) : core::load_le<std::uint16_t>(fixed.data() + kFixed);
  if (length > source.size() - begin) throw_corrupt_array("the array is cut off inside its header");
  if (length > kMaxScannedNpyHeader) throw Error(ErrorCode::refused, "the header of the array is longer than 64 KiB");
  core::ByteVector text(length);
  source.read(begin, text);
  return {std::string(core::as_text(text)), begin + length};
}

/// A type code O, alone or in one of the fields.
bool has_objects(std::string_view header) {
  for (std::size_t at = header.find('O'); at != header.npos; at = header.find('O', at + 1)) {
    std::size_t before = at;
    if (before > 0 && std::string_view("|<>=").find(header[before - 1]) != header.npos) --before;
    bool quoted = before > 0 && (header[before - 1] == '\'' || header[before - 1] == '"');
    if (quoted) return true;
  }
  return false;
}

/// Names of Python code in the configuration of a Keras model.
std::vector<std::string> code_in(const JsonView& root) {
  std::vector<std::string> found;
  std::vector<JsonView> open = {root};
  while (!open.empty()) {
    JsonView view = open.back();
    open.pop_back();
    if (view.is(JsonView::Kind::array)) {
      for (const JsonView& item : view.items()) open.push_back(item);
    } else if (view.is(JsonView::Kind::object)) {
      bool is_class = view.has("class_name");
      for (const auto& [key, value] : view.members()) {
        open.push_back(value);
        if (!is_class || !value.is(JsonView::Kind::text)) continue;
        std::string_view text = value.as_text();
        if (key == "class_name" && (text == "Lambda" || text == "__lambda__" || text.ends_with(">Lambda"))) {
          found.push_back("it holds a Lambda layer, which is Python code");
        }
        bool foreign = key == "module" && !text.starts_with("keras") && !text.starts_with("builtins") &&
                       !text.starts_with("tensorflow.keras") && !text.starts_with("tf_keras");
        if (foreign) found.push_back("it names the Python module " + core::quote(text));
      }
    }
  }
  return found;
}

/// True when one of the texts stands anywhere in the bytes.
bool mentions(const ByteSource& source, std::span<const std::string_view> texts) {
  constexpr std::uint64_t kPart = 1 << 20;
  constexpr std::uint64_t kOverlap = 64;
  core::ByteVector part;
  for (std::uint64_t at = 0; at < source.size(); at += kPart) {
    part.resize(std::min(kPart + kOverlap, source.size() - at));
    source.read(at, part);
    for (std::string_view text : texts) {
      if (core::as_text(part).find(text) != std::string_view::npos) return true;
    }
  }
  return false;
}

}  // namespace

void ScanWalk::npy(const SourcePtr& source, const std::string& where) {
  ArrayHeader header = read_array_header(*source);
  if (!has_objects(header.text)) return;
  finding(where, "it is an array of Python objects: a pickle");
  bare_pickles(slice(source, header.end, source->size() - header.end), join(where, "objects"));
}

void ScanWalk::gguf(const SourcePtr& source, const std::string& where) {
  OpenOptions options;
  options.lenient = true;
  options.limits = limits_;
  for (const GgufValue& value : read_gguf_header(*source, options).values) {
    if (value.key.find("chat_template") == std::string::npos) continue;
    finding(where, core::quote(value.key) + " is a template, which is code in a language of its own");
  }
}

/// Attributes of HDF5 files are never compressed, so what they say can be found without taking the file apart.
void ScanWalk::hdf5(const SourcePtr& source, const std::string& where) {
  constexpr std::array<std::string_view, 3> kLambda = {"\"class_name\": \"Lambda\"", "\"class_name\":\"Lambda\"",
                                                       "__lambda__"};
  if (mentions(*source, kLambda)) finding(where, "it holds a Lambda layer, which is Python code");
  UserBlock block = find_user_block(source);
  if (!block.content) return;
  ContentKind kind = content_kind(*block.content);
  if (kind != ContentKind::unknown && kind != ContentKind::native) content(block.content, join(where, "user block"));
}

void ScanWalk::json(const SourcePtr& source, const std::string& where) {
  if (source->size() > limits_.max_json_bytes) return unread(where, "the JSON text is larger than allowed");
  JsonDocument document = JsonDocument::parse(read_all(*source), {.max_depth = limits_.max_json_depth});
  for (std::string& text : code_in(document.root())) finding(where, std::move(text));
}

}  // namespace ckpt::detail
