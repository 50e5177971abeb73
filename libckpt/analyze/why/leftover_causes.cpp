#include "libckpt/analyze/why/leftover_causes.h"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "libckpt/analyze/why/shape_causes.h"
#include "libckpt/analyze/why/window_table.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

std::string leftover_count_text(std::size_t count, std::string_view what) {
  return core::format_count(count) + " " + std::string(what) + (count == 1 ? "" : "s");
}

std::unordered_set<std::string_view> names_of(const std::vector<FileKey>& file) {
  std::unordered_set<std::string_view> names;
  for (const FileKey& key : file) names.insert(key.name);
  return names;
}

/// Counters that the model has and the file, beside its running means, has not.
void find_missing_counters(Attempt& attempt) {
  std::unordered_set<std::string_view> names = names_of(attempt.file());
  FixStep step{FixStep::Kind::add_counters, ""};
  std::vector<FileKey> added;
  for (std::size_t t : attempt.unmatched_wanted()) {
    const WantedKey& wanted = attempt.wanted()[t];
    if (!is_counter(wanted.key) || !names.contains(std::string(parent_of(wanted.key)) + ".running_mean")) continue;
    step.keys.push_back(wanted.key);
    added.push_back({wanted.key, core::Shape{}, core::DType::i64});
  }
  if (added.empty()) return;
  Cause cause{CauseKind::missing_counters,
              leftover_count_text(added.size(), "counter") +
                  " num_batches_tracked are missing; PyTorch before 0.4.1 and some exporters did not save them"};
  cause.evidence.push_back("the first is " + core::quote(step.keys.front()));
  step.text = "add " + leftover_count_text(added.size(), "counter") + " of 0";
  std::vector<FileKey> file = attempt.file();
  for (FileKey& key : added) file.push_back(std::move(key));
  attempt.add(std::move(cause), {std::move(step)}, std::move(file));
}

/// Tables that say which row of a bias table belongs to two places of a window. They follow from its size, so that
/// some projects do not save them.
void find_missing_tables(Attempt& attempt) {
  if (attempt.unmatched_wanted().empty()) return;
  std::unordered_map<std::string_view, const FileKey*> names;
  for (const FileKey& key : attempt.file()) names.emplace(key.name, &key);
  FixStep step{FixStep::Kind::add_tables, ""};
  for (std::size_t t : attempt.unmatched_wanted()) {
    const WantedKey& wanted = attempt.wanted()[t];
    if (leaf_of(wanted.key) != "relative_position_index") continue;
    auto biases = names.find(std::string(parent_of(wanted.key)) + ".relative_position_bias_table");
    if (biases == names.end()) continue;
    const core::Shape& rows = biases->second->shape;
    std::optional<core::Shape> shape = wanted.shape ? wanted.shape : usual_table_shape(wanted.key, rows);
    if (!shape || window_of(rows, *shape) == 0) continue;
    step.keys.push_back(wanted.key);
    step.shapes.push_back(*shape);
  }
  if (step.keys.empty()) return;
  Cause cause{CauseKind::missing_tables, leftover_count_text(step.keys.size(), "table") + " relative_position_index " +
                                             (step.keys.size() == 1 ? "is" : "are") +
                                             " missing; what they hold follows from the window"};
  cause.evidence.push_back("the first is " + core::quote(step.keys.front()));
  if (!attempt.wanted().shapes_known()) cause.confidence = 0.85;  // projects differ in how they lay the table out
  step.text = "add " + leftover_count_text(step.keys.size(), "table") + " of window positions";
  std::vector<FileKey> file = attempt.file();
  for (std::size_t i = 0; i < step.keys.size(); ++i) file.push_back({step.keys[i], step.shapes[i], core::DType::i64});
  attempt.add(std::move(cause), {std::move(step)}, std::move(file));
}

/// Drops those of the unmatched keys that `chosen` says.
template <class Chosen>
void drop_keys(Attempt& attempt, Cause cause, std::string_view what, Chosen&& chosen) {
  FixStep step{FixStep::Kind::drop, ""};
  std::unordered_set<std::string> gone;
  for (std::size_t i : attempt.unmatched_file()) {
    if (!chosen(attempt.file()[i])) continue;
    step.keys.push_back(attempt.file()[i].name);
    gone.insert(attempt.file()[i].name);
  }
  if (gone.empty()) return;
  step.text = "drop " + leftover_count_text(gone.size(), what);
  cause.text = leftover_count_text(gone.size(), what) + cause.text;
  cause.evidence.push_back(some_names(step.keys));
  std::vector<FileKey> file = attempt.file();
  std::erase_if(file, [&](const FileKey& key) { return gone.contains(key.name); });
  attempt.add(std::move(cause), {std::move(step)}, std::move(file));
}

void find_extra_counters(Attempt& attempt) {
  drop_keys(attempt, {CauseKind::extra_counters, " num_batches_tracked are in the file and not in the model"},
            "counter", [](const FileKey& key) { return is_counter(key.name); });
}

/// Buffers that modules make for themselves and that older releases saved.
bool is_stale_buffer(const FileKey& key) {
  std::string_view leaf = leaf_of(key.name);
  for (std::string_view known :
       {"position_ids", "token_type_ids", "inv_freq", "original_inv_freq", "relative_position_index", "masked_bias",
        "attn_mask", "causal_mask", "relative_coords_table", "cos_cached", "sin_cached", "freqs_cis"}) {
    if (leaf == known) return true;
  }
  // What T5's first releases saved of a layer that looks at no distances.
  if (key.name.ends_with("layer.1.EncDecAttention.relative_attention_bias.weight")) return true;
  bool mask = key.shape.size() == 4 && key.shape[0] == 1 && key.shape[1] == 1 && key.shape[2] == key.shape[3];
  return leaf == "bias" && mask;  // GPT-2's causal mask
}

void find_profiler_counts(Attempt& attempt) {
  drop_keys(attempt, {CauseKind::extra_keys, " with counts of a profiler (thop), which are no weights"}, "key",
            [](const FileKey& key) { return is_profiler_count(key.name); });
}

void find_stale_buffers(Attempt& attempt) {
  std::unordered_set<std::string_view> unsaved;
  for (const WantedKey& wanted : attempt.wanted().list().unsaved) unsaved.insert(wanted.key);
  drop_keys(attempt, {CauseKind::stale_buffers, " are in the file that the model makes for itself and no longer loads"},
            "buffer", [&](const FileKey& key) { return unsaved.contains(key.name) || is_stale_buffer(key); });
}

/// Names that GPT-2, BERT, T5 and their kin tie, where the key list does not say so.
constexpr std::array<std::string_view, 3> kTiedHeads = {"lm_head.weight", "decoder.weight",
                                                        "cls.predictions.decoder.weight"};
constexpr std::array<std::string_view, 6> kTiedTables = {
    "wte.weight",    "embed_tokens.weight",   "word_embeddings.weight",
    "shared.weight", "tok_embeddings.weight", "tokens_embed.weight"};

template <class Table>
bool ends_with_any(std::string_view key, const Table& table) {
  return std::any_of(table.begin(), table.end(), [&](std::string_view end) {
    return key.ends_with(end) && (key.size() == end.size() || key[key.size() - end.size() - 1] == '.');
  });
}

/// Finds the key of the file that a missing one may share its tensor with.
class TiedNames {
 public:
  explicit TiedNames(const Attempt& attempt) : stated_(!attempt.wanted().list().ties.empty()) {
    std::unordered_map<std::string_view, const FileKey*> file;
    for (const FileKey& key : attempt.file()) {
      file.emplace(key.name, &key);
      if (!stated_ && ends_with_any(key.name, kTiedTables)) tables_.push_back(&key);
    }
    for (const auto& group : attempt.wanted().list().ties) {
      std::vector<const FileKey*>& there = there_.emplace_back();
      for (const std::string& name : group) {
        groups_.emplace(name, there_.size() - 1);
        auto found = file.find(name);
        if (found != file.end() && there.size() < kMaxPartners) there.push_back(found->second);
      }
    }
  }

  const FileKey* partner(const WantedKey& wanted) const {
    if (stated_) return stated_partner(wanted);
    // Of several tables nobody can tell which one it is.
    bool likely = tables_.size() == 1 && ends_with_any(wanted.key, kTiedHeads);
    return likely && shape_fits(wanted, tables_[0]->shape) ? tables_[0] : nullptr;
  }
  bool stated() const { return stated_; }

 private:
  const FileKey* stated_partner(const WantedKey& wanted) const {
    auto group = groups_.find(wanted.key);
    if (group == groups_.end()) return nullptr;
    for (const FileKey* key : there_[group->second]) {
      if (shape_fits(wanted, key->shape)) return key;
    }
    return nullptr;
  }

  static constexpr std::size_t kMaxPartners =
      64;  ///< of one group that are looked at; one does where the file is right

  bool stated_;
  std::vector<std::vector<const FileKey*>> there_;            ///< of each group what the file has
  std::unordered_map<std::string_view, std::size_t> groups_;  ///< by name
  std::vector<const FileKey*> tables_;
};

void find_missing_tied(Attempt& attempt) {
  TiedNames ties(attempt);
  FixStep step{FixStep::Kind::tie, ""};
  std::vector<FileKey> file = attempt.file();
  for (std::size_t t : attempt.unmatched_wanted()) {
    const WantedKey& wanted = attempt.wanted()[t];
    const FileKey* partner = ties.partner(wanted);
    if (partner == nullptr) continue;
    step.pairs.emplace_back(wanted.key, partner->name);
    file.push_back({wanted.key, partner->shape, partner->dtype});
  }
  if (step.pairs.empty()) return;
  Cause cause{CauseKind::missing_tied, "the file stores tied tensors once: " + core::quote(step.pairs[0].first) +
                                           " is " + core::quote(step.pairs[0].second) + " under a second name"};
  cause.confidence = ties.stated() ? 0.98 : 0.75;
  step.text = "tie " + core::quote(step.pairs[0].first) + " to " + core::quote(step.pairs[0].second);
  attempt.add(std::move(cause), {std::move(step)}, std::move(file));
}

/// "decoder.* (12), head.weight": the first components of keys with their numbers.
std::string by_branch(const std::vector<std::string>& keys) {
  std::vector<std::pair<std::string, std::size_t>> branches;
  std::unordered_map<std::string, std::size_t> index;
  for (const std::string& key : keys) {
    std::string branch = key.find('.') == std::string::npos ? key : key.substr(0, key.find('.')) + ".*";
    auto [at, fresh] = index.try_emplace(branch, branches.size());
    if (fresh) branches.emplace_back(branch, 0);
    ++branches[at->second].second;
  }
  std::vector<std::string> texts;
  for (const auto& [branch, count] : branches) {
    if (texts.size() == 6) break;
    texts.push_back(core::printable(branch) + (count > 1 ? " (" + core::format_count(count) + ")" : ""));
  }
  return core::join(texts, ", ") + (branches.size() > texts.size() ? ", ..." : "");
}

void report_extra(Attempt& attempt) {
  std::vector<std::string> names;
  for (std::size_t i : attempt.unmatched_file()) names.push_back(attempt.file()[i].name);
  if (names.empty()) return;
  Cause cause{CauseKind::extra_keys,
              "unexpected keys (" + core::format_count(names.size()) + "): " + some_names(names)};
  cause.evidence.push_back("by branch: " + by_branch(names));
  attempt.add(std::move(cause));
}

}  // namespace

bool is_usually_tied(std::string_view key) {
  return ends_with_any(key, kTiedHeads) || ends_with_any(key, kTiedTables) ||
         key.ends_with("cls.predictions.decoder.bias");
}

bool is_profiler_count(std::string_view key) {
  std::string_view leaf = leaf_of(key);
  return leaf == "total_ops" || leaf == "total_params";
}

void find_leftovers(Attempt& attempt) {
  find_missing_counters(attempt);
  find_missing_tables(attempt);
  find_extra_counters(attempt);
  find_profiler_counts(attempt);
  find_stale_buffers(attempt);
  find_missing_tied(attempt);
}

void find_missing_and_extra(Attempt& attempt, Kinship kinship) {
  if (kinship == Kinship::same_model) {
    std::size_t before = attempt.causes.size();
    std::vector<std::string> names;
    for (std::size_t i : attempt.unmatched_file()) names.push_back(attempt.file()[i].name);
    drop_keys(attempt, {CauseKind::extra_keys, " of the file that the model does not have"}, "key",
              [](const FileKey&) { return true; });
    if (attempt.causes.size() > before) {
      attempt.plan.loses = true;
      attempt.causes.back().evidence.push_back("by branch: " + by_branch(names));
      attempt.causes.back().confidence = 0.9;
    }
  } else {
    report_extra(attempt);
  }
  std::unordered_set<std::string_view> dropped;  // by a cause of their own
  for (const FixStep& step : attempt.plan.steps) {
    if (step.kind == FixStep::Kind::drop) dropped.insert(step.keys.begin(), step.keys.end());
  }
  std::vector<std::string> missing;
  for (std::size_t t : attempt.unmatched_wanted()) {
    if (!dropped.contains(attempt.wanted()[t].key)) missing.push_back(attempt.wanted()[t].key);
  }
  if (missing.empty()) return;
  Cause cause{CauseKind::missing_keys,
              "missing keys (" + core::format_count(missing.size()) + "): " + some_names(missing)};
  cause.evidence.push_back("by branch: " + by_branch(missing));
  cause.advice = "load with strict=False if these may start fresh; otherwise this is not the file for this model";
  attempt.add(std::move(cause));
}

}  // namespace ckpt::detail
