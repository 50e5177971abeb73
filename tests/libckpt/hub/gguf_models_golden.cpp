// Golden data set: folders of Hugging Face, and what llama.cpp's converter makes of them (make_gguf_models.py). Our
// files have the same metadata, bit for bit, and the same tensors; and the way back gives the folder's tensors. Exits
// with 77 without the data.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "libckpt/ckpt.h"
#include "libckpt/format/gguf/gguf_metadata.h"
#include "libckpt/transform/cast_values.h"
#include "tests/support/golden.h"

namespace {

namespace fs = std::filesystem;

/// The converter says it for all architectures but this.
bool is_extra(const std::string& key, const std::string& architecture) {
  return key == "general.file_type" && architecture == "gptneox";
}

const std::vector<ckpt::detail::GgufValue>& values_of(const ckpt::Checkpoint& checkpoint) {
  return std::dynamic_pointer_cast<const ckpt::detail::GgufDetail>(checkpoint.detail)->values;
}

void check_values(test::GoldenRun& run, const std::string& id, const ckpt::Checkpoint& made,
                  const ckpt::Checkpoint& wanted, const std::string& architecture) {
  std::map<std::string, const ckpt::detail::GgufValue*> ours;
  for (const ckpt::detail::GgufValue& value : values_of(made)) ours[value.key] = &value;
  for (const ckpt::detail::GgufValue& value : values_of(wanted)) {
    const ckpt::detail::GgufValue* mine = ours[value.key];
    const bool same = mine != nullptr && mine->type == value.type && mine->stored == value.stored;
    run.check(id + "/" + value.key, same, mine == nullptr ? "missing" : ckpt::detail::metadata_text(*mine));
    ours.erase(value.key);
  }
  for (const auto& [key, value] : ours)
    run.check(id + "/" + key, is_extra(key, architecture), "the converter has none");
}

void check_tensors(test::GoldenRun& run, const std::string& id, const ckpt::Checkpoint& made,
                   const ckpt::Checkpoint& wanted) {
  const std::vector<ckpt::NamedEntry> ours = ckpt::list_entries(made.root);
  const std::vector<ckpt::NamedEntry> theirs = ckpt::list_entries(wanted.root);
  run.check(id + "/tensors", ours.size() == theirs.size(), std::to_string(ours.size()) + " tensors");
  for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
    const ckpt::Entry &a = *ours[i].entry, &b = *theirs[i].entry;
    const bool same = ours[i].name == theirs[i].name && ckpt::type_name(a) == ckpt::type_name(b) &&
                      ckpt::value_shape(a) == ckpt::value_shape(b) &&
                      ckpt::read_all(*a.bytes) == ckpt::read_all(*b.bytes);
    run.check(id + "/" + theirs[i].name, same, ours[i].name + " " + ckpt::type_name(a));
  }
}

ckpt::Checkpoint quantized(const ckpt::Checkpoint& model) {
  ckpt::QuantizeOptions options{.to = "Q8_0"};
  for (const ckpt::NamedEntry& named : ckpt::list_entries(model.root)) {
    if (named.entry->shape.size() > 1 && ckpt::is_gguf_float(named.name, *named.entry)) {
      options.keep.include.push_back(named.name);
    }
  }
  return ckpt::quantize(model, options);
}

/// As the program writes it and a reader reads it.
ckpt::Checkpoint saved(const ckpt::Checkpoint& model, const fs::path& path) {
  ckpt::save(model, path);
  return ckpt::open(path);
}

core::ByteVector as_f32(const ckpt::Entry& entry) {
  core::ByteVector out(entry.numel() * sizeof(float));
  ckpt::cast_values(ckpt::read_all(*entry.bytes), entry.dtype, out, core::DType::f32);
  return out;
}

/// Of Gemma 2 the converter adds one to norms, in f16 where they are f16.
bool is_rounded(const ckpt::Entry& was, const ckpt::Entry& entry) {
  if (was.dtype != core::DType::f16) return false;
  const core::ByteVector a = as_f32(was), b = as_f32(entry);
  for (std::size_t i = 0; i < a.size(); i += sizeof(float)) {
    const float sum = core::load_le<float>(a.data() + i) + 1, back = core::load_le<float>(b.data() + i) + 1;
    if (std::fabs(sum - back) > std::ldexp(std::fabs(sum), -11)) return false;
  }
  return a.size() == b.size();
}

/// But for the first rows, which are zeros in `entry`: RoBERTa has no such positions, and llama.cpp no rows for them.
bool same_rows(const ckpt::Entry& was, const ckpt::Entry& entry, std::int64_t first) {
  const core::ByteVector a = as_f32(was), b = as_f32(entry);
  const auto skipped = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(first * was.shape[1]) * sizeof(float));
  const bool zeros = std::all_of(b.begin(), b.begin() + skipped, [](std::byte byte) { return byte == std::byte{0}; });
  return zeros && std::equal(a.begin() + skipped, a.end(), b.begin() + skipped, b.end());
}

/// As it is called in the file of a model without a head; one with a head has its own names.
std::string plain_name(std::string name) {
  for (std::string_view prefix : {"bert.", "distilbert.", "roberta."}) {
    if (name.starts_with(prefix)) name.erase(0, prefix.size());
  }
  return name;
}

/// Norms and biases come back as f32, which holds what they were.
void check_back(test::GoldenRun& run, const std::string& id, const ckpt::Checkpoint& gguf, const fs::path& folder) {
  const ckpt::HubModel model = ckpt::from_gguf_model(gguf);
  std::map<std::string, ckpt::EntryPtr> back;
  for (const ckpt::NamedEntry& named : ckpt::list_entries(model.weights.root)) back[named.name] = named.entry;
  for (const ckpt::NamedEntry& named : ckpt::list_entries(ckpt::open(folder).root)) {
    const std::string name = back.contains(named.name) ? named.name : plain_name(named.name);
    if (name.starts_with("pooler.") || name.starts_with("vocab_")) continue;
    const ckpt::EntryPtr& entry = back[name];
    const bool fits = entry != nullptr && entry->shape == named.entry->shape;
    const bool shifted = id.starts_with("gemma2") && name.ends_with("norm.weight");
    const bool zeros = id.starts_with("roberta") && name.ends_with("embeddings.position_embeddings.weight");
    const bool same =
        fits && (as_f32(*entry) == as_f32(*named.entry) || (shifted && is_rounded(*named.entry, *entry)) ||
                 (zeros && same_rows(*named.entry, *entry, 2)));
    run.check(id + "/back/" + name, same, entry == nullptr ? "missing" : "has other values");
    back.erase(name);
  }
  for (const auto& [name, entry] : back) run.fail(id + "/back/" + name, "is new");
}

void check_file(test::GoldenRun& run, const fs::path& file) {
  const std::string id = file.stem().string();
  const std::string kind = id.substr(id.find('.') + 1);
  const fs::path folder = file.parent_path() / id.substr(0, id.find('.'));
  const ckpt::Checkpoint wanted = ckpt::open(file);
  ckpt::GgufModelReport report;
  ckpt::Checkpoint model = ckpt::to_gguf_model(ckpt::open(folder), folder, {}, &report);
  if (kind == "q8_0") model = quantized(model);
  const fs::path mine = fs::temp_directory_path() / ("ckpt_" + id + ".gguf");
  check_values(run, id, saved(model, mine), wanted, report.architecture);
  check_tensors(run, id, ckpt::open(mine), wanted);
  fs::remove(mine);
  if (kind != "q8_0") check_back(run, id, wanted, folder);
}

}  // namespace

int main() {
  return test::golden_entries("gguf_models", "gguf_models", ".gguf", check_file);
}
