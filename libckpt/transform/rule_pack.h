#pragma once
// A rule pack: rules (rules.h) that turn one project's names into another's, with what tells the two apart, so that a
// program can say which way they apply to a file, or that they do not. A file of rules becomes one by a table at its
// head, all of whose fields are texts but the shapes:
//   [about]
//   from = "timm"                           # whose names the rules take,
//   to = "torchvision"                      # and whose they give
//   models = "vit_b_16 vit_l_16"            # globs of the models that it was made for
//   also = "other-name"                     # other names of these very rules
//   from_key = "blocks.0.attn.qkv.weight"   # a glob that a key in the names of `from` matches, and none of the others;
//   to_key = "encoder.layers.*.ln_1.bias"   # without these two a pack is used by its name alone
//   from_prefix = "vit."                    # of from_key; files of the bare model lack it. to_prefix alike; the same
//                                           # on both sides where the rules hold with and without it
//   from_shape = [1, 3]                     # proportion of the dimensions of from_key, where the layout alone tells
//   to_shape = [3, 1]                       # the two apart
//   note = "its batch norm has another eps"   # what names cannot say, for whoever loads such a file
// Thread safety: plain value. Use: ckpt::apply_rules(a, ckpt::rules_for(ckpt::parse_rule_pack(text, "vit"), keys));

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libckpt/transform/rules.h"
#include "libcore/base/shape.h"

namespace ckpt {

struct RulePack {
  std::string name;
  std::string from, to;
  std::string from_key = {}, to_key = {};
  std::string from_prefix = {}, to_prefix = {};
  std::vector<std::int64_t> from_shape = {}, to_shape = {};
  std::string models = {};
  std::string note = {};
  std::string also = {};   ///< separated by blanks
  bool backwards = false;  ///< turned_round() made it of the one that has this name
  Rules rules = {};
};

/// A file of rules with its table [about]. Errors: those of parse_rules(); Error(usage) for a field that is missing,
/// unknown or of another type.
RulePack parse_rule_pack(std::string_view text, std::string_view name);

/// The same; nothing for rules without a table [about], JSON among them.
std::optional<RulePack> try_parse_rule_pack(std::string_view text, std::string_view name);

/// The pack for the other direction. Error(unsupported) naming the rule that has no inverse.
RulePack turned_round(const RulePack& pack);

/// A key as packs look at it.
struct NamedShape {
  std::string_view name;
  core::Shape shape;
};

/// How a file is named, as far as one side of a pack goes.
struct PackFit {
  bool fits = false;
  std::string prefix = {};  ///< that all keys need first: the pack's, or ""
};

/// Whether keys have the names of `from`. Always for a pack without from_key.
PackFit fits_from(const RulePack& pack, const std::vector<NamedShape>& keys);
/// Whether keys have the names of `to`; the prefix is what the rules' results carry too much.
PackFit fits_to(const RulePack& pack, const std::vector<NamedShape>& keys);

/// Whether a rename of the pack knows any of the keys; true for rules that rename nothing.
bool knows_names(const RulePack& pack, const std::vector<NamedShape>& keys);

/// Whether the pack was made for the known model of this name.
bool is_made_for(const RulePack& pack, std::string_view model);

/// The pack's rules for such keys, with the prefix that they lack put before them. Error(key) that says what the names
/// are not, or that they are those of the other side already; without from_key where no rename knows any of them.
Rules rules_for(const RulePack& pack, const std::vector<NamedShape>& keys);

/// What a file whose names the pack made is to remember (origin.h): its note, and whose names it had. "" without a
/// note, and for the way back.
std::string origin_text(const RulePack& pack);

/// One sentence each for what of a file a pack of one depth (one without from_key) did not fit: names that it left as
/// they were, names that it knows and did not find; of any pack: what a drop took that the way back does not bring.
std::vector<std::string> doubts(const RulePack& pack, const RuleReport& report);

}  // namespace ckpt
