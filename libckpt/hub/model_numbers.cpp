#include "libckpt/hub/model_numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numbers>
#include <set>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::string_view kBlock = "blk.";
constexpr std::string_view kTopNames[] = {"token_embd.weight",
                                          "token_embd_norm.weight",
                                          "token_embd_norm.bias",
                                          "position_embd.weight",
                                          "token_types.weight",
                                          "output_norm.weight",
                                          "output_norm.bias",
                                          "output.weight",
                                          "output.bias",
                                          "rope_freqs.weight",
                                          "rope_factors_long.weight",
                                          "rope_factors_short.weight",
                                          "cls.weight",
                                          "cls.bias",
                                          "cls.output.weight",
                                          "cls.output.bias",
                                          "enc.output_norm.weight",
                                          "dec.output_norm.weight"};

std::string with_numbers(std::string text, const ModelNumbers& numbers) {
  const std::pair<std::string_view, std::string> places[] = {
      {"@heads@", std::to_string(numbers.heads)},
      {"@kv_heads@", std::to_string(numbers.kv_heads)},
      {"@head_dim@", std::to_string(numbers.head_dim)},
      {"@half@", std::to_string(numbers.head_dim / 2)},
      {"@width@", std::to_string(numbers.width)},
      {"@up@", numbers.gated ? "wi_1" : "wi"},
      {"@classes@", numbers.named_classes ? "cls.output" : "cls"}};
  for (const auto& [place, value] : places) {
    for (std::size_t at = text.find(place); at != std::string::npos; at = text.find(place, at)) {
      text.replace(at, place.size(), value);
    }
  }
  return text;
}

constexpr std::string_view kEncoder = "enc.", kDecoder = "dec.";

/// "blk.0.attn_q.weight" of "enc.blk.0.attn_q.weight".
std::string_view without_stack(std::string_view name) {
  for (std::string_view stack : {kEncoder, kDecoder}) {
    if (name.starts_with(stack) && name.substr(stack.size()).starts_with(kBlock)) return name.substr(stack.size());
  }
  return name;
}

/// The number of "blk.12.attn_q.weight"; -1 for other names.
std::int64_t layer_of(std::string_view name) {
  if (!name.starts_with(kBlock)) return -1;
  name.remove_prefix(kBlock.size());
  std::int64_t layer = -1;
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  const bool valid = error == std::errc() && end != name.data() + name.size() && *end == '.';
  return valid ? layer : -1;
}

/// Error(value) for a matrix whose inputs or outputs are not those of the hidden state.
void require_width(const NamedEntry& named, const ModelNumbers& numbers, const std::string& subject) {
  constexpr std::string_view kInto[] = {"attn_q",   "attn_k",       "attn_v",       "attn_qkv",    "ffn_up",
                                        "ffn_gate", "cross_attn_q", "cross_attn_k", "cross_attn_v"};
  constexpr std::string_view kOutOf[] = {"attn_output", "ffn_down", "attn_o", "cross_attn_o"};
  const std::vector<std::string_view> parts = core::split(without_stack(named.name), '.');
  const bool matrix = parts.size() == 4 && parts[3] == "weight";
  const bool into = matrix && std::ranges::find(kInto, parts[2]) != std::end(kInto);
  const bool out_of = matrix && std::ranges::find(kOutOf, parts[2]) != std::end(kOutOf);
  const core::Shape& shape = value_shape(*named.entry);
  const std::int64_t width = shape.size() != 2 ? -1 : into ? shape[1] : shape[0];
  if ((!into && !out_of) || width == numbers.width) return;
  throw Error(ErrorCode::value, "the matrix " + core::quote(named.name) + " has the shape " + core::to_list(shape) +
                                    " where " + subject + " says " + std::to_string(numbers.width) +
                                    (into ? " inputs" : " outputs"));
}

/// Error(value) unless these are all layers from 0 on.
void require_layers(const std::set<std::int64_t>& there, std::int64_t wanted, const std::string& what,
                    const std::string& subject) {
  const bool whole =
      static_cast<std::int64_t>(there.size()) == wanted && (wanted == 0 || *there.rbegin() == wanted - 1);
  if (whole) return;
  throw Error(ErrorCode::value, subject + " says " + std::to_string(wanted) + " " + what +
                                    ", and there are tensors of " + std::to_string(there.size()));
}

}  // namespace

void require_sensible(const ModelNumbers& numbers) {
  const std::pair<const char*, std::int64_t> sizes[] = {{"layers", numbers.layers},
                                                        {"values in a hidden state", numbers.width},
                                                        {"attention heads", numbers.heads},
                                                        {"key-value heads", numbers.kv_heads},
                                                        {"values in a head", numbers.head_dim}};
  for (const auto& [what, size] : sizes) {
    if (size >= 1 && size <= std::numeric_limits<std::int32_t>::max()) continue;
    throw Error(ErrorCode::value, "a model cannot have " + std::to_string(size) + " " + what);
  }
  if (numbers.heads % numbers.kv_heads == 0) return;
  throw Error(ErrorCode::value, std::to_string(numbers.heads) + " attention heads cannot share " +
                                    std::to_string(numbers.kv_heads) + " key-value heads");
}

RulePack architecture_pack(const GgufArchitecture& architecture, const ModelNumbers& numbers) {
  std::string text(architecture.rules);
  text += architecture.turns;
  return parse_rule_pack(with_numbers(std::move(text), numbers), architecture.name);
}

std::vector<NamedShape> named_shapes(const std::vector<NamedEntry>& entries) {
  std::vector<NamedShape> out;
  for (const NamedEntry& named : entries) out.push_back({named.name, value_shape(*named.entry)});
  return out;
}

void require_complete(const std::vector<NamedEntry>& entries, const ModelNumbers& numbers, const std::string& subject) {
  std::set<std::int64_t> layers, decoder_layers;
  bool embedding = false;
  for (const NamedEntry& named : entries) {
    const std::int64_t layer = layer_of(without_stack(named.name));
    if (layer >= 0) {
      (named.name.starts_with(kDecoder) ? decoder_layers : layers).insert(layer);
      require_width(named, numbers, subject);
    }
    const bool top = std::ranges::find(kTopNames, named.name) != std::end(kTopNames);
    if (layer < 0 && !top) {
      throw Error(ErrorCode::unsupported, "the tensor " + core::quote(named.name) + " has no place in such a model");
    }
    if (named.name != kTopNames[0]) continue;
    embedding = true;
    const core::Shape& shape = value_shape(*named.entry);
    if (shape.size() != 2 || shape[1] != numbers.width) {
      throw Error(ErrorCode::value, "the embedding of tokens has the shape " + core::to_list(shape) + " where " +
                                        subject + " says " + std::to_string(numbers.width) + " values a token");
    }
  }
  if (!embedding) throw Error(ErrorCode::value, "the embedding of tokens is missing");
  require_layers(layers, numbers.layers, "layers", subject);
  require_layers(decoder_layers, numbers.decoder_layers, "layers that write", subject);
}

std::int64_t gemma2_scale(const ModelNumbers& numbers) {
  constexpr std::int64_t kLayersOf27B = 46;
  return numbers.layers == kLayersOf27B ? numbers.width / numbers.heads : numbers.head_dim;
}

std::vector<float> llama3_rope_factors(const RopeScaling& scaling, std::int64_t head_dim) {
  std::vector<float> factors;
  const double low_wave = scaling.context / scaling.low;
  const double high_wave = scaling.context / scaling.high;
  for (std::int64_t i = 0; i < head_dim; i += 2) {
    const float power =
        std::pow(static_cast<float>(scaling.theta), static_cast<float>(i) / static_cast<float>(head_dim));
    const float frequency = 1.0F / power;
    const float wave = static_cast<float>(2 * std::numbers::pi) / frequency;
    if (wave < static_cast<float>(high_wave)) {
      factors.push_back(1);
    } else if (wave > static_cast<float>(low_wave)) {
      factors.push_back(static_cast<float>(scaling.factor));
    } else {
      const float smooth = (static_cast<float>(scaling.context) / wave - static_cast<float>(scaling.low)) /
                           static_cast<float>(scaling.high - scaling.low);
      factors.push_back(1 / ((1 - smooth) / static_cast<float>(scaling.factor) + smooth));
    }
  }
  return factors;
}

}  // namespace ckpt::detail
