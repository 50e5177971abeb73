#include "tools/run/next_tokens.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"

namespace cli {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::int64_t kMask = 103;

std::int64_t tokens_of(RunModel& model) {
  for (const auto& [name, parameter] : model.module->named_parameters()) {
    for (std::string_view table : {"wte.weight", "word_embeddings.weight", "embed_tokens.weight", "embedding.weight"}) {
      if (name.ends_with(table)) return parameter.size(0);
    }
  }
  return std::numeric_limits<std::int64_t>::max();
}

}  // namespace

std::vector<std::int64_t> ids_in(std::string_view text) {
  std::vector<std::int64_t> ids;
  const char* at = text.data();
  const char* end = at + text.size();
  auto skip = [&] {
    while (at != end && (*at == ',' || *at == ' ')) ++at;
  };
  for (skip(); at != end; skip()) {
    std::int64_t id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc() || id < 0 || (next != end && *next != ',' && *next != ' ')) return {};
    ids.push_back(id);
    at = next;
  }
  return ids;
}

ModelInput read_prompt(const std::string& prompt, RunModel& model) {
  std::vector<std::int64_t> ids = ids_in(prompt);
  if (!model.vocabulary.empty()) {
    ids = model.vocabulary.encode(prompt);
  } else if (ids.empty()) {
    throw Error(ErrorCode::usage,
                core::quote(prompt) +
                    " is not a list of token ids such as 15496,11,995, and the file has no vocabulary; "
                    "--vocabulary names a text that gives one")
        .add_context("--prompt");
  }
  const std::int64_t tokens = tokens_of(model);
  for (std::int64_t id : ids) {
    if (id < tokens) continue;
    throw Error(ErrorCode::usage, "token " + std::to_string(id) + " is past the last of the model's " +
                                      std::to_string(tokens) + " tokens")
        .add_context("--prompt");
  }
  return {"prompt", count_of(ids.size(), "token"), core::from_values(ids).unsqueeze(0)};
}

core::Tensor next_token_logits(const core::Tensor& output, const core::Tensor& tokens) {
  if (output.dim() != 3 || output.size(0) != 1) return output;
  std::int64_t at = output.size(1) - 1;
  const bool has_masks = tokens.defined() && tokens.numel() == output.size(1);
  const std::vector<std::int64_t> ids = has_masks ? tokens.to_vector<std::int64_t>() : std::vector<std::int64_t>();
  auto mask = std::find(ids.begin(), ids.end(), kMask);
  if (mask != ids.end()) at = mask - ids.begin();
  return output.select(0, 0).select(0, at);
}

std::string Generated::shown() const {
  if (!text.empty()) {
    std::string out;
    for (char c : text) {
      const bool harmless = static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t';
      if (harmless && c != 0x7f) out += c;
    }
    return out;
  }
  std::string ids;
  for (std::int64_t id : tokens) ids += (ids.empty() ? "" : ",") + std::to_string(id);
  return ids;
}

zoo::GenerateOptions generate_options(const RunOptions& options, zoo::GenerateOptions defaults) {
  zoo::GenerateOptions out = std::move(defaults);
  if (options.generate > 0) out.max_new_tokens = options.generate;
  const bool draws = options.temperature > 0 || options.top_k >= 0 || options.top_p >= 0;
  if (options.beams > 0) out.beams = options.beams;
  if (options.temperature > 0) out.temperature = options.temperature;
  if (options.top_k >= 0) out.top_k = options.top_k;
  if (options.top_p >= 0) out.top_p = options.top_p;
  if (options.repetition_penalty > 0) out.repetition_penalty = options.repetition_penalty;
  if (draws) out.sample = true;
  if (options.temperature == 0 || (!draws && options.beams > 1)) out.sample = false;
  return out;
}

zoo::StopAfter stop_after(const std::vector<std::string>& stops, TextOf text_of) {
  if (stops.empty()) return {};
  return [stops, text_of = std::move(text_of)](const std::vector<std::int64_t>& added) {
    const std::string text = text_of(added);
    return std::any_of(stops.begin(), stops.end(),
                       [&](const std::string& stop) { return text.find(stop) != std::string::npos; });
  };
}

Generated generate(RunModel& model, const core::Tensor& prompt, const RunOptions& options) {
  if (prompt.size(0) != 1) throw Error(ErrorCode::usage, "--generate goes on from one row of tokens");
  if (!options.stop.empty() && model.vocabulary.empty())
    throw Error(ErrorCode::usage, "--stop is for models with a vocabulary");
  core::manual_seed(options.seed);
  const auto text_of = [&model](const std::vector<std::int64_t>& ids) {
    std::string text;
    for (std::int64_t id : ids) {
      const bool known = static_cast<std::size_t>(id) < model.vocabulary.size();
      text += known ? model.vocabulary.token(id) : "\xEF\xBF\xBD";
    }
    return text;
  };
  zoo::GenerateOptions defaults;
  defaults.sample = true;
  defaults.device = model.device;
  const std::vector<std::int64_t> before = prompt.select(0, 0).to_vector<std::int64_t>();
  Generated generated;
  generated.tokens =
      zoo::generate(*model.module, before, generate_options(options, defaults), stop_after(options.stop, text_of));
  if (!model.vocabulary.empty()) generated.text = text_of(before) + text_of(generated.tokens);
  return generated;
}

}  // namespace cli
