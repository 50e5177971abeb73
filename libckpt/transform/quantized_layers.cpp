#include "libckpt/transform/quantized_layers.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "libckpt/transform/cast_values.h"
#include "libckpt/transform/quantized_parts.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::DType;
using core::Error;
using core::ErrorCode;
using detail::LayerOptions;
using detail::LayerWeight;

constexpr std::int64_t kWordBits = 32;
/// Sides of the blocks that fp8 models have a scale each for.
constexpr std::int64_t kBlocks[] = {128, 16, 32, 64, 256, 512};

/// Parts of compressed-tensors that say how inputs are rounded, which a weight does not depend on.
constexpr std::string_view kInputParts[] = {"input_scale", "input_zero_point", "input_global_scale", "activation_scale",
                                            "input_g_idx"};

bool is_matrix(const EntryPtr& entry, DType dtype) {
  return entry != nullptr && entry->dtype == dtype && entry->shape.size() == 2 && entry->shape[0] > 0 &&
         entry->shape[1] > 0 && entry->bytes != nullptr && !entry->blocks;
}

bool is_float(const EntryPtr& entry) {
  return entry != nullptr && entry->bytes != nullptr && !entry->blocks && core::is_floating(entry->dtype) &&
         can_cast(entry->dtype) && entry->numel() > 0;
}

bool is_float8(DType dtype) {
  return dtype == DType::f8_e4m3fn || dtype == DType::f8_e5m2 || dtype == DType::f8_e4m3fnuz ||
         dtype == DType::f8_e5m2fnuz;
}

std::string groups_text(std::int64_t size, std::int64_t in) {
  return size >= in ? "one scale a row" : "groups of " + std::to_string(size);
}

/// The tensors of one module, by the last part of their names.
class Module {
 public:
  Module(const Dict& dict, const std::unordered_map<std::string, std::size_t>& places, std::string prefix)
      : dict_(dict), places_(places), prefix_(std::move(prefix)) {}

  const std::string& prefix() const { return prefix_; }
  /// Null where there is none; noted as a part of the layer where there is.
  EntryPtr take(std::string_view part) {
    auto found = places_.find(prefix_ + std::string(part));
    if (found == places_.end()) return nullptr;
    parts_.push_back(found->second);
    return dict_.items[found->second].second.entry_ptr();
  }
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(ErrorCode::unsupported, "the quantized layer " + core::quote(prefix_ + "weight") + " " + why);
  }
  LayerWeight finish(std::string scheme, std::int64_t out, std::int64_t in, SourcePtr values) {
    for (std::string_view part : kInputParts) take(part);
    auto entry = std::make_shared<Entry>();
    entry->dtype = DType::f32;
    entry->shape = core::Shape{out, in};
    entry->bytes = std::move(values);
    return {prefix_ + "weight", std::move(scheme), parts_, entry};
  }

 private:
  const Dict& dict_;
  const std::unordered_map<std::string, std::size_t>& places_;
  std::string prefix_;
  std::vector<std::size_t> parts_;
};

/// The width of numbers of which `count` fill `words` words; 0 when none does.
int bits_of(std::int64_t words, std::int64_t count) {
  for (int bits : {2, 3, 4, 8}) {
    if (words * kWordBits == count * bits) return bits;
  }
  return 0;
}

LayerWeight packed_columns(Module& module, const LayerOptions& options) {
  const EntryPtr weight = module.take("qweight");
  const EntryPtr zeros = module.take("qzeros");
  const EntryPtr scales = module.take("scales");
  EntryPtr index = module.take("g_idx");
  if (index != nullptr && index->numel() == 0) index = nullptr;
  const bool whole =
      is_matrix(weight, DType::i32) && is_matrix(zeros, DType::i32) && is_float(scales) && scales->shape.size() == 2;
  if (!whole) module.refuse("lacks a part that GPTQ and AWQ have (qweight, qzeros, scales), or has it in another type");
  detail::ColumnPacked layer{.out = scales->shape[1], .groups = scales->shape[0], .scales = scales};
  layer.awq = weight->shape[1] != layer.out;
  const std::int64_t packed = layer.awq ? weight->shape[1] : zeros->shape[1];
  layer.bits = bits_of(packed, layer.out);
  layer.in = layer.awq || layer.bits == 0 ? weight->shape[0] : weight->shape[0] * kWordBits / layer.bits;
  const bool zeros_fit = zeros->shape[0] == layer.groups && zeros->shape[1] == packed;
  const bool index_fits =
      index == nullptr || (index->dtype == DType::i32 && index->numel() == static_cast<std::uint64_t>(layer.in));
  const bool grouped = layer.groups > 0 && (index != nullptr || layer.in % layer.groups == 0);
  const bool bits_fit = layer.awq ? layer.bits == 4 : bits_of(weight->shape[0], layer.in) > 0;
  if (!zeros_fit || !grouped || !bits_fit) {
    module.refuse("has qweight " + core::to_list(weight->shape) + " and scales " + core::to_list(scales->shape) +
                  ", which no layout of GPTQ or AWQ has that is known here (of AWQ's the one called \"gemm\")");
  }
  if (!index_fits) {
    module.refuse("has a g_idx of " + core::format_count(index->numel()) + " numbers for " + std::to_string(layer.in) +
                  " inputs");
  }
  layer.weight = {weight->bytes, weight->shape[0], weight->shape[1]};
  layer.zeros = {zeros->bytes, zeros->shape[0], zeros->shape[1]};
  layer.index = index;
  layer.zero_shift = layer.awq || options.zeros_as_stored ? 0 : 1;
  const std::string scheme = std::string(layer.awq ? "AWQ " : "GPTQ ") + std::to_string(layer.bits) + "-bit, " +
                             groups_text((layer.in + layer.groups - 1) / layer.groups, layer.in);
  const std::int64_t out = layer.out, in = layer.in;
  return module.finish(scheme, out, in, detail::column_packed_values(std::move(layer)));
}

/// How scales lie over a weight of [out, in].
detail::ScaleGrid grid_of(const Module& module, const EntryPtr& scales, std::int64_t out, std::int64_t in,
                          bool by_index) {
  detail::ScaleGrid grid{.scales = scales, .divisor = nullptr};
  const core::Shape& shape = scales->shape;
  if (scales->numel() == 1) {
    grid.row_block = out;
    grid.column_block = in;
    return grid;
  }
  const std::int64_t rows = shape.empty() ? 1 : shape[0];
  grid.columns = shape.size() == 2 ? shape[1] : 1;
  const bool flat = shape.size() == 1 || shape.size() == 2;
  if (flat && rows == out && (by_index || in % grid.columns == 0)) {
    grid.column_block = in / grid.columns;
    return grid;
  }
  for (std::int64_t block : kBlocks) {
    if (shape.size() != 2 || (out + block - 1) / block != rows || (in + block - 1) / block != grid.columns) continue;
    grid.row_block = grid.column_block = block;
    return grid;
  }
  module.refuse("has scales " + core::to_list(shape) + " for a weight of [" + std::to_string(out) + ", " +
                std::to_string(in) + "]");
}

std::string grid_text(const detail::ScaleGrid& grid, std::int64_t out, std::int64_t in) {
  if (grid.row_block == out && out > 1 && grid.columns == 1) return "one scale";
  if (grid.row_block > 1)
    return "blocks of " + std::to_string(grid.row_block) + " x " + std::to_string(grid.column_block);
  return groups_text(grid.column_block, in);
}

/// Two numbers of weight_shape.
std::pair<std::int64_t, std::int64_t> stored_shape(const Module& module, const EntryPtr& shape) {
  const bool two = shape != nullptr && shape->bytes != nullptr && shape->numel() == 2 &&
                   (shape->dtype == DType::i64 || shape->dtype == DType::i32);
  if (!two) module.refuse("has no weight_shape of two numbers");
  const core::ByteVector raw = read_all(*shape->bytes);
  auto at = [&](std::size_t i) -> std::int64_t {
    return shape->dtype == DType::i64 ? core::load_le<std::int64_t>(raw.data() + i * 8)
                                      : core::load_le<std::int32_t>(raw.data() + i * 4);
  };
  return {at(0), at(1)};
}

LayerWeight packed_words(Module& module, const EntryPtr& weight, const EntryPtr& scales) {
  const auto [out, in] = stored_shape(module, module.take("weight_shape"));
  const std::int64_t words = weight->shape[1];
  const bool sensible = out == weight->shape[0] && in > 0 && in <= words * kWordBits && is_float(scales);
  detail::RowPacked layer{.kind = detail::RowPacked::Kind::words, .in = in, .out = out, .weight = weight};
  layer.bits = sensible ? static_cast<int>(std::min<std::int64_t>(8, words * kWordBits / in)) : 0;
  auto words_of = [in = in](int bits) { return (in * bits + kWordBits - 1) / kWordBits; };
  // A row of less than 32 numbers may fill as many words with other bits.
  if (layer.bits < 1 || words_of(layer.bits) != words || words_of(layer.bits - 1) == words) {
    module.refuse("has weight_packed " + core::to_list(weight->shape) + " for a weight of [" + std::to_string(out) +
                  ", " + std::to_string(in) + "]");
  }
  layer.index = module.take("weight_g_idx");
  layer.scale = grid_of(module, scales, out, in, layer.index != nullptr);
  layer.zeros = module.take("weight_zero_point");
  const core::Shape packed{(out * layer.bits + kWordBits - 1) / kWordBits, layer.scale.columns};
  if (layer.zeros != nullptr && (layer.zeros->dtype != DType::i32 || layer.zeros->shape != packed)) {
    module.refuse("has zero points " + core::to_list(layer.zeros->shape) + " where " + core::to_list(packed) +
                  " belong to its scales");
  }
  const bool indexed = layer.index != nullptr;
  if (indexed && (layer.index->dtype != DType::i32 || layer.index->numel() != static_cast<std::uint64_t>(in))) {
    module.refuse("has a weight_g_idx that is not one number an input");
  }
  const std::string scheme =
      "compressed-tensors " + std::to_string(layer.bits) + "-bit, " + grid_text(layer.scale, out, in);
  return module.finish(scheme, out, in, detail::row_packed_values(std::move(layer)));
}

LayerWeight packed_fp4(Module& module, const EntryPtr& weight, const EntryPtr& scales) {
  const std::int64_t out = weight->shape[0], in = weight->shape[1] * 2;
  const bool mx = scales != nullptr && scales->bytes != nullptr &&
                  (scales->dtype == DType::u8 || scales->dtype == DType::f8_e8m0fnu);
  const bool fits = (mx || is_float(scales)) && scales->shape.size() == 2 && scales->shape[0] == out &&
                    scales->shape[1] > 0 && in % scales->shape[1] == 0;
  if (!fits) module.refuse("has no weight_scale of one number a group");
  detail::RowPacked layer{.kind = detail::RowPacked::Kind::fp4, .in = in, .out = out, .weight = weight};
  layer.scale = {.scales = scales, .columns = scales->shape[1], .column_block = in / scales->shape[1], .exponents = mx};
  const EntryPtr divisor = layer.scale.divisor = module.take("weight_global_scale");
  if (mx && divisor != nullptr) module.refuse("has a weight_global_scale beside scales that are powers of two");
  if (!mx && (!is_float(divisor) || divisor->numel() != 1)) module.refuse("has no weight_global_scale of one number");
  const std::string scheme = std::string(mx ? "MXFP4" : "NVFP4") + ", " + groups_text(layer.scale.column_block, in);
  return module.finish(scheme, out, in, detail::row_packed_values(std::move(layer)));
}

LayerWeight packed_rows(Module& module) {
  const EntryPtr weight = module.take("weight_packed");
  const EntryPtr scales = module.take("weight_scale");
  if (is_matrix(weight, DType::i32)) return packed_words(module, weight, scales);
  if (is_matrix(weight, DType::u8)) return packed_fp4(module, weight, scales);
  module.refuse("has a weight_packed of a type or shape that is not known here");
}

LayerWeight plain_rows(Module& module, std::string_view scale_name) {
  const EntryPtr weight = module.take("weight");
  const EntryPtr scales = module.take(scale_name);
  if (weight->shape.size() != 2 || !is_float(scales))
    module.refuse("has a shape, or scales of a type, that is not known here");
  const std::int64_t out = weight->shape[0], in = weight->shape[1];
  if (out <= 0 || in <= 0 || weight->bytes == nullptr) module.refuse("is empty");
  detail::RowPacked layer{.in = in, .out = out, .weight = weight};
  layer.index = module.take("weight_g_idx");
  layer.scale = grid_of(module, scales, out, in, layer.index != nullptr);
  layer.zeros = module.take("weight_zero_point");
  if (layer.zeros != nullptr && (layer.zeros->shape != scales->shape || !can_cast(layer.zeros->dtype))) {
    module.refuse("has zero points " + core::to_list(layer.zeros->shape) + " for scales " +
                  core::to_list(scales->shape));
  }
  const std::string scheme = std::string(weight->dtype == DType::i8 ? "8-bit integers" : "8-bit floats") + ", " +
                             grid_text(layer.scale, out, in);
  return module.finish(scheme, out, in, detail::row_packed_values(std::move(layer)));
}

/// What the name of a tensor may be the first part of.
enum class Family : std::uint8_t { none, columns, rows, plain, plain_inverse };

using PartPlaces = std::unordered_map<std::string, std::size_t>;

struct FoundLayers {
  Family family = Family::none;
  std::string prefix = {};
};

FoundLayers family_of(const std::string& key, const Entry& entry, const PartPlaces& places) {
  auto ends = [&](std::string_view part) {
    const bool fits = key.ends_with(part);
    const std::size_t length = key.size() - std::min(key.size(), part.size());
    return fits && (length == 0 || key[length - 1] == '.');
  };
  auto prefix = [&](std::string_view part) { return key.substr(0, key.size() - part.size()); };
  if (ends("qweight") && places.contains(prefix("qweight") + "scales")) return {Family::columns, prefix("qweight")};
  if (ends("weight_packed")) return {Family::rows, prefix("weight_packed")};
  const bool narrow = entry.dtype == DType::i8 || is_float8(entry.dtype);
  if (!ends("weight") || !narrow) return {};
  if (places.contains(key + "_scale")) return {Family::plain, prefix("weight")};
  if (places.contains(key + "_scale_inv")) return {Family::plain_inverse, prefix("weight")};
  return {};
}

PartPlaces places_in(const Dict& dict) {
  PartPlaces places;
  for (std::size_t i = 0; i < dict.items.size(); ++i) {
    const auto& [key, value] = dict.items[i];
    if (key.is(Value::Kind::text) && value.is(Value::Kind::tensor)) places.emplace(key.as_text(), i);
  }
  return places;
}

LayerWeight weight_of(const Dict& dict, const PartPlaces& places, const FoundLayers& found,
                      const LayerOptions& options) {
  Module module(dict, places, found.prefix);
  switch (found.family) {
    case Family::columns:
      return packed_columns(module, options);
    case Family::rows:
      return packed_rows(module);
    default:
      return plain_rows(module, found.family == Family::plain ? "weight_scale" : "weight_scale_inv");
  }
}

/// Calls `see` for each first part of a layer in the dict.
template <class See>
void for_each_layer(const Dict& dict, See see) {
  const PartPlaces places = places_in(dict);
  for (const auto& [key, value] : dict.items) {
    if (!key.is(Value::Kind::text) || !value.is(Value::Kind::tensor)) continue;
    const FoundLayers found = family_of(std::string(key.as_text()), value.as_entry(), places);
    if (found.family != Family::none) see(places, found);
  }
}

void find_in(const Value& node, const std::string& path, std::vector<QuantizedLayer>& out) {
  if (!node.is(Value::Kind::dict)) return;
  const Dict& dict = node.as_dict();
  for_each_layer(dict, [&](const PartPlaces& places, const FoundLayers& found) {
    try {
      const LayerWeight layer = weight_of(dict, places, found, {});
      QuantizedLayer named{path + layer.key, layer.scheme, layer.weight->shape, {}};
      for (std::size_t part : layer.parts) named.parts.push_back(path + std::string(dict.items[part].first.as_text()));
      out.push_back(std::move(named));
    } catch (const Error&) {  // dequantize() says what is wrong with it
    }
  });
  for (const auto& [key, value] : dict.items) {
    if (value.is(Value::Kind::dict)) find_in(value, path + step_text(key) + ".", out);
  }
}

}  // namespace

std::vector<LayerWeight> detail::layer_weights(const Dict& dict, const LayerOptions& options) {
  std::vector<LayerWeight> out;
  for_each_layer(dict, [&](const PartPlaces& places, const FoundLayers& found) {
    out.push_back(weight_of(dict, places, found, options));
  });
  return out;
}

std::vector<QuantizedLayer> find_quantized_layers(const Value& root) {
  std::vector<QuantizedLayer> out;
  find_in(root, "", out);
  return out;
}

}  // namespace ckpt
