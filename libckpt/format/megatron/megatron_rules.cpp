#include "libckpt/format/megatron/megatron_rules.h"

#include <algorithm>
#include <array>
#include <utility>

namespace ckpt::detail {
namespace {

using Rule = MegatronRule;

constexpr std::string_view kExperts = ".experts.";
constexpr std::string_view kLocal = ".local_experts.";
constexpr std::string_view kDigits = "0123456789";

/// Ends of names. Those of Megatron Core stand first, then those of the models before it.
constexpr auto kRules = std::to_array<std::pair<std::string_view, Rule>>({
    {".mixer.in_proj.weight", Rule::mixer},
    {".mixer.conv1d.weight", Rule::mixer},
    {".mixer.conv1d.bias", Rule::mixer},
    {".mixer.dt_bias", Rule::rows},
    {".mixer.A_log", Rule::rows},
    {".mixer.D", Rule::rows},
    {".mixer.norm.weight", Rule::rows},
    {".mixer.out_proj.weight", Rule::columns},
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
    {".router.expert_bias", Rule::same},
});

}  // namespace

bool is_of_experts(std::string_view name) {
  return name.find(kExperts) != std::string_view::npos;
}

std::pair<std::size_t, std::size_t> expert_number_in(std::string_view name) {
  const std::size_t experts = name.find(kExperts);
  if (experts == std::string_view::npos) return {0, 0};
  std::size_t begin = name.find(kLocal, experts);
  std::size_t end = name.size();
  if (begin != std::string_view::npos) {
    begin += kLocal.size();
    end = std::min(name.find_first_not_of(kDigits, begin), name.size());
  } else if (name.find(".linear_fc", experts) != std::string_view::npos) {
    begin = name.find_last_not_of(kDigits) + 1;
  } else {
    return {0, 0};
  }
  return end > begin && end - begin < 7 ? std::pair(begin, end) : std::pair(std::size_t{0}, std::size_t{0});
}

bool is_grouped(std::string_view name) {
  return name.ends_with(".experts.weight1") || name.ends_with(".experts.weight2");
}

std::optional<MegatronRule> rule_of(std::string_view name) {
  const auto [begin, end] = expert_number_in(name);
  if (end == name.size() && end > begin) name = name.substr(0, begin);
  auto found = std::ranges::find_if(kRules, [&](const auto& rule) { return name.ends_with(rule.first); });
  return found == kRules.end() ? std::nullopt : std::optional(found->second);
}

std::string name_behind(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kPairs[] = {{".linear_fc1.", ".linear_fc2.weight"},
                                                                      {".dense_h_to_4h.", ".dense_4h_to_h.weight"}};
  for (const auto& [first, behind] : kPairs) {
    const std::size_t at = name.rfind(first);
    if (at == std::string_view::npos) continue;
    const auto [begin, end] = expert_number_in(name);
    const bool numbered = end == name.size() && end > begin;
    return std::string(name.substr(0, at)) + std::string(behind) + std::string(numbered ? name.substr(begin) : "");
  }
  return "";
}

std::uint64_t fused_in(std::string_view name) {
  if (name.find(".query_key_value.") != std::string_view::npos) return 3;
  return name.find(".key_value.") != std::string_view::npos ? 2 : 0;
}

}  // namespace ckpt::detail
