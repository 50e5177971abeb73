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

}  // namespace

GivenRules read_rules(const std::string& name) {
  const bool is_file = exists(name);
  const ckpt::RulePack* shipped = is_file ? nullptr : zoo::find_rule_pack(name);
  if (shipped != nullptr) return {shipped->rules, *shipped};
  if (!is_file && name.find_first_of("./") == std::string::npos) {
    std::vector<std::string> names;
    for (const ckpt::RulePack& pack : zoo::rule_packs()) names.push_back(pack.name);
    throw core::Error(core::ErrorCode::usage, core::quote(name) + " is not a file and not the name of built-in rules" +
                                                  did_you_mean(name, names) + "; see 'ckpt zoo rules'");
  }
  core::ByteVector text = read_text(name);
  GivenRules given;
  given.pack = ckpt::try_parse_rule_pack(core::as_text(text), name);
  given.rules = given.pack ? given.pack->rules : ckpt::parse_rules(core::as_text(text), name);
  return given;
}

}  // namespace cli
