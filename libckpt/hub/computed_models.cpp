#include "libckpt/hub/computed_models.h"

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

void require_settings(const GgufArchitecture& architecture, const ConfigFields& config, bool dequantized) {
  if (config.has("quantization_config") && !dequantized) {
    config.refuse("quantization_config",
                  "says that the weights are quantized; write the values that they stand for "
                  "first: ckpt convert --dequantize");
  }
  for (const GgufSetting& setting : architecture.settings) {
    std::optional<JsonView> value = config.find(setting.field);
    if (!value) continue;
    std::string text = value->is(JsonView::Kind::text)      ? json_quote(value->as_text())
                       : value->is(JsonView::Kind::boolean) ? (value->as_boolean() ? "true" : "false")
                                                            : "?";
    bool known = false;
    for (std::string_view allowed : core::split(setting.values, ' ')) known |= allowed == text;
    if (!known) {
      config.refuse(setting.field, "is " + text + "; llama.cpp computes " + std::string(architecture.name) +
                                       " models with " + std::string(core::split(setting.values, ' ')[0]));
    }
  }
}

/// llama.cpp takes distances of T5 from 128 on as one.
void require_t5(const ConfigFields& config) {
  constexpr double kDistance = 128;
  const double distance = config.number("relative_attention_max_distance").value_or(kDistance);
  if (distance == kDistance) return;
  config.refuse("relative_attention_max_distance",
                "is " + core::python_float(distance) + "; llama.cpp computes t5 models with 128");
}

/// What llama.cpp computes Gemma 2 with, although no file says it. Errors: Error(unsupported) naming another value.
void require_gemma2(const ConfigFields& config, const ModelNumbers& numbers) {
  constexpr std::string_view kNeeded[] = {"attn_logit_softcapping", "final_logit_softcapping", "sliding_window"};
  for (std::string_view field : kNeeded) {
    const bool off = config.root().has(field) && config.root().at(field).is(JsonView::Kind::null);
    if (off) config.refuse(field, "is null; llama.cpp computes gemma2 models with one");
  }
  auto require_number = [&](std::string_view field, double wanted) {
    const double number = config.number(field).value_or(wanted);
    if (number == wanted) return;
    config.refuse(field, "is " + core::python_float(number) + "; llama.cpp computes such a gemma2 model with " +
                             core::python_float(wanted));
  };
  require_number("rope_theta", 10000);
  require_number("query_pre_attn_scalar", static_cast<double>(gemma2_scale(numbers)));
  if (!config.flag("tie_word_embeddings", true)) {
    config.refuse("tie_word_embeddings", "is false; llama.cpp computes gemma2 models with the table of tokens as head");
  }
  std::optional<JsonView> types = config.find("layer_types");
  if (!types || !types->is(JsonView::Kind::array)) return;
  bool sliding = true;
  for (const JsonView& type : types->items()) {
    const bool known =
        type.is(JsonView::Kind::text) && type.as_text() == (sliding ? "sliding_attention" : "full_attention");
    if (!known) {
      config.refuse("layer_types",
                    "does not begin with \"sliding_attention\" and change from layer to layer, as "
                    "llama.cpp computes gemma2 models");
    }
    sliding = !sliding;
  }
}

}  // namespace

void require_computed(const GgufArchitecture& architecture, const ConfigFields& config, const ModelNumbers& numbers,
                      bool dequantized) {
  require_settings(architecture, config, dequantized);
  if (architecture.name == "gemma2") require_gemma2(config, numbers);
  if (architecture.name == "t5") require_t5(config);
}

}  // namespace ckpt::detail
