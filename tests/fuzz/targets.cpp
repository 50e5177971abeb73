#include "tests/fuzz/targets.h"

#include "libckpt/format/format.h"
#include "tests/fuzz/format_targets.h"
#include "tests/fuzz/part_targets.h"

namespace fuzz {
namespace {

struct Row {
  Target target;
  std::string_view format;  ///< that must be in the build; "" = none
};

std::vector<Row> rows() {
  return {
      {{"safetensors", run_safetensors, {{"safetensors", ".safetensors"}, {"broken", "st_"}}}, "safetensors"},
      {{"safetensors_index", run_safetensors_index, {{"safetensors/sharded", "index.json"}}}, "safetensors-sharded"},
      {{"json", run_json, {{"safetensors", "manifest.json"}}}, ""},
      {{"zip", run_zip, {{"broken", "zip_"}, {"torch_2.15", "zip"}, {"numpy", ".npz"}}}, ""},
      {{"torch_zip", run_torch_zip, {{"torch_2.15", ".pt"}, {"broken", ".pth"}}}, "torch-zip"},
      {{"torch_pickle", run_torch_pickle, {{"torch_2.15", ".pt"}, {"torch_1.13", ".pt"}}, pickle_of}, "torch-zip"},
      {{"torch_legacy", run_torch_legacy, {{"torch_2.15", "legacy"}, {"torch_1.13", "legacy"}}}, "torch-legacy"},
      {{"torch_tar", run_torch_tar, {{"torch_2.15", "tar"}}}, "torch-tar"},
      {{"native_index", run_native_index, {{"torch_2.15", ".pt"}, {"safetensors", ".safetensors"}}, native_index_of},
       "native"},
      {{"npy", run_npy, {{"numpy", ".npy"}, {"broken", "npy_"}}}, "npy"},
      {{"npz", run_npz, {{"numpy", ".npz"}, {"broken", "npz_"}}}, "npz"},
      {{"gguf", run_gguf, {{"gguf", ".gguf"}, {"broken", "gguf_"}}}, "gguf"},
      {{"selector", run_selector, {}}, ""},
      {{"strip_reread",
        run_strip_reread,
        {{"torch_2.15", ".pt"}, {"safetensors", ".safetensors"}, {"numpy", ".np"}, {"gguf", ".gguf"}}},
       ""},
  };
}

}  // namespace

std::vector<Target> targets() {
  std::vector<Target> out;
  for (Row& row : rows()) {
    if (row.format.empty() || ckpt::find_format(row.format) != nullptr) out.push_back(std::move(row.target));
  }
  return out;
}

}  // namespace fuzz
