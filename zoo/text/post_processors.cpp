#include <map>

#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "zoo/text/fields.h"
#include "zoo/text/steps.h"

namespace zoo::text {
namespace {

using core::Error;
using core::ErrorCode;
using Ids = std::vector<std::int64_t>;

PostProcessor around(Ids before, Ids behind) {
  return [before = std::move(before), behind = std::move(behind)](const Ids& ids) {
    Ids out = before;
    out.insert(out.end(), ids.begin(), ids.end());
    out.insert(out.end(), behind.begin(), behind.end());
    return out;
  };
}

/// ["[CLS]", 101]
Ids pair_in(const Fields& fields, std::string_view key) {
  const std::vector<ckpt::JsonView> pair = fields.list(key);
  if (pair.size() != 2)
    throw Error(ErrorCode::corrupt, core::quote(key) + " of " + fields.what() + " is no token with its number");
  return {id_of(pair[1], core::quote(key) + " of " + fields.what())};
}

std::map<std::string, Ids> special_tokens(const Fields& fields) {
  std::map<std::string, Ids> out;
  if (!fields.has("special_tokens")) return out;
  for (const auto& [name, value] : fields.at("special_tokens").members()) {
    const Fields token(value, "the special token " + core::quote(name), {"id", "ids", "tokens"});
    for (const ckpt::JsonView& id : token.list("ids")) out[std::string(name)].push_back(id_of(id, token.what()));
  }
  return out;
}

PostProcessor from_template(const Fields& fields) {
  if (fields.has("special_tokens") && !fields.at("special_tokens").is(ckpt::JsonView::Kind::object)) {
    throw Error(ErrorCode::corrupt, "'special_tokens' of " + fields.what() + " is no JSON object");
  }
  const std::map<std::string, Ids> specials = special_tokens(fields);
  Ids before;
  Ids behind;
  bool seen = false;
  for (const ckpt::JsonView& item : fields.list("single")) {
    const Fields part(item, "a part of " + fields.what(), {"SpecialToken", "Sequence"});
    if (part.has("Sequence")) {
      if (seen) throw Error(ErrorCode::unsupported, fields.what() + " has the text twice, which is not here");
      seen = true;
      continue;
    }
    const std::string name = Fields(part.at("SpecialToken"), part.what()).text("id");
    const auto found = specials.find(name);
    if (found == specials.end())
      throw Error(ErrorCode::corrupt, fields.what() + " has no special token " + core::quote(name));
    Ids& into = seen ? behind : before;
    into.insert(into.end(), found->second.begin(), found->second.end());
  }
  if (!seen) throw Error(ErrorCode::corrupt, fields.what() + " leaves out the text");
  return around(before, behind);
}

}  // namespace

PostProcessor make_post_processor(ckpt::JsonView json) {
  const std::string kind = Fields(json, "a post-processor").text("type");
  const std::string what = "the post-processor " + core::quote(kind);
  if (kind == "Sequence") {
    std::vector<PostProcessor> steps;
    for (const ckpt::JsonView& one : Fields(json, what, {"type", "processors"}).list("processors")) {
      steps.push_back(make_post_processor(one));
    }
    return in_turn(std::move(steps));
  }
  if (kind == "TemplateProcessing")
    return from_template(Fields(json, what, {"type", "single", "pair", "special_tokens"}));
  if (kind == "ByteLevel") {  // it moves the borders of tokens in the text, which are not kept here
    Fields(json, what, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
    return [](Ids ids) { return ids; };
  }
  if (kind == "BertProcessing" || kind == "RobertaProcessing") {
    const Fields fields(json, what, {"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
    return around(pair_in(fields, "cls"), pair_in(fields, "sep"));
  }
  throw Error(ErrorCode::unsupported, what + " is not here");
}

}  // namespace zoo::text
