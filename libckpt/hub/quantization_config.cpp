#include "libckpt/hub/quantization_config.h"

#include <algorithm>
#include <array>

#include "libckpt/hub/config_fields.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using detail::member_text;

QuantizationConfig read_fields(const JsonView& fields, std::string_view usual) {
  QuantizationConfig out{.method = member_text(fields, "quant_method").value_or(std::string(usual))};
  for (const char* name : {"checkpoint_format", "format", "version"}) {
    if (out.format.empty()) out.format = member_text(fields, name).value_or("");
  }
  return out;
}

constexpr std::string_view kSecondFormat = "gptq_v2";

/// Packings that differ from one another in nothing that a tensor shows. The layers of a scheme are packed as the
/// method's own formats are, "" being the usual one.
struct Packing {
  std::string_view scheme;  ///< how QuantizeReport begins
  std::string_view method;
  std::array<std::string_view, 3> formats;
};
constexpr Packing kPackings[] = {{"GPTQ ", "gptq", {"", "gptq", kSecondFormat}}, {"AWQ ", "awq", {"", "gemm", "GEMM"}}};

/// How the layers look that `config` says are packed in another way; "" where they are what they look like.
std::string_view false_look(const QuantizationConfig& config, const std::string& scheme) {
  for (const Packing& known : kPackings) {
    if (config.method.empty() || !scheme.starts_with(known.scheme)) continue;
    if (config.method == known.method && std::ranges::count(known.formats, config.format) > 0) continue;
    return known.scheme;
  }
  return {};
}

std::string format_behind(const QuantizationConfig& config) {
  return config.format.empty() ? "" : " (" + core::printable(config.format) + ")";
}

void require_packing(const QuantizationConfig& config, const std::string& scheme) {
  const std::string_view look = false_look(config, scheme);
  if (look.empty()) return;
  throw core::Error(core::ErrorCode::unsupported,
                    "the configuration beside the weights says that they are quantized as " +
                        core::quote(config.method) + format_behind(config) + ", which looks like " + std::string(look) +
                        "layers and is packed in another way; nothing is dequantized");
}

}  // namespace

QuantizationConfig quantization_config(const std::filesystem::path& path, bool allow_symlinks) {
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::is_directory(path, ignored) ? path : path.parent_path();
  const detail::Links links = allow_symlinks ? detail::Links::anywhere : detail::Links::inside;
  if (auto config = detail::ConfigFields::read(folder, "config.json", links)) {
    std::optional<JsonView> fields = detail::member(config->root(), "quantization_config");
    if (fields) return read_fields(*fields, "unnamed");
  }
  auto older = detail::ConfigFields::read(folder, "quantize_config.json", links);
  return older ? read_fields(older->root(), "gptq") : QuantizationConfig();
}

std::string scheme_by(const QuantizationConfig& config, const std::string& scheme) {
  if (false_look(config, scheme).empty()) return scheme;
  return "unknown packing of " + core::printable(config.method) + format_behind(config);
}

Checkpoint dequantize(const Checkpoint& checkpoint, const QuantizationConfig& config, QuantizeReport* report,
                      unsigned threads) {
  QuantizeReport done;
  Checkpoint out = dequantize(checkpoint, {.gptq_v2 = config.format == kSecondFormat, .threads = threads}, &done);
  for (const QuantizeReport::Count& count : done.counts) require_packing(config, count.from);
  if (report != nullptr) *report = std::move(done);
  return out;
}

}  // namespace ckpt
