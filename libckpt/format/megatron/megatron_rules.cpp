#include "libckpt/format/megatron/megatron_rules.h"

#include <algorithm>
#include <array>
#include <utility>

namespace ckpt::detail {
namespace {

using Rule = MegatronRule;

/// Ends of names. Those of Megatron Core stand first, then those of the models before it.
constexpr auto kRules = std::to_array<std::pair<std::string_view, Rule>>({
    {".linear_qkv.weight", Rule::rows},
    {".linear_qkv.bias", Rule::rows},
    {".linear_q.weight", Rule::rows},
    {".linear_q.bias", Rule::rows},
    {".linear_kv.weight", Rule::rows},
    {".linear_kv.bias", Rule::rows},
    {".linear_fc1.weight", Rule::halves},
    {".linear_fc1.bias", Rule::halves},
    {".linear_proj.weight", Rule::columns},
    {".linear_fc2.weight", Rule::columns},
    {".linear_proj.bias", Rule::same},
    {".linear_fc2.bias", Rule::same},
    {"word_embeddings.weight", Rule::rows},
    {"output_layer.weight", Rule::rows},
    {"output_layer.bias", Rule::rows},
    {".query_key_value.weight", Rule::rows},
    {".query_key_value.bias", Rule::rows},
    {".key_value.weight", Rule::rows},
    {".key_value.bias", Rule::rows},
    {"attention.query.weight", Rule::rows},
    {"attention.query.bias", Rule::rows},
    {".dense_h_to_4h.weight", Rule::halves},
    {".dense_h_to_4h.bias", Rule::halves},
    {"attention.dense.weight", Rule::columns},
    {".dense_4h_to_h.weight", Rule::columns},
    {"attention.dense.bias", Rule::same},
    {".dense_4h_to_h.bias", Rule::same},
    {"lm_head.bias", Rule::rows},
    {"position_embeddings.weight", Rule::same},
    {"tokentype_embeddings.weight", Rule::same},
    {"norm.weight", Rule::same},
    {"norm.bias", Rule::same},
    {".layer_norm_weight", Rule::same},
    {".layer_norm_bias", Rule::same},
    {".router.weight", Rule::same},
});

}  // namespace

std::optional<MegatronRule> rule_of(std::string_view name) {
  auto found = std::ranges::find_if(kRules, [&](const auto& rule) { return name.ends_with(rule.first); });
  return found == kRules.end() ? std::nullopt : std::optional(found->second);
}

std::string name_behind(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kPairs[] = {{".linear_fc1.", ".linear_fc2.weight"},
                                                                      {".dense_h_to_4h.", ".dense_4h_to_h.weight"}};
  for (const auto& [first, behind] : kPairs) {
    const std::size_t at = name.rfind(first);
    if (at != std::string_view::npos) return std::string(name.substr(0, at)) + std::string(behind);
  }
  return "";
}

std::uint64_t fused_in(std::string_view name) {
  if (name.find(".query_key_value.") != std::string_view::npos) return 3;
  return name.find(".key_value.") != std::string_view::npos ? 2 : 0;
}

}  // namespace ckpt::detail
