#include "libckpt/format/deepspeed/deepspeed.h"

#include <algorithm>

#include "libckpt/format/deepspeed/zero_join.h"
#include "libckpt/format/torch_part.h"

namespace ckpt::detail {
namespace {

/// A folder was named, and what stands for it is what one process wrote. Such a file that is named itself is a PyTorch
/// file.
bool detect(const Input& input) {
  return input.from_folder && zero_name(input.path.filename().string()).has_value();
}

Checkpoint read(const Input& input, const OpenOptions& options) {
  ZeroFiles files = read_zero_files(input, options);
  Checkpoint checkpoint;
  checkpoint.root = join_zero(files);
  const Value* version = files.models[0].find("ds_version");
  if (version != nullptr && version->is(Value::Kind::text)) {
    checkpoint.metadata.emplace_back("ds_version", version->as_text());
  }
  if (options.report != nullptr) {
    options.report->warnings.push_back("the parts of " + std::to_string(files.optimizers.size()) +
                                       " processes (ZeRO stage " + std::to_string(files.stage) +
                                       ") are joined to weights in float32; the rest of the optimizer is left out");
  }
  return checkpoint;
}

VerifyResult verify(const Input& input, const OpenOptions& options, const Progress& progress) {
  return verify_joined_parts(input.path.parent_path(), options, progress, [&](const OpenOptions& inner) {
    ZeroFiles files = read_zero_files(input, inner);
    join_zero(files);
    return files.names;
  });
}

}  // namespace

std::vector<std::string> zero_files_beside(const Input& input) {
  if (!detect(input)) return {};
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::path folder = input.path.parent_path();
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::string name = at->path().filename().string();
    if (name.ends_with("_states.pt") && name != input.path.filename().string()) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

const Format kDeepSpeedZero = {
    .name = "deepspeed-zero",
    .title = "DeepSpeed ZeRO checkpoint",
    .extensions = {},
    .detect = detect,
    .read = read,
    .verify = verify,
    .has_checksums = true,
    .several_files = true,
    .writes_as = "torch-zip",
};

}  // namespace ckpt::detail
