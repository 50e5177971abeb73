#include "libckpt/format/megatron/megatron.h"

#include "libckpt/format/megatron/megatron_join.h"
#include "libckpt/format/torch_part.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

Checkpoint read(const Input& input, const OpenOptions& options) {
  const MegatronFiles files = read_megatron_files(input, options);
  Checkpoint checkpoint;
  checkpoint.root = join_megatron(files);
  checkpoint.metadata.emplace_back("checkpoint_version", core::python_float(files.version));
  const Value* iteration = files.roots[0].find("iteration");
  if (iteration != nullptr && iteration->is(Value::Kind::integer)) {
    checkpoint.metadata.emplace_back("iteration", std::to_string(iteration->as_integer()));
  }
  if (options.report != nullptr) {
    options.report->warnings.push_back(
        "the parts of " + std::to_string(files.names.size()) + (files.names.size() == 1 ? " rank" : " ranks") + " (" +
        std::to_string(files.tensor) + " of tensor parallelism, " + std::to_string(files.stages) + " of the pipeline" +
        (files.experts > 1 ? ", " + std::to_string(files.experts) + " of experts" : "") +
        ") are joined to one model with Megatron's names; rows that fill up its vocabulary are kept, "
        "the optimizer is left out");
  }
  return checkpoint;
}

VerifyResult verify(const Input& input, const OpenOptions& options, const Progress& progress) {
  return verify_joined_parts(input.path.parent_path().parent_path(), options, progress, [&](const OpenOptions& inner) {
    MegatronFiles files = read_megatron_files(input, inner);
    join_megatron(files);
    return files.names;
  });
}

}  // namespace

bool is_megatron_part(const Input& input) {
  if (!input.from_folder) return false;
  const std::string name = input.path.filename().string();
  return (name == "model_optim_rng.pt" || name == "model_rng.pt") &&
         megatron_ranks(input.path.parent_path().filename().string()).has_value();
}

std::vector<std::string> megatron_files_beside(const Input& input) {
  std::vector<std::string> names;
  if (!is_megatron_part(input)) return names;
  const std::string own = input.path.parent_path().filename().string() + "/" + input.path.filename().string();
  for (const MegatronRank& rank : list_megatron_ranks(input.path.parent_path().parent_path())) {
    if (rank.file != own) names.push_back(rank.file);
  }
  return names;
}

const Format kMegatron = {
    .name = "megatron",
    .title = "Megatron-LM checkpoint",
    .extensions = {},
    .detect = is_megatron_part,
    .read = read,
    .verify = verify,
    .has_checksums = true,
    .several_files = true,
    .writes_as = "torch-zip",
};

}  // namespace ckpt::detail
