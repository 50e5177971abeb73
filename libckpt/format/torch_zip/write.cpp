#include <algorithm>

#include "libckpt/format/save_file.h"
#include "libckpt/format/torch/value_pickler.h"
#include "libckpt/format/torch_zip/detail.h"
#include "libckpt/format/torch_zip/keepable.h"
#include "libckpt/format/torch_zip/torch_zip.h"
#include "libckpt/io/atomic_file.h"
#include "libckpt/io/zip.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

/// What torch.save calls the folder when it is given no file name: the same data gives the same bytes under any name.
constexpr std::string_view kRoot = "archive/";

SourcePtr text_source(std::string_view text) {
  return memory_source({core::as_bytes(text).begin(), core::as_bytes(text).end()});
}

/// The records in PyTorch's order. The layout is PyTorch's to the byte, so its readers may compute offsets.
std::vector<ZipItem> records(PickledTree tree) {
  std::vector<ZipItem> items;
  auto add = [&](const std::string& name, SourcePtr payload) {
    items.push_back({std::string(kRoot) + name, std::move(payload)});
  };
  add("data.pkl", memory_source(std::move(tree.pickle)));
  add(".format_version", text_source("1"));
  add(".storage_alignment", text_source("64"));
  add("byteorder", text_source("little"));
  for (std::size_t i = 0; i < tree.storages.size(); ++i) {
    add("data/" + std::to_string(i), std::move(tree.storages[i]));
  }
  add("version", text_source("3\n"));
  return items;
}

/// {"format": "pt"} of safetensors files only says which library the tensors are for.
bool says_more_than_format(const Checkpoint& checkpoint) {
  const std::pair<std::string, std::string> usual = {"format", "pt"};
  return std::any_of(checkpoint.metadata.begin(), checkpoint.metadata.end(),
                     [&](const auto& pair) { return pair != usual; });
}

}  // namespace

std::vector<Obstacle> torch_zip_obstacles(const Checkpoint& checkpoint, const SaveOptions&) {
  return keepable_tree(checkpoint.root).obstacles;
}

void write_torch_zip(const Checkpoint& checkpoint, const std::filesystem::path& path, const SaveOptions& options) {
  ZipWriter zip(records(pickle_tree(keepable_tree(checkpoint.root).root)));
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
