#include <algorithm>

#include "libckpt/format/save_file.h"
#include "libckpt/format/torch/archive_writer.h"
#include "libckpt/format/torch_zip/detail.h"
#include "libckpt/format/torch_zip/keepable.h"
#include "libckpt/format/torch_zip/torch_zip.h"
#include "libckpt/io/atomic_file.h"
#include "libckpt/io/zip.h"
#include "libckpt/origin.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

/// {"format": "pt"} of safetensors files only says which library the tensors are for; the origin may be in _metadata.
bool says_more_than_format(const Checkpoint& checkpoint) {
  const std::pair<std::string, std::string> usual = {"format", "pt"};
  const bool kept = checkpoint.root.is(Value::Kind::dict) && !origin_of(checkpoint.root.as_dict()).empty();
  return std::any_of(checkpoint.metadata.begin(), checkpoint.metadata.end(),
                     [&](const auto& pair) { return pair != usual && !(kept && pair.first == kOriginKey); });
}

}  // namespace

std::vector<Obstacle> torch_zip_obstacles(const Checkpoint& checkpoint, const SaveOptions&) {
  return keepable_tree(checkpoint.root).obstacles;
}

void write_torch_zip(const Checkpoint& checkpoint, const std::filesystem::path& path, const SaveOptions& options) {
  ZipWriter zip = archive_of(keepable_tree(checkpoint.root).root);
  AtomicFile file(path, file_options(options, zip.total_size()));
  zip.write(file, [&](std::uint64_t done) {
    if (options.progress) options.progress(done, zip.total_size());
  });
  file.commit();
  if (options.report == nullptr) return;
  options.report->bytes_written += zip.total_size();
  options.report->rung = "rewrite";
  warn_about_metadata(checkpoint, options);
}

void warn_about_metadata(const Checkpoint& checkpoint, const SaveOptions& options) {
  if (options.report == nullptr || !says_more_than_format(checkpoint)) return;
  options.report->warnings.emplace_back("the file-level metadata has no place in a PyTorch file and was left out");
}

}  // namespace ckpt::detail
