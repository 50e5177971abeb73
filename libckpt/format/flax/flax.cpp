#include "libckpt/format/flax/flax.h"

#include "libckpt/format/flax/flax_tree.h"
#include "libckpt/format/flax/msgpack_reader.h"
#include "libckpt/format/verify_reading.h"

namespace ckpt::detail {
namespace {

bool detect(const Input& input) {
  return looks_like_flax(*input.file);
}

Checkpoint read(const Input& input, const OpenOptions& options) {
  Checkpoint checkpoint;
  checkpoint.root = read_flax_tree(input.file, options.limits, input.budget.get());
  return checkpoint;
}

VerifyResult verify(const Input& input, const OpenOptions& options, const Progress& progress) {
  return verify_by_reading(read(input, options).root, progress);
}

}  // namespace

const Format kFlax = {
    .name = "flax",
    .title = "flax msgpack file",
    .extensions = {},
    .detect = detect,
    .read = read,
    .verify = verify,
};

}  // namespace ckpt::detail
