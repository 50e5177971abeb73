#include "tools/run/next_tokens.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/softmax.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"
#include "zoo/decoder.h"

namespace cli {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::int64_t kMask = 103;

/// Empty when the text is anything but whole numbers between commas or spaces.
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

std::int64_t tokens_of(RunModel& model) {
  for (const auto& [name, parameter] : model.module->named_parameters()) {
    for (std::string_view table : {"wte.weight", "word_embeddings.weight", "embed_tokens.weight", "embedding.weight"}) {
      if (name.ends_with(table)) return parameter.size(0);
    }
  }
  return std::numeric_limits<std::int64_t>::max();
}

std::int64_t draw(const core::Tensor& logits, double temperature) {
  if (temperature == 0) return logits.argmax().item<std::int64_t>();
  const core::Tensor shares = core::softmax(logits.div(core::Scalar(temperature)), -1);
  return core::multinomial(shares, {}).item<std::int64_t>();
}

}  // namespace

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

Generated generate(RunModel& model, const core::Tensor& prompt, const RunOptions& options) {
  if (prompt.size(0) != 1) throw Error(ErrorCode::usage, "--generate goes on from one row of tokens");
  core::manual_seed(options.seed);
  core::NoGradGuard no_grad;
  zoo::Decoder decoder(*model.module);
  core::Tensor tokens = prompt;
  Generated generated;
  for (std::int64_t i = 0; i < options.generate; ++i) {
    const core::Tensor logits = decoder.next(tokens.to(model.device)).select(0, 0).cpu();
    const std::int64_t id = draw(logits, options.temperature);
    generated.tokens.push_back(id);
    tokens = core::cat({tokens, core::from_values(std::vector<std::int64_t>{id}).unsqueeze(0)}, 1);
  }
  if (model.vocabulary.empty()) return generated;
  for (std::int64_t id : tokens.to_vector<std::int64_t>()) {
    const bool known = static_cast<std::size_t>(id) < model.vocabulary.size();
    generated.text += known ? model.vocabulary.token(id) : "\xEF\xBF\xBD";
  }
  return generated;
}

}  // namespace cli
