// Files without pickles that can carry code all the same: object arrays, chat templates, Lambda layers.

#include <algorithm>
#include <array>

#include "libckpt/format/scan_walk.h"
#include "libckpt/io/byte_cursor.h"
#include "libckpt/io/checksum.h"
#include "libckpt/io/json.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

[[noreturn]] void corrupt(const std::string& what) {
  throw Error(ErrorCode::corrupt, what);
}

struct NpyHeader {
  std::string text;
  std::uint64_t end = 0;
};

NpyHeader read_npy_header(const ByteSource& source) {
  constexpr std::uint64_t kFixed = 8;
  constexpr std::uint64_t kMaxHeader = 64 << 10;
  core::ByteVector fixed(std::min<std::uint64_t>(source.size(), 12));
  source.read(0, fixed);
  if (fixed.size() < 12) corrupt("the array is cut off inside its header");
  bool wide = fixed[6] != std::byte{1};
  std::uint64_t begin = kFixed + (wide ? 4 : 2);
  std::uint64_t length =
      wide ? core::load_le<std::uint32_t>(fixed.data() + kFixed) : core::load_le<std::uint16_t>(fixed.data() + kFixed);
  if (length > source.size() - begin) corrupt("the array is cut off inside its header");
  if (length > kMaxHeader) throw Error(ErrorCode::refused, "the header of the array is longer than 64 KiB");
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

/// Sizes of GGUF's value types; 0 for text and arrays.
constexpr std::array<std::uint64_t, 13> kGgufSizes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
constexpr std::uint32_t kGgufText = 8;
constexpr std::uint32_t kGgufArray = 9;

/// The keys and values at the head of a GGUF file, read through a window.
class GgufKeys {
 public:
  explicit GgufKeys(const ByteSource& source) : source_(source) {}

  std::vector<std::string> with_template() {
    std::vector<std::string> found;
    position_ = 16;
    auto count = number<std::uint64_t>();
    for (std::uint64_t i = 0; i < count; ++i) {
      std::string key = text();
      if (key.find("chat_template") != key.npos) found.push_back(key);
      skip_value(number<std::uint32_t>());
    }
    return found;
  }

 private:
  core::ByteVector take(std::uint64_t count) {
    if (count > source_.size() - position_) corrupt("the file is cut off inside its keys");
    core::ByteVector bytes(count);
    source_.read(position_, bytes);
    position_ += count;
    return bytes;
  }
  template <class T>
  T number() {
    return core::load_le<T>(take(sizeof(T)).data());
  }
  std::string text() {
    auto length = number<std::uint64_t>();
    if (length > 65535) corrupt("a key is " + core::format_size(length) + " long");
    return std::string(core::as_text(take(length)));
  }
  void skip(std::uint64_t count) {
    if (count > source_.size() - position_) corrupt("the file is cut off inside its keys");
    position_ += count;
  }
  void skip_value(std::uint32_t type) {
    if (type == kGgufText) return skip(number<std::uint64_t>());
    if (type != kGgufArray) return skip(size_of(type));
    auto inner = number<std::uint32_t>();
    auto count = number<std::uint64_t>();
    if (inner == kGgufArray) corrupt("an array of arrays");
    if (count > source_.size()) corrupt("an array longer than the file");
    if (inner != kGgufText) return skip(count * size_of(inner));
    for (std::uint64_t i = 0; i < count; ++i) skip(number<std::uint64_t>());
  }
  static std::uint64_t size_of(std::uint32_t type) {
    if (type >= kGgufSizes.size() || kGgufSizes[type] == 0)
      corrupt("a value of the unknown type " + std::to_string(type));
    return kGgufSizes[type];
  }

  const ByteSource& source_;
  std::uint64_t position_ = 0;
};

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
  NpyHeader header = read_npy_header(*source);
  if (!has_objects(header.text)) return;
  finding(where, "it is an array of Python objects: a pickle");
  bare_pickles(slice(source, header.end, source->size() - header.end), join(where, "objects"));
}

void ScanWalk::gguf(const SourcePtr& source, const std::string& where) {
  for (const std::string& key : GgufKeys(*source).with_template()) {
    finding(where, core::quote(key) + " is a template, which is code in a language of its own");
  }
}

/// Attributes of HDF5 files are never compressed, so what they say can be found without taking the file apart.
void ScanWalk::hdf5(const SourcePtr& source, const std::string& where) {
  constexpr std::array<std::string_view, 3> kLambda = {"\"class_name\": \"Lambda\"", "\"class_name\":\"Lambda\"",
                                                       "__lambda__"};
  if (mentions(*source, kLambda)) finding(where, "it holds a Lambda layer, which is Python code");
}

void ScanWalk::json(const SourcePtr& source, const std::string& where) {
  if (source->size() > limits_.max_json_bytes) return unread(where, "the JSON text is larger than allowed");
  JsonDocument document = JsonDocument::parse(read_all(*source), {.max_depth = limits_.max_json_depth});
  for (std::string& text : code_in(document.root())) finding(where, std::move(text));
}

}  // namespace ckpt::detail
