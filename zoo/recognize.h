#pragma once
// Which models a file's tensors are of, by their names: families whose own tensors have the same. Nothing is loaded.
// Thread safety: as make(); not beside other threads that make tensors, since models are laid out on the meta device.
// Use: std::vector<std::string_view> names = zoo::families_of(ckpt::open("model.safetensors"));

#include <string>
#include <string_view>
#include <vector>

#include "libckpt/checkpoint.h"
#include "zoo/family.h"

namespace zoo {

/// Families of measure.h all of whose tensors `weights` has by their names, tied ones once; of those the ones that
/// leave fewest of its tensors over, in the order of families(). None where a fifth or more of its tensors are left
/// over.
std::vector<std::string_view> families_of(const ckpt::Checkpoint& weights);

/// What is wrong with a folder whose config.json is of `said` and whose weights are of other families, as one sentence
/// with the way out; "" where they may be of `said`, or are not recognised.
std::string other_family(const Family& said, const ckpt::Checkpoint& weights);

}  // namespace zoo
