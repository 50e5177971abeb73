#include "libckpt/format/torch/torch_archive.h"
#include "libckpt/format/torch_zip/detail.h"
#include "libckpt/format/torch_zip/torch_zip.h"

namespace ckpt {

Checkpoint detail::read_torch_zip(const Input& input, const OpenOptions& options) {
  TorchArchive archive = TorchArchive::open(input.file, options);
  Checkpoint checkpoint;
  checkpoint.root = read_object(archive, read_object_pickle(archive, options), options);
  checkpoint.detail = std::make_shared<const TorchZipDetail>(input.file, std::move(archive));
  return checkpoint;
}

}  // namespace ckpt
