#include "libckpt/hub/config_fields.h"

#include <cmath>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;
namespace fs = std::filesystem;

constexpr std::uint64_t kMaxFile = 256ULL << 20;  ///< tokenizers of 250,000 tokens have 20 MiB
/// Tables of config.json whose fields older files have beside all others.
constexpr std::string_view kRopeTables[] = {"rope_parameters", "rope_scaling"};

}  // namespace

std::optional<core::ByteVector> read_hub_file(const fs::path& folder, const std::string& file, Links links) {
  std::error_code ignored;
  if (!fs::exists(folder / file, ignored)) return std::nullopt;
  return core::with_context((folder / file).string(), [&]() -> std::optional<core::ByteVector> {
    SourcePtr source = open_in_folder(folder, file, links, "the folder");
    if (source->size() > kMaxFile) {
      throw Error(ErrorCode::refused, core::format_size(source->size()) + " is too much for such a file; at most " +
                                          core::format_size(kMaxFile) + " are read");
    }
    return read_all(*source);
  });
}

std::optional<ConfigFields> ConfigFields::read(const fs::path& folder, const std::string& file, Links links) {
  std::optional<core::ByteVector> text = read_hub_file(folder, file, links);
  if (!text) return std::nullopt;
  const std::string path = (folder / file).string();
  return core::with_context(path, [&] {
    JsonDocument document = JsonDocument::parse(std::move(*text), {.what = "the file"});
    if (!document.root().is(JsonView::Kind::object)) throw Error(ErrorCode::corrupt, "is not a JSON object");
    return ConfigFields(path, std::move(document));
  });
}

bool is_number(const JsonView& value) {
  return value.is(JsonView::Kind::integer) || value.is(JsonView::Kind::unsigned_integer) ||
         value.is(JsonView::Kind::real);
}

std::optional<JsonView> member(const JsonView& object, std::string_view name) {
  if (!object.has(name) || object.at(name).is(JsonView::Kind::null)) return std::nullopt;
  return object.at(name);
}

std::optional<std::string> member_text(const JsonView& object, std::string_view name) {
  std::optional<JsonView> value = member(object, name);
  if (!value || !value->is(JsonView::Kind::text)) return std::nullopt;
  return std::string(value->as_text());
}

bool member_flag(const JsonView& object, std::string_view name) {
  std::optional<JsonView> value = member(object, name);
  return value && value->is(JsonView::Kind::boolean) && value->as_boolean();
}

std::optional<JsonView> ConfigFields::find(std::string_view name) const {
  if (std::optional<JsonView> value = member(root(), name)) return value;
  for (std::string_view table : kRopeTables) {
    std::optional<JsonView> fields = member(root(), table);
    if (!fields) continue;
    if (std::optional<JsonView> value = member(*fields, name)) return value;
  }
  return std::nullopt;
}

std::optional<double> ConfigFields::number(std::string_view name) const {
  std::optional<JsonView> value = find(name);
  if (!value) return std::nullopt;
  if (!is_number(*value) || !std::isfinite(value->as_real())) mistaken(name, "a number");
  return value->as_real();
}

std::optional<std::string> ConfigFields::text(std::string_view name) const {
  std::optional<JsonView> value = find(name);
  if (!value) return std::nullopt;
  if (!value->is(JsonView::Kind::text)) mistaken(name, "a text");
  return std::string(value->as_text());
}

bool ConfigFields::flag(std::string_view name, bool fallback) const {
  std::optional<JsonView> value = find(name);
  if (!value) return fallback;
  if (!value->is(JsonView::Kind::boolean)) mistaken(name, "true or false");
  return value->as_boolean();
}

std::vector<double> ConfigFields::numbers(std::string_view name) const {
  std::optional<JsonView> value = find(name);
  std::vector<double> out;
  if (!value) return out;
  if (!value->is(JsonView::Kind::array)) mistaken(name, "a list of numbers");
  for (const JsonView& item : value->items()) {
    if (!is_number(item)) mistaken(name, "a list of numbers");
    out.push_back(item.as_real());
  }
  return out;
}

void ConfigFields::refuse(std::string_view name, const std::string& why) const {
  throw Error(ErrorCode::unsupported, core::quote(name) + " " + why).add_context(file_);
}

void ConfigFields::mistaken(std::string_view name, std::string_view wanted) const {
  throw Error(ErrorCode::corrupt, core::quote(name) + " is not " + std::string(wanted)).add_context(file_);
}

}  // namespace ckpt::detail
