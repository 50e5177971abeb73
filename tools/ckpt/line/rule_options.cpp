#include "tools/ckpt/line/rule_options.h"

#include <filesystem>

#include "libckpt/io/byte_source.h"
#include "libckpt/limits.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/support/suggest.h"
#include "zoo/rules/rule_packs.h"

namespace cli {
namespace {

core::ByteVector read_text(const std::string& path) {
  return core::with_context(path, [&] {
    ckpt::SourcePtr file = ckpt::open_file(path);
    if (file->size() > ckpt::Limits().max_json_bytes) {
      throw core::Error(core::ErrorCode::refused, "too large for a file of rules");
    }
    return ckpt::read_all(*file);
  });
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

GivenRules turned(GivenRules given, const std::string& name) {
  if (given.pack) given.pack = ckpt::turned_round(*given.pack);
  given.rules = given.pack ? given.pack->rules : core::with_context(name, [&] { return ckpt::reversed(given.rules); });
  return given;
}

std::string pack_name(std::string name) {
  const std::size_t colon = name.find(':');
  if (colon != std::string::npos) name[colon] = '-';
  return name;
}

GivenRules read_forward(const std::string& name) {
  const bool is_file = exists(name);
  const ckpt::RulePack* shipped = is_file ? nullptr : zoo::find_rule_pack(pack_name(name));
  if (shipped != nullptr) return {shipped->rules, *shipped};
  if (!is_file && name.find_first_of("./") == std::string::npos) {
    if (name == kRulesByLayers) {
      throw core::Error(core::ErrorCode::usage,
                        "the rules 'keras' follow from the layers of the file: 'ckpt convert IN OUT --rules keras'");
    }
    const std::string why = zoo::why_no_rules(pack_name(name));
    if (!why.empty()) throw core::Error(core::ErrorCode::refused, core::quote(name) + ": " + why);
    const std::vector<std::string> names = zoo::rule_pack_names();
    throw core::Error(core::ErrorCode::usage, core::quote(name) + " is not a file and not the name of built-in rules" +
                                                  did_you_mean(name, names) + "; see 'ckpt zoo rules'");
  }
  core::ByteVector text = read_text(name);
  GivenRules given;
  given.pack = ckpt::try_parse_rule_pack(core::as_text(text), name);
  given.rules = given.pack ? given.pack->rules : ckpt::parse_rules(core::as_text(text), name);
  return given;
}

}  // namespace

GivenRules read_rules(const std::string& name, bool reverse) {
  GivenRules given = read_forward(name);
  return reverse ? turned(std::move(given), name) : given;
}

}  // namespace cli
