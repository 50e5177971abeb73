#include "libckpt/format/gguf/gguf_header.h"

#include <algorithm>
#include <unordered_set>

#include "libckpt/format/gguf/gguf_reader.h"
#include "libckpt/limits.h"
#include "libcore/base/checked_math.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;
using core::quote;

constexpr std::uint64_t kLeastValue = 8 + 1 + 4 + 1;           ///< bytes of the shortest key and value
constexpr std::uint64_t kLeastTensor = 8 + 0 + 4 + 0 + 4 + 8;  ///< of the shortest row of the table

[[noreturn]] void corrupt(const std::string& what) {
  throw Error(ErrorCode::corrupt, what);
}

/// Names in the order of the file are compared sorted: a hash table could be made slow on purpose.
void require_distinct(std::vector<std::string_view> names, const char* what) {
  std::sort(names.begin(), names.end());
  auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) corrupt(std::string(what) + " " + quote(*twice) + " is there twice");
}

class HeaderReader {
 public:
  HeaderReader(const ByteSource& file, const OpenOptions& options) : in_(file), options_(options), size_(file.size()) {}

  GgufHeader read() {
    read_version();
    auto tensors = count_of("tensors", kLeastTensor, options_.limits.max_tensors);
    auto values = count_of("metadata values", kLeastValue, options_.limits.max_tensors);
    for (std::uint64_t i = 0; i < values; ++i) read_value();
    find_alignment();
    for (std::uint64_t i = 0; i < tensors; ++i) read_tensor();
    check_names();
    place_tensors();
    return std::move(header_);
  }

 private:
  void read_version() {
    if (in_.take_text(kGgufMagic.size()) != kGgufMagic) corrupt("this is not a GGUF file");
    auto version = in_.take<std::uint32_t>();
    header_.big_endian = (version & 0xffffU) == 0 && version != 0;
    in_.set_big_endian(header_.big_endian);
    if (header_.big_endian) version = core::byte_swap(version);
    if (version == 2 || version == kGgufVersion) return;
    throw Error(ErrorCode::unsupported, "the GGUF file has version " + std::to_string(version) +
                                            ", where 2 and 3 are known" +
                                            (version == 1 ? "; write it again with a newer llama.cpp" : ""));
  }

  /// A count is believed as far as so many of the shortest entries could follow.
  std::uint64_t count_of(const char* what, std::uint64_t least, std::uint64_t limit) {
    auto count = in_.take<std::uint64_t>();
    if (count > in_.remaining() / least) {
      corrupt("the header promises " + core::format_count(count) + " " + what + ", more than the file has room for");
    }
    if (count > limit) {
      throw Error(ErrorCode::refused, "the file has " + core::format_count(count) + " " + what + ", where at most " +
                                          core::format_count(limit) + " are read");
    }
    return count;
  }

  std::string take_string(const char* what, std::uint64_t limit) {
    auto length = in_.take<std::uint64_t>();
    if (length > in_.remaining()) {
      corrupt(std::string(what) + " of " + core::format_count(length) + " bytes reaches past the end of the file");
    }
    if (length > limit) {
      corrupt(std::string(what) + " is " + core::format_count(length) + " bytes long, where at most " +
              core::format_count(limit) + " are allowed");
    }
    std::string text = in_.take_text(length);
    if (!core::is_utf8(text)) corrupt(std::string(what) + " is not valid UTF-8: " + quote(text));
    return text;
  }

  void read_value() {
    GgufValue value;
    value.key = take_string("a metadata key", kMaxGgufKey);
    if (value.key.empty()) corrupt("a metadata key is empty");
    core::with_context("metadata " + quote(value.key), [&] {
      value.type = take_type();
      if (value.type == GgufValueType::array) {
        read_array(value.stored);
      } else {
        read_elements(value.type, 1, value.stored);
      }
    });
    header_.values.push_back(std::move(value));
  }

  GgufValueType take_type() {
    auto type = in_.take<std::uint32_t>();
    if (type >= kGgufValueTypes) {
      throw Error(ErrorCode::corrupt, "the value has the unknown type " + std::to_string(type));
    }
    return static_cast<GgufValueType>(type);
  }

  void read_array(core::ByteVector& out) {
    GgufValueType type = take_type();
    if (type == GgufValueType::array) throw Error(ErrorCode::unsupported, "an array of arrays is not read");
    auto count = in_.take<std::uint64_t>();
    std::uint64_t least = type == GgufValueType::text ? 8 : value_size(type);
    if (count > kMaxGgufArray || count > in_.remaining() / least) {
      corrupt("an array of " + core::format_count(count) + " elements has no room in the file");
    }
    core::append_le(out, static_cast<std::uint32_t>(type));
    core::append_le(out, count);
    read_elements(type, count, out);
  }

  void read_elements(GgufValueType type, std::uint64_t count, core::ByteVector& out) {
    if (type == GgufValueType::text) {
      for (std::uint64_t i = 0; i < count; ++i) read_text(out);
      return;
    }
    std::uint64_t begin = out.size();
    std::uint32_t width = value_size(type);
    in_.take_numbers(count, width, out);
    if (type == GgufValueType::boolean) check_truth(core::MutableBytes(out).subspan(begin));
  }

  /// Leniently, what ggml takes for true becomes 1: a file that is written from it is read by everybody.
  void check_truth(core::MutableBytes values) {
    auto is_odd = [](std::byte b) { return b > std::byte{1}; };
    auto wrong = std::find_if(values.begin(), values.end(), is_odd);
    if (wrong == values.end()) return;
    std::string what = "a truth value is stored as " + std::to_string(static_cast<unsigned>(*wrong));
    if (!options_.lenient) corrupt(what + ", not as 0 or 1");
    std::replace_if(values.begin(), values.end(), is_odd, std::byte{1});
    if (options_.report != nullptr) options_.report->relaxations.push_back(what + " and taken for true");
  }

  void read_text(core::ByteVector& out) {
    auto length = in_.take<std::uint64_t>();
    if (length > in_.remaining()) {
      corrupt("a text of " + core::format_count(length) + " bytes reaches past the end of the file");
    }
    core::append_le(out, length);
    in_.take_into(length, out);
  }

  void find_alignment() {
    for (const GgufValue& value : header_.values) {
      if (value.key != kAlignmentKey) continue;
      if (value.type != GgufValueType::u32) {
        corrupt("general.alignment is of type " + std::string(value_type_name(value.type)) + ", not UINT32");
      }
      header_.alignment = core::load_le<std::uint32_t>(value.stored.data());
      bool power = header_.alignment != 0 && (header_.alignment & (header_.alignment - 1)) == 0;
      if (!power)
        corrupt("general.alignment is " + std::to_string(header_.alignment) + ", which is not a power of two");
    }
  }

  void read_tensor() {
    GgufTensor tensor;
    tensor.name = take_string("a tensor's name", options_.limits.max_name);
    core::with_context("tensor " + quote(tensor.name), [&] {
      if (tensor.name.size() > kGgufMaxName) {
        corrupt("the name is " + std::to_string(tensor.name.size()) + " bytes long, where at most " +
                std::to_string(kGgufMaxName) + " are allowed");
      }
      read_shape(tensor);
      auto type = in_.take<std::uint32_t>();
      tensor.type = find_ggml_type(type);
      if (tensor.type == nullptr) {
        throw Error(ErrorCode::unsupported, "the element type " + std::to_string(type) + " is unknown or was removed");
      }
      tensor.offset = in_.take<std::uint64_t>();
      tensor.size = size_of(tensor);
    });
    header_.tensors.push_back(std::move(tensor));
  }

  void read_shape(GgufTensor& tensor) {
    auto rank = in_.take<std::uint32_t>();
    if (rank > kGgufMaxRank) {
      corrupt("the tensor has " + std::to_string(rank) + " dimensions, where at most 4 are allowed");
    }
    for (std::uint32_t i = 0; i < rank; ++i) tensor.shape.push_back(in_.take<std::int64_t>());
    std::reverse(tensor.shape.begin(), tensor.shape.end());
  }

  std::uint64_t size_of(const GgufTensor& tensor) const {
    std::optional<std::uint64_t> numel = core::try_numel(tensor.shape.span());
    if (!numel || *numel > INT64_MAX) corrupt("the shape " + core::to_list(tensor.shape) + " is impossible");
    auto row = tensor.shape.empty() ? 1 : static_cast<std::uint64_t>(tensor.shape.back());
    if (row % tensor.type->elements != 0) {
      corrupt("rows of " + core::format_count(row) + " values do not divide into blocks of " +
              std::to_string(tensor.type->elements));
    }
    return core::checked_mul(*numel / tensor.type->elements, std::uint64_t{tensor.type->bytes});
  }

  void check_names() const {
    std::vector<std::string_view> names;
    for (const GgufValue& value : header_.values) names.push_back(value.key);
    require_distinct(std::move(names), "the metadata key");
    names.clear();
    for (const GgufTensor& tensor : header_.tensors) names.push_back(tensor.name);
    require_distinct(std::move(names), "the tensor");
  }

  /// Tensors lie one behind the other, each padded to the alignment.
  void place_tensors() {
    std::uint64_t begin = core::align_up(in_.position(), header_.alignment);
    std::uint64_t expected = 0;
    for (GgufTensor& tensor : header_.tensors) {
      core::with_context("tensor " + quote(tensor.name), [&] { place_tensor(tensor, begin, expected); });
    }
    std::uint64_t end = header_.tensors.empty() ? in_.position() : core::checked_add(begin, expected);
    if (size_ <= end || is_padding(end)) return;
    std::string what = core::format_count(size_ - end) + " bytes after the last tensor";
    if (!options_.lenient) corrupt(what + " belong to nothing");
    header_.trailing = true;
    if (options_.report != nullptr) options_.report->relaxations.push_back(what + " are let pass");
  }

  /// Zeros up to a whole alignment: some writers pad what is aligned already.
  bool is_padding(std::uint64_t end) const {
    if (size_ - end > std::min<std::uint64_t>(header_.alignment, kMaxGgufPadding)) return false;
    core::ByteVector rest(size_ - end);
    in_.file().read(end, rest);
    return std::all_of(rest.begin(), rest.end(), [](std::byte b) { return b == std::byte{0}; });
  }

  void place_tensor(GgufTensor& tensor, std::uint64_t begin, std::uint64_t& expected) const {
    if (tensor.offset != expected) {
      corrupt("the data begin at offset " + std::to_string(tensor.offset) + " where " + std::to_string(expected) +
              " follows from the tensors before it");
    }
    tensor.offset = core::checked_add(begin, expected);
    if (core::checked_add(tensor.offset, tensor.size) > size_ && tensor.size > 0) {
      corrupt("the file is cut off: the data end at byte " + std::to_string(tensor.offset + tensor.size) +
              " where the file has " + std::to_string(size_));
    }
    expected = core::align_up(core::checked_add(expected, tensor.size), header_.alignment);
    if (header_.big_endian && !tensor.type->dtype) {
      throw Error(ErrorCode::unsupported, "quantised blocks of a big-endian file are not read");
    }
  }

  GgufReader in_;
  const OpenOptions& options_;
  std::uint64_t size_;
  GgufHeader header_;
};

}  // namespace

GgufHeader read_gguf_header(const ByteSource& file, const OpenOptions& options) {
  return HeaderReader(file, options).read();
}

}  // namespace ckpt::detail
