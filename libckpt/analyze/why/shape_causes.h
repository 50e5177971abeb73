#pragma once
// Causes that lie in shapes: transposed weights, projections fused or split, other sizes, other numbers of layers.
// Thread safety: one owner of the attempt. Use: find_layout_causes(attempt); find_size_causes(attempt);

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "libckpt/analyze/why/attempt.h"

namespace ckpt::detail {

/// What steps can cure: transposed and reshaped tensors, q, k and v fused or split.
void find_layout_causes(Attempt& attempt);

/// Another number of layers or other sizes throughout: the file is another model. True when such a cause was added.
/// `nearest` gives the known model that the shapes belong to, "" for none; it is asked only then.
using Nearest = std::function<std::string()>;
bool find_other_model(Attempt& attempt, const Nearest& nearest);

/// For a message without its file: the first layer of those that the file has beyond the model's last one, which says
/// that the file is of a deeper model: "layer1.2".
std::optional<std::string> layers_that_go_on(const std::vector<std::string>& unexpected,
                                             const std::vector<std::string>& missing);

/// The same where the model goes on: the first block, a layer of several modules with weights, whose number follows on
/// those of the file. `missing` is all that a message says.
std::optional<std::string> blocks_that_go_on(const std::vector<std::string>& missing);

/// Single tensors of another size: the head, the vocabulary, positions, input channels. The step drops them, so that
/// the rest loads.
void find_size_causes(Attempt& attempt);

/// "'a', 'b' and 3 more".
std::string some_names(const std::vector<std::string>& names, std::size_t most = 4);

}  // namespace ckpt::detail
