#include "tools/run/folder_settings.h"

#include <limits>

#include "libckpt/io/json.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace cli {
namespace {

using core::Error;
using core::ErrorCode;
using zoo::Config;
using Ids = std::vector<std::int64_t>;
namespace fs = std::filesystem;

std::optional<double> number_in(const Config& config, std::string_view name) {
  const std::string* json = config.json_of(name);
  if (json == nullptr) return std::nullopt;
  const auto document = ckpt::JsonDocument::parse(std::string_view(*json));
  const auto kind = document.root().kind();
  if (kind == ckpt::JsonView::Kind::real || kind == ckpt::JsonView::Kind::integer) return document.root().as_real();
  throw Error(ErrorCode::corrupt, "the field " + core::quote(name) + " is no number")
      .add_context("generation_config.json");
}

/// One number or a list of them.
Ids ids_of(const Config& config, std::string_view name) {
  const std::string* json = config.json_of(name);
  if (json == nullptr) return {};
  const auto document = ckpt::JsonDocument::parse(std::string_view(*json));
  std::vector<ckpt::JsonView> views{document.root()};
  if (document.root().is(ckpt::JsonView::Kind::array)) views = document.root().items();
  Ids ids;
  for (const ckpt::JsonView& view : views) {
    if (view.is_count()) ids.push_back(view.as_integer());
  }
  return ids;
}

/// Fields that change what `generate` gives and are not here, unless they have this value.
void refuse_settings(const Config& config, Suppressed suppressed) {
  constexpr std::pair<std::string_view, double> kNeutral[] = {{"no_repeat_ngram_size", 0},
                                                              {"encoder_no_repeat_ngram_size", 0},
                                                              {"min_p", 0},
                                                              {"top_h", 1},
                                                              {"typical_p", 1},
                                                              {"epsilon_cutoff", 0},
                                                              {"eta_cutoff", 0},
                                                              {"penalty_alpha", 0},
                                                              {"num_beam_groups", 1},
                                                              {"diversity_penalty", 0},
                                                              {"guidance_scale", 1},
                                                              {"min_length", 0},
                                                              {"min_new_tokens", 0},
                                                              {"encoder_repetition_penalty", 1},
                                                              {"num_return_sequences", 1}};
  constexpr std::string_view kLists[] = {"bad_words_ids",       "force_words_ids",
                                         "sequence_bias",       "forced_bos_token_id",
                                         "forced_eos_token_id", "exponential_decay_length_penalty",
                                         "constraints",         "stop_strings",
                                         "dola_layers",         "watermarking_config"};
  std::string_view found;
  for (const auto& [name, neutral] : kNeutral) {
    const std::optional<double> value = number_in(config, name);
    if (value && *value != neutral) found = name;
  }
  for (std::string_view name : kLists) {
    if (config.has(name)) found = name;
  }
  for (std::string_view name : {"suppress_tokens", "begin_suppress_tokens"}) {
    if (suppressed == Suppressed::refused && config.has(name)) found = name;
  }
  if (found.empty()) return;
  throw Error(ErrorCode::unsupported, "the field " + core::quote(found) + " asks for what is not here")
      .add_context("generation_config.json");
}

}  // namespace

std::optional<std::int64_t> count_in(const Config& config, std::string_view name) {
  const std::string* json = config.json_of(name);
  if (json == nullptr) return std::nullopt;
  const auto document = ckpt::JsonDocument::parse(std::string_view(*json));
  if (!document.root().is_count()) return std::nullopt;
  return document.root().as_integer();
}

std::int64_t context_of(const Config& config) {
  for (std::string_view name : {"max_position_embeddings", "n_positions", "block_size"}) {
    if (const auto count = count_in(config, name)) return *count;
  }
  return std::numeric_limits<std::int64_t>::max();
}

zoo::GenerateOptions folder_settings(const fs::path& folder, const Config& model, Suppressed suppressed) {
  const fs::path file = folder / "generation_config.json";
  const bool said = fs::exists(file);
  const Config config = said ? Config::read(file) : Config();
  refuse_settings(config, suppressed);
  zoo::GenerateOptions how;
  how.sample = config.has("do_sample") && *config.json_of("do_sample") == "true";
  how.temperature = number_in(config, "temperature").value_or(1);
  how.top_k = count_in(config, "top_k").value_or(0);
  how.top_p = number_in(config, "top_p").value_or(1);
  how.repetition_penalty = number_in(config, "repetition_penalty").value_or(1);
  how.beams = count_in(config, "num_beams").value_or(1);
  how.length_penalty = number_in(config, "length_penalty").value_or(1);
  how.max_new_tokens = count_in(config, "max_new_tokens").value_or(how.max_new_tokens);
  const std::string start = "decoder_start_token_id";
  if (const auto begin = count_in(said && config.has(start) ? config : model, start)) how.begin = {*begin};
  how.ends = ids_of(said && config.has("eos_token_id") ? config : model, "eos_token_id");
  how.suppressed = ids_of(config, "suppress_tokens");
  how.suppressed_first = ids_of(config, "begin_suppress_tokens");
  return how;
}

}  // namespace cli
