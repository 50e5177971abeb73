#pragma once
// What is remembered of a PyTorch zip file, so that an edit leaves the tensors where they lie. Thread safety:
// immutable. Use: const auto* old = dynamic_cast<const TorchZipDetail*>(checkpoint.detail.get());

#include "libckpt/checkpoint.h"
#include "libckpt/format/torch/torch_archive.h"
#include "libckpt/options.h"

namespace ckpt::detail {

struct TorchZipDetail final : FormatDetail {
  TorchZipDetail(SourcePtr file_in, TorchArchive archive_in)
      : file(std::move(file_in)), archive(std::move(archive_in)) {}
  const ByteSource* file_read() const override { return file.get(); }

  SourcePtr file;
  TorchArchive archive;
};

/// Warns where the metadata of the checkpoint says something, as it has no place in the file.
void warn_about_metadata(const Checkpoint& checkpoint, const SaveOptions& options);

}  // namespace ckpt::detail
