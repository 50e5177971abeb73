#include "tests/promises/promise_judge.h"

#include <algorithm>
#include <array>

#include "libckpt/bridge.h"
#include "libcore/base/error.h"
#include "tests/promises/listed_module.h"
#include "tests/support/golden_arrays.h"

namespace test {
namespace {

namespace fs = std::filesystem;
using core::Tensor;

constexpr std::size_t kSumDigits = 12;

bool is_dict_of_tensors(const ckpt::Value& root) {
  if (!root.is(ckpt::Value::Kind::dict) || root.as_dict().items.empty()) return false;
  return std::all_of(root.as_dict().items.begin(), root.as_dict().items.end(), [](const auto& item) {
    return item.first.is(ckpt::Value::Kind::text) && item.second.is(ckpt::Value::Kind::tensor);
  });
}

/// Of a model of full size every tensor holds one number; of others the bytes have a checksum.
bool is_as_trained(const Tensor& tensor, Json sum) {
  const Tensor dense = tensor.detach().contiguous();
  if (sum.is_string()) {
    const auto size = *core::byte_size(dense.dtype(), static_cast<std::uint64_t>(dense.numel()));
    const auto* data = static_cast<const std::byte*>(dense.raw_data());
    return sha256({data, static_cast<std::size_t>(size)}).substr(0, kSumDigits) == text(sum);
  }
  const std::vector<double> values = dense.to_vector<double>();
  const double expected = sum.is_double() ? number(sum) : static_cast<double>(integer(sum));
  return std::all_of(values.begin(), values.end(), [&](double value) { return value == expected; });
}

/// By a usual call: torch.load, load_file, numpy.load, a loop over the files of an index.
bool is_read_by_python(const std::string& format) {
  return format.starts_with("torch-") || format.starts_with("safetensors") || format == "npz";
}

/// The names that lie in the file itself, whatever its metadata says of ties.
core::StateDict state_of(const fs::path& file, const std::string& format) {
  core::StateDict state = ckpt::load(file);
  if (format != "safetensors") return state;
  const GoldenArrays arrays(file);
  for (const std::string& key : state.keys()) {
    if (!arrays.contains(key)) state.erase(key);
  }
  return state;
}

/// As safetensors' load_model: a name that was dropped for a tie may be missing, and must be. Its own check is kept: a
/// counter that the load rules fill in is not missing, and an error.
void load_with_ties(core::Module& module, core::StateDict state, Json model) {
  std::vector<std::string> missing = module.load_state_dict(state, false).missing_keys;
  for (Json group : items(model["ties"])) {
    const std::vector<std::string> names = texts(group);
    const auto kept = std::find_if(names.begin(), names.end(), [&](const auto& name) { return state.contains(name); });
    if (kept == names.end()) continue;
    const Tensor shared = state.at(*kept);
    for (const std::string& name : names) {
      if (state.contains(name)) continue;
      const bool dropped = std::erase(missing, name) > 0;
      state.set(dropped ? name : "unexpected: " + name, shared);
    }
  }
  module.load_state_dict(state);
}

void load_strictly(core::Module& module, const fs::path& file, const std::string& format, Json model) {
  const core::StateDict state = state_of(file, format);
  try {
    module.load_state_dict(state);
  } catch (const core::Error&) {
    if (format != "safetensors" || items(model["ties"]).empty()) throw;
    load_with_ties(module, state, model);
  }
}

std::string wrong_values(const core::Module& module, const Judged& judged) {
  for (const auto& [key, tensor] : module.state_dict()) {
    const std::string& name = key;
    const bool free = std::any_of(judged.free.begin(), judged.free.end(),
                                  [&](const std::string& end) { return name.ends_with(end); });
    if (!free && !is_as_trained(tensor, judged.model["sums"][key])) return key + " holds other values than in training";
  }
  return "";
}

}  // namespace

std::string why_not_loaded(const fs::path& file, const Judged& judged) {
  try {
    const ckpt::Checkpoint checkpoint = ckpt::open(file);
    const ckpt::Value* below = judged.at.empty() ? nullptr : checkpoint.root.find(judged.at);
    if (!is_dict_of_tensors(below != nullptr ? *below : checkpoint.root)) return "this is not a dict of tensors";
    if (!judged.ours && !is_read_by_python(checkpoint.format)) return "nothing in Python reads " + checkpoint.format;
    auto module = make_listed_module(judged.model);
    if (below != nullptr) {
      module->load_state_dict(ckpt::load(file, {.path = judged.at}));
    } else {
      load_strictly(*module, file, checkpoint.format, judged.model);
    }
    return wrong_values(*module, judged);
  } catch (const core::Error& error) {
    return error.what();
  }
}

std::string why_no_dict_of_tensors(const fs::path& file, bool ours) {
  try {
    constexpr std::array<std::string_view, 3> kForms = {"torch-zip", "torch-legacy", "safetensors"};
    ckpt::Report report;
    const ckpt::Checkpoint checkpoint = ckpt::open(file, {.foreign_objects = true, .report = &report});
    if (!ours && std::find(kForms.begin(), kForms.end(), checkpoint.format) == kForms.end()) {
      return "the default load does not read " + checkpoint.format;
    }
    if (!report.globals.empty()) return "weights_only refuses " + report.globals.front();
    if (!is_dict_of_tensors(checkpoint.root)) return "the default load gives no dict of tensors";
    for (const ckpt::NamedEntry& named : ckpt::list_entries(checkpoint.root)) {
      if (named.entry->location != "cpu") return "it was saved on " + named.entry->location;
    }
    return "";
  } catch (const core::Error& error) {
    return error.what();
  }
}

std::string message_of_load(const fs::path& file, Json model) {
  if (!why_no_dict_of_tensors(file, false).empty()) return "";
  auto module = make_listed_module(model);
  try {
    module->load_state_dict(state_of(file, ckpt::open(file).format));
    return "loads";
  } catch (const core::Error& error) {
    return error.message();
  }
}

}  // namespace test
