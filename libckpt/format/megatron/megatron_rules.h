#pragma once
// How the parts of a tensor of Megatron-LM belong together, by its name. Internal to libckpt/format/megatron.
// Thread safety: pure. Use: if (rule_of("decoder.layers.0.mlp.linear_fc2.weight") == MegatronRule::columns) ...

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace ckpt::detail {

enum class MegatronRule : std::uint8_t {
  rows,     ///< one below the other: what Megatron calls column-parallel
  halves,   ///< the same, where each rank may have a gate and then as much of what it gates
  columns,  ///< side by side: row-parallel
  same,     ///< every rank has all of it
  mixer,    ///< of Mamba's mixer: z, x, B, C and dt one below the other, or x, B and C, each cut for itself
};

/// nullopt for a name that no rule knows.
std::optional<MegatronRule> rule_of(std::string_view name);

/// The tensor behind the activation: ".linear_fc2.weight" for ".linear_fc1.bias". "" for a name of another form.
std::string name_behind(std::string_view name);

/// A name that belongs to one expert, or to all that a rank has.
bool is_of_experts(std::string_view name);
/// Where the number of an expert stands in such a name: [first, last). An empty one in names of all of a rank's.
std::pair<std::size_t, std::size_t> expert_number_in(std::string_view name);
/// "...experts.weight1" and "weight2" of all experts of a rank: one matrix in which they lie one behind the other.
bool is_grouped(std::string_view name);

/// How many tensors are in one, of attention's fused ones: 3 for "query_key_value", 2 for "key_value", else 0.
std::uint64_t fused_in(std::string_view name);

}  // namespace ckpt::detail
