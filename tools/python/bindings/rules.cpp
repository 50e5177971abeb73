#include "tools/python/bindings/rules.h"

#include "libckpt/io/byte_source.h"
#include "libckpt/keras/family_rules.h"
#include "libckpt/state_dicts.h"
#include "libckpt/transform/rule_pack.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "zoo/rules/rule_packs.h"

namespace python {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::uint64_t kMaxText = 64ULL << 20;

ckpt::Rules rules_of_pack(ckpt::RulePack pack, bool reverse, const ckpt::Checkpoint& checkpoint,
                          const std::string& at) {
  if (reverse) pack = ckpt::turned_round(pack);
  std::vector<ckpt::NamedShape> keys;
  for (const auto& [key, value] : ckpt::choose_state_dict(checkpoint.root, at).dict->items) {
    if (key.is(ckpt::Value::Kind::text) && value.is(ckpt::Value::Kind::tensor)) {
      keys.push_back({key.as_text(), value.as_entry().shape});
    }
  }
  return ckpt::keras_family_rules(pack, checkpoint, keys);
}

std::string text_of_file(const std::string& path) {
  ckpt::SourcePtr file = ckpt::open_file(path);
  if (file->size() > kMaxText) throw Error(ErrorCode::refused, "is too long for rules").add_context(path);
  return std::string(core::as_text(ckpt::read_all(*file)));
}

}  // namespace

ckpt::Rules rules_named(const std::string& name, bool reverse, const ckpt::Checkpoint& checkpoint,
                        const std::string& at) {
  if (const ckpt::RulePack* pack = zoo::find_rule_pack(name)) return rules_of_pack(*pack, reverse, checkpoint, at);
  const bool is_text = name.find_first_of("\n{") != std::string::npos;
  std::error_code ignored;
  if (!is_text && !std::filesystem::exists(name, ignored)) {
    throw Error(ErrorCode::usage, core::quote(name) + " is neither a rule pack nor a file of rules");
  }
  const std::string text = is_text ? name : text_of_file(name);
  const std::string subject = is_text ? "rules" : name;
  if (std::optional<ckpt::RulePack> pack = ckpt::try_parse_rule_pack(text, subject)) {
    return rules_of_pack(*pack, reverse, checkpoint, at);
  }
  ckpt::Rules rules = ckpt::parse_rules(text, subject);
  return reverse ? ckpt::reversed(rules) : rules;
}

}  // namespace python
