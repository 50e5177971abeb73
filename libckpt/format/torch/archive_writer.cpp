#include "libckpt/format/torch/archive_writer.h"

#include "libckpt/format/torch/value_pickler.h"

namespace ckpt {
namespace {

/// What torch.save calls the folder when it is given no file name: the same data gives the same bytes under any name.
constexpr std::string_view kRoot = "archive/";

SourcePtr text_source(std::string_view text) {
  return memory_source({core::as_bytes(text).begin(), core::as_bytes(text).end()});
}

}  // namespace

ZipWriter archive_of(const Value& root) {
  PickledTree tree = pickle_tree(root);
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
  return ZipWriter(std::move(items));
}

}  // namespace ckpt
