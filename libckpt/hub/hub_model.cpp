#include "libckpt/hub/hub_model.h"

#include <algorithm>

#include "libckpt/hub/config_fields.h"
#include "libckpt/io/atomic_file.h"
#include "libckpt/io/atomic_folder.h"
#include "libckpt/open_save.h"
#include "libckpt/transform/glob.h"
#include "libcore/base/error.h"

namespace ckpt {
namespace {

namespace fs = std::filesystem;
using core::Error;
using core::ErrorCode;

constexpr std::string_view kBeside[] = {"*.json",    "*.txt",   "*.model", "*.spm",   "*.tiktoken",
                                        "bpe.codes", "*.jinja", "*.py",    "LICENSE*"};
/// Of the weights that were there, of adapters, of a training, and of folders that are not taken along.
constexpr std::string_view kNotBeside[] = {"*.index.json", "adapter_*", "trainer_state.json", "modules.json"};

template <class Globs>
bool matches_any(const Globs& globs, const std::string& name) {
  return std::ranges::any_of(globs, [&](std::string_view glob) { return glob_match(glob, name); });
}

/// Names of the files that belong to any weights of such a model, sorted.
std::vector<std::string> names_beside(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;
    const bool ours = matches_any(kBeside, name) && !matches_any(kNotBeside, name);
    if (ours && entry.is_regular_file(ignored)) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

/// How many rows a matrix of `rows` rows in `was` has now, where one has others.
std::int64_t rows_now(const Checkpoint& was, const Checkpoint& now, std::int64_t rows) {
  const std::vector<NamedEntry> entries = list_entries(now.root);
  for (const NamedEntry& old : list_entries(was.root)) {
    const core::Shape& before = value_shape(*old.entry);
    if (before.size() != 2 || before[0] != rows) continue;
    const auto same = std::ranges::find(entries, old.name, &NamedEntry::name);
    if (same == entries.end()) continue;
    const core::Shape& after = value_shape(*same->entry);
    if (after.size() == 2 && after[0] != rows && after[1] == before[1]) return after[0];
  }
  return rows;
}

/// The JSON text with the number of the field "vocab_size" replaced wherever it is `was`.
std::string with_vocabulary(std::string text, std::int64_t was, std::int64_t now) {
  constexpr std::string_view kField = "\"vocab_size\"", kBlanks = " \t\r\n";
  const std::string old = std::to_string(was);
  for (std::size_t at = text.find(kField); at != std::string::npos; at = text.find(kField, at + 1)) {
    std::size_t number = text.find_first_not_of(kBlanks, at + kField.size());
    if (number == std::string::npos || text[number] != ':') continue;
    number = text.find_first_not_of(kBlanks, number + 1);
    const bool same = number != std::string::npos && text.compare(number, old.size(), old) == 0 &&
                      text.find_first_not_of("0123456789", number) == number + old.size();
    if (same) text.replace(number, old.size(), std::to_string(now));
  }
  return text;
}

core::ByteVector config_for(const core::ByteVector& config, const fs::path& folder, const Checkpoint& weights,
                            detail::Links links) {
  const std::optional<double> said = detail::ConfigFields::read(folder, "config.json", links)->number("vocab_size");
  if (!said || !(*said >= 1 && *said < 1e9)) return config;
  const auto was = static_cast<std::int64_t>(*said);
  OpenOptions open{.foreign_objects = true};
  open.allow_symlinks = links == detail::Links::anywhere;
  const std::int64_t now = rows_now(ckpt::open(folder, open), weights, was);
  if (now == was) return config;
  const std::string text(reinterpret_cast<const char*>(config.data()), config.size());
  core::ByteVector out;
  core::append(out, core::as_bytes(with_vocabulary(text, was, now)));
  return out;
}

/// "model-00001-of-00002.safetensors" and the index of such.
bool is_shard(const HubModel& model, std::string_view name) {
  const fs::path whole = model.weights_name;
  const std::string stem = whole.stem().string(), ending = whole.extension().string();
  return name == model.weights_name + ".index.json" || glob_match(stem + "-*-of-*" + ending, name);
}

}  // namespace

HubModel hub_model_like(const fs::path& folder, Checkpoint weights, bool allow_symlinks) {
  const detail::Links links = allow_symlinks ? detail::Links::anywhere : detail::Links::inside;
  return core::with_context(folder.string(), [&] {
    HubModel model;
    for (const std::string& name : names_beside(folder)) {
      std::optional<core::ByteVector> bytes = detail::read_hub_file(folder, name, links);
      if (bytes) model.files.emplace_back(name, std::move(*bytes));
    }
    auto config = std::ranges::find(model.files, "config.json", [](const auto& file) { return file.first; });
    if (config == model.files.end()) throw Error(ErrorCode::io, "has no config.json");
    config->second = config_for(config->second, folder, weights, links);
    model.weights = std::move(weights);
    return model;
  });
}

void save_hub_model(const HubModel& model, const std::filesystem::path& folder, const SaveOptions& options) {
  auto is_ours = [&](std::string_view name) {
    const bool text = std::ranges::any_of(model.files, [&](const auto& file) { return file.first == name; });
    return text || name == model.weights_name || is_shard(model, name);
  };
  AtomicFolder whole(folder, {.overwrite = options.overwrite, .durable = options.durable, .may_replace = is_ours});
  SaveOptions inner = options;
  inner.format = "safetensors";
  save(model.weights, whole.hidden() / model.weights_name, inner);
  for (const auto& [name, bytes] : model.files) {
    AtomicFile file(whole.hidden() / name, {.durable = options.durable});
    file.write(bytes);
    file.commit();
  }
  whole.commit();
}

}  // namespace ckpt
