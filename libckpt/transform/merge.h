#pragma once
// merge: one model from several that were trained on from a common base, by the methods of mergekit. Values are
// computed while the result is read, in f32 (f64 for f64 tensors), and rounded once to the dtype of the tensor; memory
// is a few blocks a file, whatever the size: what a method needs to know of a whole tensor (a threshold, a norm) is
// found in passes over the files. Source: mergekit's merge_methods and sparsify. Thread safety: pure. Use:
// ckpt::Checkpoint mix = ckpt::merge({ckpt::open("a.pth"), ckpt::open("b.pth")}, {.method = ckpt::MergeMethod::slerp});

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libckpt/checkpoint.h"

namespace ckpt {

enum class MergeMethod : std::uint8_t {
  linear,           ///< weighted mean of all
  slerp,            ///< from the first to the second along the arc between them
  task_arithmetic,  ///< base + sum of weight * (model - base)
  ties,             ///< of each difference the largest values, of these the ones of the sign that most weight has
  dare_linear,      ///< of each difference values by chance, the rest scaled up
  dare_ties,        ///< the same, and of these the ones of the sign that most weight has
};

struct MergeOptions {
  MergeMethod method = MergeMethod::linear;
  /// One a model (without the base), or one for all. Empty: 1.
  std::vector<double> weights = {};
  /// Share of the values of a difference that stay: of ties and dare. One a model or one for all; empty: 1.
  std::vector<double> densities = {};
  double t = 0.5;                      ///< of slerp: 0 is the first model, 1 the second
  double lambda = 1;                   ///< factor of the merged difference
  std::optional<bool> normalize = {};  ///< divide by the sum of weights; as mergekit: on for linear and ties
  std::optional<bool> rescale = {};    ///< give differences their sum of sizes back; as mergekit: on for dare
  std::uint64_t seed = 0;              ///< of dare; each tensor has numbers of its own, whatever is read first
  std::vector<std::string> at = {};    ///< which state dict of each; one for all, or one a checkpoint
};

struct MergeReport {
  std::uint64_t merged = 0;                   ///< tensors of floats
  std::uint64_t equal = 0;                    ///< integers, bools and the like that all files agree about
  std::vector<std::string> taken_first = {};  ///< those that differ: the first file's are taken
};

/// "ties"; nothing for a name that is none.
std::optional<MergeMethod> parse_merge_method(std::string_view name);
std::string_view name(MergeMethod method);
/// True where the first checkpoint is the base that the others' differences are taken from.
bool has_base(MergeMethod method);

/// The state dict of the first checkpoint (of the base, where the method has one), at the top, with merged values.
/// Errors: Error(usage) for numbers of checkpoints, weights or densities that make no sense; Error(refused) listing
/// keys, shapes and dtypes that differ; Error(unsupported) for floats that cannot be computed with.
Checkpoint merge(const std::vector<Checkpoint>& checkpoints, const MergeOptions& options,
                 MergeReport* report = nullptr);

}  // namespace ckpt
