#pragma once
// Numbers of a model, and the rules for its tensors that depend on them. Internal to libckpt/hub. Thread safety:
// values. Use: Rules rules = architecture_rules(architecture, numbers);

#include <cstdint>
#include <string>

#include "libckpt/checkpoint.h"
#include "libckpt/hub/gguf_architectures.h"
#include "libckpt/transform/rule_pack.h"

namespace ckpt::detail {

struct ModelNumbers {
  std::int64_t layers = 0;
  std::int64_t width = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t decoder_layers = 0;  ///< of T5, whose encoder has `layers`; else 0
  bool gated = false;               ///< of T5: its layers have a gate
  bool named_classes = false;       ///< of BERT: the file says what its classes are called
};

/// Error(value) for sizes below 1 or past 2^31, and for heads that do not divide what they must.
void require_sensible(const ModelNumbers& numbers);

/// The rule pack from the names of transformers to those of llama.cpp.
RulePack architecture_pack(const GgufArchitecture& architecture, const ModelNumbers& numbers);

/// Names and shapes of the tensors at the top.
std::vector<NamedShape> named_shapes(const std::vector<NamedEntry>& entries);

/// Error(value) unless the tensors are those of `layers` layers ("blk.0." ... "blk.31."; of T5 "enc.blk.0." ... and
/// "dec.blk.0." ... up to `decoder_layers`), and the embedding and the
/// matrices of the layers have `width` inputs or outputs; Error(unsupported) naming a tensor that llama.cpp has no name
/// for. `subject`: who says it.
void require_complete(const std::vector<NamedEntry>& entries, const ModelNumbers& numbers, const std::string& subject);

/// What queries of Gemma 2 are divided by the root of: llama.cpp knows the largest model by its layers.
std::int64_t gemma2_scale(const ModelNumbers& numbers);

/// Positions of RoBERTa begin behind pad_token_id, which is 1 in all that are known.
constexpr std::int64_t kMostSparePositions = 1024;

/// How much rotary positions are scaled for each of head_dim / 2 frequencies, by the rule that Llama 3.1 introduced.
struct RopeScaling {
  double theta = 10000;
  double factor = 8;
  double low = 1;
  double high = 4;
  double context = 8192;
};
std::vector<float> llama3_rope_factors(const RopeScaling& scaling, std::int64_t head_dim);

}  // namespace ckpt::detail
