#include "libckpt/transform/slice_tensor.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;

/// A part of a slice made fit for a dimension.
struct Range {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::int64_t step = 1;
  bool index = false;
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::optional<std::int64_t> parse_number(std::string_view text, std::string_view spec) {
  text = trimmed(text);
  if (text.empty()) return std::nullopt;
  std::int64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw Error(ErrorCode::usage, core::quote(spec) + " is not a slice such as 0:5,:,-1");
  }
  return number;
}

Range parse_range(std::string_view part, std::int64_t size, std::string_view spec) {
  std::vector<std::string_view> pieces = core::split(part, ':');
  if (pieces.size() == 1) {
    std::optional<std::int64_t> index = parse_number(part, spec);
    if (!index) throw Error(ErrorCode::usage, core::quote(spec) + " is not a slice such as 0:5,:,-1");
    std::int64_t at = *index < 0 ? *index + size : *index;
    if (at < 0 || at >= size) {
      throw Error(ErrorCode::value, "index " + std::to_string(*index) + " is out of range for a dimension of size " +
                                        std::to_string(size));
    }
    return {at, 1, 1, true};
  }
  std::int64_t step = pieces.size() > 2 ? parse_number(pieces[2], spec).value_or(1) : 1;
  if (pieces.size() > 3 || step <= 0) {
    throw Error(ErrorCode::usage, core::quote(spec) + " is not a slice with a positive step such as 0:100:2");
  }
  auto clip = [size](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size); };
  std::int64_t begin = clip(std::max(parse_number(pieces[0], spec).value_or(0), -size));
  std::int64_t end = clip(std::max(parse_number(pieces[1], spec).value_or(size), -size));
  std::int64_t count = end > begin ? (end - begin - 1) / step + 1 : 0;
  return {begin, count, step, false};
}

}  // namespace

EntryPtr sliced(const Entry& entry, std::string_view spec) {
  if (entry.blocks || core::bit_width(entry.dtype) % 8 != 0) {
    throw Error(ErrorCode::unsupported, type_name(entry) + " cannot be cut into elements");
  }
  std::vector<std::string_view> parts = core::split(spec, ',');
  if (parts.size() > entry.shape.size()) {
    throw Error(ErrorCode::value, core::quote(spec) + " has more parts than the shape " + core::to_list(entry.shape));
  }
  core::Shape dense = core::contiguous_strides(entry.shape);
  core::Shape shape;
  core::Shape strides;
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < entry.shape.size(); ++d) {
    Range range = d < parts.size() ? parse_range(trimmed(parts[d]), entry.shape[d], spec) : Range{0, entry.shape[d]};
    offset += range.begin * dense[d];
    if (range.index) continue;
    shape.push_back(range.count);
    strides.push_back(dense[d] * range.step);
  }
  auto out = std::make_shared<Entry>(entry);
  out->shape = shape;
  out->view.reset();
  if (entry.bytes != nullptr) {
    auto storage = std::make_shared<Storage>();
    storage->dtype = entry.dtype;
    storage->bytes = entry.bytes;
    bool empty = shape.numel() == 0;
    out->bytes = empty ? memory_source({}) : gather({storage, offset, strides}, entry.dtype, shape);
  }
  return out;
}

}  // namespace ckpt
