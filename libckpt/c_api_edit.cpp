// The C interface: changes of a checkpoint.

#include "libckpt/c_api_internal.h"
#include "libckpt/transform/cast.h"
#include "libckpt/transform/map_location.h"
#include "libckpt/transform/metadata.h"
#include "libckpt/transform/prefix.h"
#include "libckpt/transform/rename.h"
#include "libckpt/transform/rules.h"
#include "libckpt/transform/select.h"

namespace {

using namespace ckpt::detail;
using core::Error;
using core::ErrorCode;

std::vector<std::pair<std::string, std::string>> pairs_of(const char* const* from, const char* const* to,
                                                          std::size_t count) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (std::size_t i = 0; i < count; ++i) {
    require(from, "from");
    require(to, "to");
    pairs.emplace_back(&require(from[i], "an old name"), &require(to[i], "a new name"));
  }
  return pairs;
}

std::vector<std::string> texts_of(const char* const* texts, std::size_t count) {
  std::vector<std::string> out;
  if (count > 0) require(texts, "a list");
  for (std::size_t i = 0; i < count; ++i) out.emplace_back(&require(texts[i], "a text"));
  return out;
}

}  // namespace

ckpt_status ckpt_strip_prefix(const ckpt_checkpoint* checkpoint, const ckpt_prefix_options* options,
                              ckpt_checkpoint** out, ckpt_error** error) {
  return change(checkpoint, out, error, [&](const ckpt::Checkpoint& c) {
    ckpt_prefix_options given = read_options(options, CKPT_PREFIX_OPTIONS_INIT);
    return ckpt::strip_prefix(c, {.prefix = text_or(given.prefix, "module."),
                                  .repeat = given.repeat != 0,
                                  .wrappers = given.wrappers != 0,
                                  .at = text_or(given.at, "")});
  });
}

ckpt_status ckpt_add_prefix(const ckpt_checkpoint* checkpoint, const ckpt_prefix_options* options,
                            ckpt_checkpoint** out, ckpt_error** error) {
  return change(checkpoint, out, error, [&](const ckpt::Checkpoint& c) {
    ckpt_prefix_options given = read_options(options, CKPT_PREFIX_OPTIONS_INIT);
    return ckpt::add_prefix(c, {.prefix = text_or(given.prefix, "module."), .at = text_or(given.at, "")});
  });
}

ckpt_status ckpt_rename(const ckpt_checkpoint* checkpoint, const char* const* from, const char* const* to, size_t count,
                        ckpt_checkpoint** out, ckpt_error** error) {
  return change(checkpoint, out, error,
                [&](const ckpt::Checkpoint& c) { return ckpt::rename_keys(c, {.table = pairs_of(from, to, count)}); });
}

ckpt_status ckpt_remap(const ckpt_checkpoint* checkpoint, const char* const* from, const char* const* to, size_t count,
                       ckpt_checkpoint** out, ckpt_error** error) {
  return change(checkpoint, out, error, [&](const ckpt::Checkpoint& c) {
    if (from != nullptr) return ckpt::map_location(c, {.map = pairs_of(from, to, count)});
    if (count != 1) throw Error(ErrorCode::usage, "without old tags there is one new tag");
    return ckpt::map_location(c, {.to = &require(require(to, "to"), "the new tag")});
  });
}

ckpt_status ckpt_select(const ckpt_checkpoint* checkpoint, const char* const* include, size_t include_count,
                        const char* const* exclude, size_t exclude_count, ckpt_checkpoint** out, ckpt_error** error) {
  return change(checkpoint, out, error, [&](const ckpt::Checkpoint& c) {
    ckpt::SelectOptions options;
    options.include = texts_of(include, include_count);
    options.exclude = texts_of(exclude, exclude_count);
    return ckpt::select(c, options);
  });
}

ckpt_status ckpt_set_metadata(const ckpt_checkpoint* checkpoint, const char* key, const char* text,
                              ckpt_checkpoint** out, ckpt_error** error) {
  return change(checkpoint, out, error, [&](const ckpt::Checkpoint& c) {
    ckpt::MetadataEdit edit;
    if (text == nullptr) {
      edit.unset.emplace_back(&require(key, "key"));
    } else {
      edit.set.emplace_back(&require(key, "key"), text);
    }
    return ckpt::edit_metadata(c, edit);
  });
}

ckpt_status ckpt_cast(const ckpt_checkpoint* checkpoint, const char* dtype, const char* const* keep, size_t keep_count,
                      ckpt_checkpoint** out, ckpt_error** error) {
  return change(checkpoint, out, error, [&](const ckpt::Checkpoint& c) {
    ckpt::CastOptions options;
    options.to = core::parse_dtype(&require(dtype, "dtype"));
    options.keep.include = texts_of(keep, keep_count);
    return ckpt::cast(c, options);
  });
}

ckpt_status ckpt_apply_rules(const ckpt_checkpoint* checkpoint, const char* rules, int reversed, ckpt_checkpoint** out,
                             ckpt_error** error) {
  return change(checkpoint, out, error, [&](const ckpt::Checkpoint& c) {
    ckpt::Rules parsed = ckpt::parse_rules(&require(rules, "rules"), "the rules");
    return ckpt::apply_rules(c, reversed != 0 ? ckpt::reversed(parsed) : parsed);
  });
}
