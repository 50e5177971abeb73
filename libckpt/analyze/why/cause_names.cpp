// What causes are called.

#include <array>

#include "libckpt/analyze/why.h"

namespace ckpt {
namespace {

struct Naming {
  CauseKind kind;
  std::string_view name;
  std::string_view title;
};

constexpr std::array kNames = {
    Naming{CauseKind::lfs_pointer, "lfs_pointer", "a git-LFS pointer instead of the weights"},
    Naming{CauseKind::web_page, "web_page", "an answer of a server instead of the file"},
    Naming{CauseKind::truncated, "truncated", "the file is cut off"},
    Naming{CauseKind::corrupt, "corrupt", "the file is damaged"},
    Naming{CauseKind::not_a_checkpoint, "not_a_checkpoint", "the file is something else"},
    Naming{CauseKind::unsafe_pickle, "unsafe_pickle", "the pickle would run code"},
    Naming{CauseKind::program, "program", "the program expects something else"},
    Naming{CauseKind::foreign_globals, "foreign_globals", "objects that weights_only=True refuses"},
    Naming{CauseKind::pickled_module, "pickled_module", "the module was pickled, not its state dict"},
    Naming{CauseKind::nested_dict, "nested_dict", "the state dict lies below other things"},
    Naming{CauseKind::scattered_dicts, "scattered_dicts", "the model lies in several dicts"},
    Naming{CauseKind::rank_part, "rank_part", "one rank's part of the model"},
    Naming{CauseKind::device_tags, "device_tags", "saved on a device that is not here"},
    Naming{CauseKind::wrapper_prefix, "wrapper_prefix", "a wrapper's prefix on the keys"},
    Naming{CauseKind::wrapper_inside, "wrapper_inside", "wrapper components inside the keys"},
    Naming{CauseKind::missing_wrapper, "missing_wrapper", "the model is wrapped, the file is not"},
    Naming{CauseKind::prefix_offset, "prefix_offset", "another prefix"},
    Naming{CauseKind::component_renamed, "component_renamed", "a component has another name"},
    Naming{CauseKind::component_inserted, "component_inserted", "a component more or less"},
    Naming{CauseKind::old_names, "old_names", "names of an older release"},
    Naming{CauseKind::foreign_names, "foreign_names", "names of another project"},
    Naming{CauseKind::order_only, "order_only", "same order and shapes, other names"},
    Naming{CauseKind::transposed, "transposed", "dimensions in another order"},
    Naming{CauseKind::reshaped, "reshaped", "dimensions of 1 more or less"},
    Naming{CauseKind::fused_projections, "fused_projections", "query, key and value fused or split"},
    Naming{CauseKind::head_size, "head_size", "another number of outputs"},
    Naming{CauseKind::vocabulary_size, "vocabulary_size", "another vocabulary"},
    Naming{CauseKind::position_table, "position_table", "another number of positions"},
    Naming{CauseKind::input_channels, "input_channels", "another number of input channels"},
    Naming{CauseKind::depth, "depth", "another number of layers"},
    Naming{CauseKind::width, "width", "other sizes throughout"},
    Naming{CauseKind::shape_mismatch, "shape_mismatch", "other shapes"},
    Naming{CauseKind::missing_counters, "missing_counters", "num_batches_tracked missing"},
    Naming{CauseKind::extra_counters, "extra_counters", "num_batches_tracked not wanted"},
    Naming{CauseKind::missing_tables, "missing_tables", "tables of window positions missing"},
    Naming{CauseKind::missing_tied, "missing_tied", "a tied name missing"},
    Naming{CauseKind::stale_buffers, "stale_buffers", "buffers no longer saved"},
    Naming{CauseKind::extra_keys, "extra_keys", "keys the model does not have"},
    Naming{CauseKind::missing_keys, "missing_keys", "keys the file does not have"},
    Naming{CauseKind::optimizer_groups, "optimizer_groups", "other parameter groups"},
    Naming{CauseKind::optimizer_file, "optimizer_file", "an optimizer state without a model"},
    Naming{CauseKind::no_state_dict, "no_state_dict", "torch.load does not give a dict of tensors"},
    Naming{CauseKind::other_format, "other_format", "torch.load does not read the format"},
    Naming{CauseKind::unsupported_dtype, "unsupported_dtype", "a dtype the reader does not know"},
    Naming{CauseKind::shared_tensors, "shared_tensors", "tensors share memory"},
};

const Naming& naming(CauseKind kind) {
  return kNames[static_cast<std::size_t>(kind)];
}

constexpr bool in_order() {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i].kind != static_cast<CauseKind>(i)) return false;
  }
  return true;
}
static_assert(in_order());
static_assert(kNames.size() == static_cast<std::size_t>(CauseKind::shared_tensors) + 1);

}  // namespace

std::string_view name(CauseKind kind) {
  return naming(kind).name;
}

std::string_view title(CauseKind kind) {
  return naming(kind).title;
}

}  // namespace ckpt
