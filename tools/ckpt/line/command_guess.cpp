#include "tools/ckpt/line/command_guess.h"

#include <CLI/CLI.hpp>
#include <optional>
#include <vector>

#include "libcore/base/text.h"
#include "tools/ckpt/help/help.h"
#include "tools/support/suggest.h"

namespace cli {
namespace {

struct Meaning {
  const char* words;     ///< what other programs call it
  const char* commands;  ///< what it is called here, the likeliest first
};

constexpr Meaning kMeanings[] = {
    {"list dir keys names tensors shape shapes layers", "ls"},
    {"show describe summary view open size", "info tree"},
    {"graph modules", "tree"},
    {"print dump get", "cat"},
    {"combine concat consolidate", "join merge"},
    {"average mean soup ema swa ensemble", "avg"},
    {"blend interpolate slerp ties dare mergekit", "merge"},
    {"adapter adapters peft dora", "lora"},
    {"dtype half bf16 fp16 f16 fp32 precision downcast", "cast"},
    {"validate check test integrity fsck lint", "verify"},
    {"rename-keys map-keys remap-keys rekey replace edit mv", "rename"},
    {"strip unwrap remove-prefix unprefix", "strip-prefix"},
    {"prefix wrap", "add-prefix"},
    {"device devices-map map-location relocate move move-to to cpu", "remap"},
    {"compare cmp difference", "diff"},
    {"filter extract subset keep drop delete remove rm prune", "select"},
    {"shard chunk", "split"},
    {"unshard", "join"},
    {"transform export import save translate copy cp to-safetensors", "convert"},
    {"release upload strip-optimizer", "publish"},
    {"shrink slim compress clean dedupe trim optimize", "compact"},
    {"metadata header", "meta"},
    {"checksum digest sha sha256 sha256sum md5 md5sum", "hash"},
    {"audit safe security pickle malware", "scan"},
    {"recover salvage restore undelete", "rescue"},
    {"repair", "fix rescue"},
    {"newest last resume", "latest"},
    {"clean-up cleanup retain retention rotate garbage", "gc"},
    {"diagnose debug explain load", "why"},
    {"histogram nan", "stat"},
    {"optimizer", "optim"},
    {"models model", "zoo"},
    {"gpus gpu cuda", "devices"},
    {"index rebuild", "reindex"},
};

bool has_word(std::string_view list, std::string_view word) {
  for (std::string_view each : core::split(list, ' ')) {
    if (each == word) return true;
  }
  return false;
}

/// "; did you mean 'info' or 'tree'?" for a word that other programs use, or "".
std::string by_meaning(std::string_view word) {
  for (const Meaning& meaning : kMeanings) {
    if (!has_word(meaning.words, word)) continue;
    std::string meant;
    for (std::string_view command : core::split(meaning.commands, ' ')) {
      meant += (meant.empty() ? "" : " or ") + core::quote(command);
    }
    return "; did you mean " + meant + "?";
  }
  return "";
}

/// The words of every meaning.
std::vector<std::string> known_words() {
  std::vector<std::string> words;
  for (const Meaning& meaning : kMeanings) {
    for (std::string_view word : core::split(meaning.words, ' ')) words.emplace_back(word);
  }
  return words;
}

std::vector<std::string> names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : subcommands(app)) {
    names.push_back(command->get_name());
    for (const std::string& alias : command->get_aliases()) names.push_back(alias);
  }
  return names;
}

}  // namespace

std::string did_you_mean_command(const CLI::App& app, const std::string& word) {
  const bool is_program = app.get_parent() == nullptr;
  if (is_program && !by_meaning(word).empty()) return by_meaning(word);
  std::string meant = did_you_mean(word, names_of(app));
  if (!meant.empty() || !is_program) return meant;
  const std::optional<std::string> known = nearest(word, known_words());
  return known ? by_meaning(*known) : "";
}

}  // namespace cli
