#include "libckpt/format/fsdp/fsdp.h"

#include "libckpt/format/fsdp/fsdp_files.h"
#include "libckpt/format/fsdp/fsdp_join.h"
#include "libckpt/format/torch_part.h"

namespace ckpt::detail {
namespace {

/// A folder was named, and what stands for it is what one rank wrote. Such a file that is named itself is refused by
/// the reader of PyTorch files.
bool detect(const Input& input) {
  return input.from_folder && fsdp_name(input.path.filename().string()).has_value() && names_shards(*input.file);
}

Checkpoint read(const Input& input, const OpenOptions& options) {
  FsdpFiles files = read_fsdp_files(input, options);
  Checkpoint checkpoint;
  checkpoint.root = join_fsdp(files);
  if (options.report != nullptr) {
    options.report->warnings.push_back("the parts of " + std::to_string(files.names.size()) +
                                       (files.names.size() == 1 ? " rank" : " ranks") +
                                       " are joined; what is not sharded is that of rank 0");
  }
  return checkpoint;
}

VerifyResult verify(const Input& input, const OpenOptions& options, const Progress& progress) {
  return verify_joined_parts(input.path.parent_path(), options, progress, [&](const OpenOptions& inner) {
    FsdpFiles files = read_fsdp_files(input, inner);
    join_fsdp(files);
    return files.names;
  });
}

}  // namespace

std::vector<std::string> fsdp_files_beside(const Input& input) {
  if (!detect(input)) return {};
  const std::string own = input.path.filename().string();
  std::vector<std::string> names = ranks_beside(input.path.parent_path(), *fsdp_name(own));
  std::erase(names, own);
  return names;
}

const Format kFsdp = {
    .name = "fsdp",
    .title = "checkpoint of FSDP's ranks",
    .extensions = {},
    .detect = detect,
    .read = read,
    .verify = verify,
    .has_checksums = true,
    .several_files = true,
    .writes_as = "torch-zip",
};

}  // namespace ckpt::detail
