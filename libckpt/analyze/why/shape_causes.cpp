#include "libckpt/analyze/why/shape_causes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

/// A tensor that is there with another shape.
struct Odd {
  std::string key;
  core::Shape have;
  core::Shape want;
  /// The only dimension that differs, -1 when there are several or the ranks differ.
  std::ptrdiff_t dimension = -1;
};

std::vector<Odd> odd_tensors(const Attempt& attempt) {
  std::vector<Odd> odd;
  for (std::size_t t : attempt.mismatched()) {
    const FileKey& key = attempt.file()[static_cast<std::size_t>(attempt.pairing().file_of_wanted[t])];
    Odd one{key.name, key.shape, *attempt.wanted()[t].shape};
    int differing = 0;
    for (std::size_t d = 0; one.have.size() == one.want.size() && d < one.have.size(); ++d) {
      if (one.have[d] == one.want[d]) continue;
      one.dimension = static_cast<std::ptrdiff_t>(d);
      ++differing;
    }
    if (differing != 1) one.dimension = -1;
    odd.push_back(std::move(one));
  }
  return odd;
}

bool holds_any(std::string_view key, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return key.find(word) != std::string_view::npos; });
}

/// Modules all of whose tensors have one size in dimension 0, as a head's weight and bias have.
std::unordered_set<std::string_view> head_like(const Attempt& attempt) {
  std::unordered_map<std::string_view, std::int64_t> rows;
  for (const FileKey& key : attempt.file()) {
    std::int64_t size = key.shape.empty() ? -1 : key.shape[0];
    auto [at, fresh] = rows.try_emplace(parent_of(key.name), size);
    if (!fresh && at->second != size) at->second = -1;
  }
  std::unordered_set<std::string_view> modules;
  for (const auto& [module, size] : rows) {
    if (size >= 0) modules.insert(module);
  }
  return modules;
}

CauseKind size_kind(const std::unordered_set<std::string_view>& heads, const Odd& odd, std::string_view first_kernel) {
  if (holds_any(odd.key, {"pos_embed", "position", "wpe", "pos_emb", "pos_encoding", "attn.bias"}))
    return CauseKind::position_table;
  if (odd.dimension == 1 && odd.have.size() >= 3 && odd.key == first_kernel) return CauseKind::input_channels;
  if (odd.dimension != 0) return CauseKind::shape_mismatch;
  if (holds_any(odd.key, {"wte", "embed_tokens", "word_embeddings", "tok_embeddings", "token_embedding", "lm_head",
                          "shared.weight", "cls.predictions", "embedding"}))
    return CauseKind::vocabulary_size;
  return heads.contains(parent_of(odd.key)) && odd.have.size() != 3 ? CauseKind::head_size : CauseKind::shape_mismatch;
}

std::string size_text(CauseKind kind, const Odd& odd) {
  std::string name(parent_of(odd.key).empty() ? std::string_view(odd.key) : parent_of(odd.key));
  auto at = static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, odd.dimension));
  std::string have =
      odd.dimension < 0 ? core::to_list(odd.have) : core::format_count(static_cast<std::uint64_t>(odd.have[at]));
  std::string want =
      odd.dimension < 0 ? core::to_list(odd.want) : core::format_count(static_cast<std::uint64_t>(odd.want[at]));
  switch (kind) {
    case CauseKind::head_size:
      return "the head " + core::quote(name) + " has " + have + " outputs in the file where the model has " + want;
    case CauseKind::vocabulary_size:
      return "the vocabulary has " + have + " tokens in the file where the model has " + want;
    case CauseKind::position_table:
      return "the table of positions " + core::quote(odd.key) + " is " + core::to_list(odd.have) +
             " in the file where the model has " + core::to_list(odd.want);
    case CauseKind::input_channels:
      return "the first convolution " + core::quote(name) + " takes " + have +
             " channels in the file where the model takes " + want;
    default:
      return core::quote(odd.key) + " is " + core::to_list(odd.have) + " in the file where the model has " +
             core::to_list(odd.want);
  }
}

std::string size_advice(CauseKind kind, const Odd& odd) {
  std::string have = odd.have.empty() ? "" : std::to_string(odd.have[0]);
  switch (kind) {
    case CauseKind::head_size:
      return "build the model with " + have + " outputs, or load the rest and train a new head";
    case CauseKind::vocabulary_size:
      return "call model.resize_token_embeddings(" + have + ") before loading, or load the rest";
    case CauseKind::position_table:
      return "build the model for the file's number of positions, or load the rest and interpolate the table";
    case CauseKind::input_channels:
      return "build the model with " + (odd.have.size() > 1 ? std::to_string(odd.have[1]) : have) +
             " input channels, or load the rest";
    default:
      return "build the model with the file's sizes, or load the rest";
  }
}

std::string first_kernel_of(const Attempt& attempt) {
  for (std::size_t t = 0; t < attempt.wanted().size(); ++t) {
    const WantedKey& wanted = attempt.wanted()[t];
    if (wanted.shape && wanted.shape->size() >= 3 && wanted.shape->size() <= 5 && leaf_of(wanted.key) == "weight")
      return wanted.key;
  }
  return "";
}

void add_size_cause(Attempt& attempt, CauseKind kind, const std::vector<Odd>& group) {
  std::set<std::string_view> gone;
  FixStep step{FixStep::Kind::drop,
               "drop " + core::format_count(group.size()) + (group.size() == 1 ? " tensor" : " tensors")};
  Cause cause{kind, size_text(kind, group.front())};
  for (const Odd& odd : group) {
    gone.insert(odd.key);
    step.keys.push_back(odd.key);
    if (cause.evidence.size() < 4)
      cause.evidence.push_back(odd.key + ": " + core::to_list(odd.have) + " in the file, " + core::to_list(odd.want) +
                               " in the model");
  }
  cause.advice = size_advice(kind, group.front());
  cause.confidence = kind == CauseKind::shape_mismatch ? 0.8 : 0.95;
  std::vector<FileKey> file = attempt.file();
  std::erase_if(file, [&](const FileKey& key) { return gone.contains(key.name); });
  attempt.plan.loses = true;
  attempt.add(std::move(cause), {std::move(step)}, std::move(file));
}

/// Numbers under each prefix: "layer1." has 0 and 1. All of them, however deep.
using Layers = std::map<std::string, std::set<std::int64_t>>;

constexpr std::size_t kDigits = 6;

/// The layer that a recurrent module's parameter names: "rnn.weight_ih_l2_reverse" is layer 2 of "rnn.weight_ih_l".
struct RecurrentLayer {
  std::string_view prefix;
  std::int64_t number = 0;
};
std::optional<RecurrentLayer> recurrent_layer(std::string_view key) {
  std::string_view name = key;
  if (name.ends_with("_reverse")) name.remove_suffix(8);
  std::size_t at = name.rfind("_l");
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view number = name.substr(at + 2);
  std::string_view leaf = leaf_of(name.substr(0, at));
  bool known =
      leaf == "weight_ih" || leaf == "weight_hh" || leaf == "bias_ih" || leaf == "bias_hh" || leaf == "weight_hr";
  if (!known || !is_number(number) || number.size() > kDigits) return std::nullopt;
  return RecurrentLayer{name.substr(0, at + 2), std::stoll(std::string(number))};
}

/// Where the number of a layer begins in a component: 0 in "12", 14 in "encoder_layer_2"; its size where it has none.
std::size_t number_at(std::string_view part) {
  std::size_t line = part.rfind('_');
  std::size_t at = line == std::string_view::npos ? 0 : line + 1;
  std::string_view number = part.substr(at);
  return is_number(number) && number.size() <= kDigits ? at : part.size();
}

void note_layers(Layers& layers, std::string_view key) {
  if (auto layer = recurrent_layer(key)) layers[std::string(layer->prefix)].insert(layer->number);
  std::size_t start = 0;
  for (std::size_t dot = key.find('.'); dot != std::string_view::npos; start = dot + 1, dot = key.find('.', start)) {
    std::string_view part = key.substr(start, dot - start);
    std::size_t digits = number_at(part);
    if (digits < part.size())
      layers[std::string(key.substr(0, start + digits))].insert(std::stoll(std::string(part.substr(digits))));
  }
}

struct DepthDifference {
  std::string prefix;
  std::size_t file = 0;
  std::size_t model = 0;
  std::int64_t common = 0;  ///< the first number that only one side has
};

/// Prefixes under which one side goes on where the other ends.
std::vector<DepthDifference> depth_differences(const Attempt& attempt) {
  Layers file;
  Layers model;
  for (const FileKey& key : attempt.file()) note_layers(file, key.name);
  for (std::size_t t = 0; t < attempt.wanted().size(); ++t) note_layers(model, attempt.wanted()[t].key);
  std::vector<DepthDifference> out;
  for (const auto& [prefix, numbers] : model) {
    auto found = file.find(prefix);
    if (found == file.end() || found->second == numbers) continue;
    const auto& fewer = found->second.size() < numbers.size() ? found->second : numbers;
    const auto& more = found->second.size() < numbers.size() ? numbers : found->second;
    bool continues = std::includes(more.begin(), more.end(), fewer.begin(), fewer.end()) && more.size() > 1;
    if (!continues) continue;
    std::int64_t first = -1;
    for (std::int64_t number : more) {
      if (first < 0 && !fewer.contains(number)) first = number;
    }
    if (first > *fewer.rbegin()) out.push_back({prefix, found->second.size(), numbers.size(), first});
  }
  return out;
}

bool beyond(std::string_view key, const std::vector<DepthDifference>& differences) {
  return std::any_of(differences.begin(), differences.end(), [&](const DepthDifference& d) {
    if (!key.starts_with(d.prefix)) return false;
    if (auto layer = recurrent_layer(key)) return layer->prefix == d.prefix && layer->number >= d.common;
    std::string_view rest = key.substr(d.prefix.size());
    std::string_view number = rest.substr(0, rest.find('.'));
    return is_number(number) && number.size() < 10 && std::stoll(std::string(number)) >= d.common;
  });
}

/// Keys without a partner, and how many of them lie in layers that only one side has.
std::pair<std::size_t, std::size_t> explained_by_depth(const Attempt& attempt,
                                                       const std::vector<DepthDifference>& differences) {
  std::size_t all = 0;
  std::size_t explained = 0;
  for (std::size_t i : attempt.unmatched_file()) {
    ++all;
    if (beyond(attempt.file()[i].name, differences)) ++explained;
  }
  for (std::size_t t : attempt.unmatched_wanted()) {
    ++all;
    if (beyond(attempt.wanted()[t].key, differences)) ++explained;
  }
  return {explained, all};
}

void name_nearest(Cause& cause, const std::string& nearest) {
  if (nearest.empty()) {
    cause.advice = "build the model with the sizes of the file";
    return;
  }
  cause.evidence.push_back("the file's shapes are those of " + nearest);
  cause.advice = "build the model as " + nearest + "; 'ckpt why' says more with --for " + nearest;
}

bool find_depth(Attempt& attempt, const Nearest& nearest) {
  std::vector<DepthDifference> differences = depth_differences(attempt);
  auto [explained, all] = explained_by_depth(attempt, differences);
  if (explained == 0 || explained * 2 < all) return false;
  const DepthDifference& first = differences.front();
  std::string place =
      first.prefix.empty() ? "at the top" : "under " + core::quote(first.prefix.substr(0, first.prefix.size() - 1));
  if (!first.prefix.ends_with('.')) place = "in " + core::quote(parent_of(first.prefix));
  std::string model = nearest();
  Cause cause{CauseKind::depth,
              (model.empty() ? "the file is another model: it has " : "this is a " + model + ": it has ") +
                  core::format_count(first.file) + " layers " + place + " where the model has " +
                  core::format_count(first.model)};
  for (const DepthDifference& d : differences) {
    if (cause.evidence.size() < 4)
      cause.evidence.push_back(d.prefix + "*: " + std::to_string(d.file) + " in the file, " + std::to_string(d.model) +
                               " in the model");
  }
  cause.confidence = 0.9;
  name_nearest(cause, model);
  attempt.add(std::move(cause));
  return true;
}

bool find_width(Attempt& attempt, const Nearest& nearest) {
  std::vector<Odd> odd = odd_tensors(attempt);
  std::size_t there = attempt.file().size() - attempt.unmatched_file().size();
  if (odd.size() < 4 || odd.size() * 3 < there) return false;
  std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> ratios;
  for (const Odd& one : odd) {
    for (std::size_t d = 0; one.have.size() == one.want.size() && d < one.have.size(); ++d) {
      if (one.have[d] != one.want[d]) ++ratios[{one.have[d], one.want[d]}];
    }
  }
  auto most =
      std::max_element(ratios.begin(), ratios.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  std::string sizes = most == ratios.end() ? ""
                                           : "; most often " + std::to_string(most->first.first) + " in the file and " +
                                                 std::to_string(most->first.second) + " in the model";
  std::string model = nearest();
  Cause cause{CauseKind::width, (model.empty() ? "the file is another model: " : "this is a " + model + ": ") +
                                    core::format_count(odd.size()) + " of " + core::format_count(there) +
                                    " tensors have other sizes than in the model" + sizes};
  for (std::size_t i = 0; i < 3; ++i) cause.evidence.push_back(size_text(CauseKind::shape_mismatch, odd[i]));
  cause.confidence = 0.9;
  name_nearest(cause, model);
  attempt.add(std::move(cause));
  return true;
}

}  // namespace

std::optional<std::string> layers_that_go_on(const std::vector<std::string>& unexpected,
                                             const std::vector<std::string>& missing) {
  Layers extra;
  Layers wanted;
  for (const std::string& key : unexpected) note_layers(extra, key);
  for (const std::string& key : missing) note_layers(wanted, key);
  for (const auto& [prefix, numbers] : extra) {
    if (*numbers.begin() > 0 && !wanted.contains(prefix)) return prefix + std::to_string(*numbers.begin());
  }
  return std::nullopt;
}

std::optional<std::string> blocks_that_go_on(const std::vector<std::string>& missing) {
  std::map<std::string, std::pair<std::int64_t, std::set<std::string_view>>> blocks;  // the first number, the modules
  Layers recurrent;
  for (const std::string& name : missing) {
    std::string_view key = name;
    if (!leaf_of(key).starts_with("weight")) continue;
    if (auto layer = recurrent_layer(key)) recurrent[std::string(layer->prefix)].insert(layer->number);
    std::string_view module = parent_of(key);
    Layers layers;
    note_layers(layers, module);
    for (const auto& [prefix, numbers] : layers) {
      const std::size_t end = key.find('.', prefix.size());
      if (end >= module.size()) continue;  // the layer is one module: a head that is missing looks so too
      auto [at, fresh] = blocks.try_emplace(prefix, *numbers.begin(), std::set<std::string_view>());
      at->second.first = std::min(at->second.first, *numbers.begin());
      at->second.second.insert(module);
    }
  }
  for (const auto& [prefix, block] : blocks) {
    if (block.first > 0 && block.second.size() > 1) return prefix + std::to_string(block.first);
  }
  for (const auto& [prefix, numbers] : recurrent) {
    if (*numbers.begin() > 0) return prefix + std::to_string(*numbers.begin());
  }
  return std::nullopt;
}

bool find_other_model(Attempt& attempt, const Nearest& nearest) {
  const std::size_t before = attempt.causes.size();
  bool width = find_width(attempt, nearest);
  bool depth = find_depth(attempt, nearest);
  // What the file is comes before what its names are.
  std::rotate(attempt.causes.begin(), attempt.causes.begin() + static_cast<std::ptrdiff_t>(before),
              attempt.causes.end());
  return width || depth;
}

void find_size_causes(Attempt& attempt) {
  std::map<CauseKind, std::vector<Odd>> groups;
  std::string first_kernel = first_kernel_of(attempt);
  {
    std::unordered_set<std::string_view> heads = head_like(attempt);
    for (Odd& odd : odd_tensors(attempt)) groups[size_kind(heads, odd, first_kernel)].push_back(std::move(odd));
  }
  for (const auto& [kind, group] : groups) add_size_cause(attempt, kind, group);
}

}  // namespace ckpt::detail
