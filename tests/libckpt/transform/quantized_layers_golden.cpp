// Golden data set: layers of GPTQ, AWQ and compressed-tensors, and the weights that their own code makes of them
// (make_quantized_layers.py), equal to the bit once our float32 is rounded to the type that they compute in. Exits with
// 77 without the data.

#include <filesystem>
#include <map>

#include "libckpt/ckpt.h"
#include "tests/support/golden.h"

namespace {

namespace fs = std::filesystem;

std::map<std::string, ckpt::EntryPtr> tensors_of(const ckpt::Checkpoint& checkpoint) {
  std::map<std::string, ckpt::EntryPtr> out;
  for (const ckpt::NamedEntry& named : ckpt::list_entries(checkpoint.root)) out[named.name] = named.entry;
  return out;
}

void check_case(test::GoldenRun& run, const fs::path& weights) {
  std::string id = weights.filename().string();
  id.erase(id.find('.'));
  const auto wanted = tensors_of(ckpt::open(weights));
  ckpt::DequantizeOptions options{.gptq_v2 = id.ends_with("_v2")};
  for (const auto& [name, entry] : wanted) {
    if (name.ends_with(".weight")) options.to = entry->dtype;
  }
  const ckpt::Checkpoint packed = ckpt::open(weights.parent_path() / (id + ".safetensors"));
  const auto made = tensors_of(ckpt::dequantize(packed, options));
  run.check(id + "/found", ckpt::find_quantized_layers(packed.root).size() == 1, "no layer was found");
  run.check(id + "/names", made.size() == wanted.size(), std::to_string(made.size()) + " tensors");
  for (const auto& [name, entry] : wanted) {
    auto found = made.find(name);
    const bool same = found != made.end() && found->second->dtype == entry->dtype &&
                      found->second->shape == entry->shape &&
                      ckpt::read_all(*found->second->bytes) == ckpt::read_all(*entry->bytes);
    run.check(id + "/" + name, same, found == made.end() ? "missing" : "has other values");
  }
}

}  // namespace

int main() {
  return test::golden_entries("quantized_layers", "quantized_layers", ".weights.safetensors", check_case);
}
