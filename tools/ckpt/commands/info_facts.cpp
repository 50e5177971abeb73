#include "tools/ckpt/commands/info_facts.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <unordered_set>

#include "libckpt/analyze/pasteable.h"
#include "libckpt/format/format.h"
#include "libckpt/format/spread.h"
#include "libckpt/format/tensor_codec.h"
#include "libckpt/io/remote_name.h"
#include "libckpt/transform/prefix.h"
#include "libckpt/transform/quantized_layers.h"
#include "libckpt/transform/selector.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/hub_models.h"
#include "tools/ckpt/commands/unused_bytes.h"

namespace cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxShown = 12;

template <class Property>
Counts count_by(const Listing& listing, Property property) {
  std::map<std::string, std::uint64_t> counts;
  for (const ListedTensor& tensor : listing.tensors) ++counts[property(*tensor.entry)];
  Counts sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return sorted;
}

/// Tensors that are part of a larger payload are never packed.
Counts count_codecs(const Listing& listing) {
  Counts counts = count_by(listing, [](const ckpt::Entry& entry) { return std::string(ckpt::codec_of(entry)); });
  bool all_plain = counts.size() == 1 && counts[0].first == "none";
  return all_plain ? Counts() : counts;
}

/// Sets what is known of quantised layers.
void count_schemes(Info& info) {
  const std::vector<ckpt::QuantizedLayer> layers =
      ckpt::find_quantized_layers(ckpt::value_at(info.checkpoint.root, info.address.at));
  if (layers.empty()) return;
  const ckpt::QuantizationConfig config = config_beside(info.address.path);
  std::map<std::string, std::uint64_t> counts;
  for (const ckpt::QuantizedLayer& layer : layers) {
    const std::string scheme = ckpt::scheme_by(config, layer.scheme);
    info.dequantizes |= scheme == layer.scheme;
    ++counts[scheme];
  }
  info.schemes = {counts.begin(), counts.end()};
}

std::uint64_t size_on_disk(const fs::path& path) {
  if (ckpt::is_remote_name(path)) return ckpt::detail::remote_opener().size_opened(path.native());
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    std::uint64_t size = fs::file_size(path, error);
    return error ? 0 : size;
  }
  std::uint64_t sum = 0;
  for (fs::recursive_directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    if (at->is_regular_file(ignored)) sum += at->file_size(ignored);
  }
  return sum;
}

std::string list_counts(const Counts& counts) {
  std::string text;
  for (std::size_t i = 0; i < std::min(counts.size(), kMaxShown); ++i) {
    text += (i == 0 ? "" : ", ") + core::printable(counts[i].first) + " (" + core::format_count(counts[i].second) + ")";
  }
  return text + (counts.size() > kMaxShown ? ", ..." : "");
}

std::string describe(const ckpt::StateDictRef& dict) {
  std::string text = dict.name.empty() ? "the top" : core::quote(dict.name);
  text += ": " + count_of(dict.tensors, "tensor");
  for (const auto& [prefix, count] : wrappers_of(*dict.dict)) {
    text += ", " + core::format_count(count) + " behind '" + prefix + "'";
  }
  return text;
}

using Facts = std::vector<std::pair<std::string, std::string>>;

std::string where_text(const std::string& at) {
  return at.empty() ? "the top" : core::quote(at);
}

/// Elements of parameters, each bit of memory once.
std::uint64_t parameters_outside(const Listing& listing, const OptimizerPlaces& optimizers) {
  std::uint64_t count = 0;
  std::unordered_set<const void*> seen;
  for (const ListedTensor& tensor : listing.tensors) {
    if (optimizers.hold(tensor.name)) continue;
    if (tensor.entry->bytes && !seen.insert(tensor.entry->bytes.get()).second) continue;
    bool parameter = ckpt::tensor_kind(tensor.name, *tensor.entry) == ckpt::TensorKind::parameter;
    if (tensor.entry->bytes && parameter) count += tensor.entry->numel();
  }
  return count;
}

void find_unused(Info& info) {
  if (!info.address.at.empty()) return;
  info.unused_bytes = unused_bytes(info.checkpoint);
  if (info.unused_bytes == 0) return;
  info.compact_command = ckpt::ShellCommand("ckpt").word("compact").file(info.address.path.string()).text();
}

void add_optimizers(Facts& facts, const Info& info) {
  for (std::size_t i = 0; i < std::min(info.optimizers.size(), kMaxShown); ++i) {
    const OptimizerFact& o = info.optimizers[i];
    facts.emplace_back("optimizer", where_text(o.at) + ": " + o.kind + ", " + count_of(o.params, "parameter") + ", " +
                                        core::format_size(o.bytes));
  }
}

void add_state_dicts(Facts& facts, const Info& info) {
  for (std::size_t i = 0; i < std::min(info.state_dicts.size(), kMaxShown); ++i) {
    facts.emplace_back("state dict", describe(info.state_dicts[i]));
  }
  if (info.state_dicts.size() > kMaxShown) {
    facts.emplace_back("", "and " + core::format_count(info.state_dicts.size() - kMaxShown) + " more");
  }
}

/// How even the ranks' parts are, and what was in pieces.
void add_spread(Facts& facts, const Info& info) {
  std::optional<ckpt::Spread> spread = ckpt::spread_of(info.checkpoint);
  if (!spread || spread->parts.empty()) return;
  auto less = [](const ckpt::SpreadPart& a, const ckpt::SpreadPart& b) { return a.bytes < b.bytes; };
  const auto [least, most] = std::minmax_element(spread->parts.begin(), spread->parts.end(), less);
  std::string ranks = spread->ranks > 0 ? " of " + count_of(spread->ranks, "rank") : "";
  std::array<char, 32> imbalance{};
  std::snprintf(imbalance.data(), imbalance.size(), "%.2f", spread->imbalance());
  facts.emplace_back("parts", count_of(spread->parts.size(), "file") + ranks + ", " + core::format_size(least->bytes) +
                                  " to " + core::format_size(most->bytes) + ", imbalance " + imbalance.data() +
                                  " (largest over mean)");
  facts.emplace_back("pieces", count_of(spread->tensors_in_pieces, "tensor") + " in " +
                                   count_of(spread->pieces, "piece") + ", " + core::format_count(spread->whole) +
                                   " whole");
  if (spread->replicated_pieces == 0) return;
  facts.emplace_back("replicas", count_of(spread->replicated_pieces, "piece") +
                                     " alike on several ranks, written once: " +
                                     core::format_size(spread->bytes_saved) + " not written again");
}

void add_values(Facts& facts, const Info& info) {
  std::vector<ckpt::NamedValue> values = info.listing.values;
  OptimizerPlaces optimizers(info.optimizers);  // whose settings stand last: their line says what they are
  std::stable_partition(values.begin(), values.end(),
                        [&](const ckpt::NamedValue& value) { return !optimizers.hold(value.name); });
  for (std::size_t i = 0; i < std::min(values.size(), kMaxShown); ++i) {
    facts.emplace_back("value", core::printable(values[i].name) + " = " + ckpt::value_text(values[i].value));
  }
  if (values.size() > kMaxShown) {
    facts.emplace_back("", "and " + core::format_count(values.size() - kMaxShown) + " more (ckpt ls --values)");
  }
  for (const auto& [key, text] : info.checkpoint.metadata) {
    facts.emplace_back("metadata", core::printable(key) + " = " + core::quote(text, 120));
  }
}

}  // namespace

Counts wrappers_of(const ckpt::Dict& dict) {
  std::map<std::string, std::uint64_t> counts;
  for (const auto& [key, value] : dict.items) {
    if (!key.is(ckpt::Value::Kind::text)) continue;
    std::string first = key.as_text().substr(0, key.as_text().find('.'));
    if (first.size() < key.as_text().size() && ckpt::is_wrapper_component(first)) ++counts[first + "."];
  }
  return {counts.begin(), counts.end()};
}

Info examine(const Address& address, ckpt::Checkpoint checkpoint) {
  Info info;
  info.address = address;
  info.checkpoint = std::move(checkpoint);
  core::with_context(address.path.string(), [&] {
    const ckpt::Value& top = ckpt::value_at(info.checkpoint.root, address.at);
    info.listing = make_listing(top);
    info.state_dicts = ckpt::list_state_dicts(top);
    // The state of each parameter is a dict of tensors too, and no state dict that somebody would load.
    std::erase_if(info.state_dicts, [](const auto& dict) { return dict.kind == ckpt::StateDictKind::optimizer; });
  });
  info.dtypes = count_by(info.listing, [](const ckpt::Entry& e) { return ckpt::type_name(e); });
  info.locations = count_by(info.listing, [](const ckpt::Entry& e) { return e.location; });
  info.codecs = count_codecs(info.listing);
  count_schemes(info);
  info.tied = static_cast<std::uint64_t>(
      std::count_if(info.listing.tied_to.begin(), info.listing.tied_to.end(), [](auto to) { return to >= 0; }));
  info.file_bytes = size_on_disk(address.path);
  if (address.at.empty()) info.optimizers = optimizer_facts(info.checkpoint);
  OptimizerPlaces optimizers(info.optimizers);
  info.parameters = parameters_outside(info.listing, OptimizerPlaces({}));
  info.model_parameters = parameters_outside(info.listing, optimizers);
  find_unused(info);
  return info;
}

Facts facts_of(const Info& info) {
  const Listing& listing = info.listing;
  std::string format = format_title(info.checkpoint) + " (" + info.checkpoint.format + ")";
  const ckpt::Format* row = ckpt::find_format(info.checkpoint.format);
  if (row != nullptr && !row->listed_as.empty()) format = row->listed_as;
  Facts facts = {{"format", format},
                 {"file size", core::format_size(info.file_bytes)},
                 {"tensors", count_of(listing.tensors.size(), "tensor") + ", " + count_of(listing.elements, "element") +
                                 ", " + core::format_size(listing.bytes)}};
  if (info.model_parameters > 0) {
    std::string note = info.model_parameters < info.parameters ? ", without the optimizer" : "";
    facts.emplace_back("parameters", count_and_size(info.model_parameters) + note);
  }
  if (!listing.tensors.empty()) {
    facts.emplace_back("dtypes", list_counts(info.dtypes));
    facts.emplace_back("locations", list_counts(info.locations));
    if (!info.codecs.empty()) facts.emplace_back("codecs", list_counts(info.codecs));
  }
  if (!info.schemes.empty()) {
    const char* values = info.dequantizes ? "; their values: ckpt convert --dequantize" : "";
    facts.emplace_back("quantized", list_counts(info.schemes) + values);
  }
  if (info.tied > 0)
    facts.emplace_back("tied", count_of(info.tied, "tensor") + " share a storage with another; its bytes count once");
  if (info.unused_bytes > 0) {
    facts.emplace_back(
        "unused", core::format_size(info.unused_bytes) + " that no tensor uses; to free them: " + info.compact_command);
  }
  add_spread(facts, info);
  add_optimizers(facts, info);
  add_state_dicts(facts, info);
  add_values(facts, info);
  return facts;
}

}  // namespace cli
