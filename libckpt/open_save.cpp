#include "libckpt/open_save.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include "libckpt/budget.h"
#include "libckpt/damage.h"
#include "libckpt/delta/delta.h"
#include "libckpt/format/content_kind.h"
#include "libckpt/format/format.h"
#include "libckpt/format/in_place.h"
#include "libckpt/format/read_checkpoint.h"
#include "libckpt/format/scan_file.h"
#include "libckpt/hint.h"
#include "libckpt/io/file_source.h"
#include "libckpt/io/packed_differences.h"
#include "libckpt/io/remote_name.h"
#include "libckpt/late_texts.h"
#include "libckpt/tensor_row.h"
#include "libckpt/transform/cast.h"
#include "libckpt/transform/tree_map.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::size_t kMaxListed = 8;

const Format& target_format(const Checkpoint& checkpoint, const std::filesystem::path& path,
                            const SaveOptions& options) {
  const Format* format = options.format.empty() ? find_format_for(path) : find_format(options.format);
  if (format == nullptr && options.format.empty()) format = find_format(checkpoint.format);
  if (format != nullptr && format->write != nullptr) return *format;
  if (format != nullptr) throw Error(ErrorCode::unsupported, std::string(format->title) + " cannot be written");
  if (!options.format.empty()) throw Error(ErrorCode::usage, "no format is named " + core::quote(options.format));
  throw Error(ErrorCode::usage,
              "cannot tell the format from the name; use an extension such as .ckpt, .pth or .safetensors");
}

/// Leaves out tensors of opaque blocks, which the target's writer must not see.
class DropBlocks final : public detail::TreeMap {
 protected:
  bool edit_dict(const Value&, Dict& dict) override {
    return std::erase_if(dict.items, [](const auto& item) {
             return item.second.is(Value::Kind::tensor) && item.second.as_entry().blocks.has_value();
           }) > 0;
  }
};

Checkpoint without_blocks(const Checkpoint& checkpoint) {
  Checkpoint out = checkpoint;
  out.root = DropBlocks().map(checkpoint.root);
  return out;
}

bool has_kind(const std::vector<Obstacle>& obstacles, Obstacle::Kind kind) {
  return std::any_of(obstacles.begin(), obstacles.end(), [&](const Obstacle& o) { return o.kind == kind; });
}

/// What can be done about obstacles; a type that has an obvious wider one is named with it.
Hint advice_for(const std::vector<Obstacle>& obstacles) {
  using Option = Hint::Option;
  for (const Obstacle& obstacle : obstacles) {
    if (!obstacle.dtype || !can_cast(*obstacle.dtype)) continue;
    core::DType dtype = *obstacle.dtype;
    bool widens = is_exact_cast(dtype, core::DType::f32) && core::is_floating(dtype);
    Hint::Use other{Option::retype};
    if (widens) other = {Option::retype, dtype, core::DType::f32};
    return {"drop them ({}), write another type ({}) or choose another format", {{Option::drop_inexpressible}, other}};
  }
  if (has_kind(obstacles, Obstacle::Kind::blocks)) {
    return {"write their values ({}), drop them ({}) or choose another format",
            {{Option::dequantize}, {Option::drop_inexpressible}}};
  }
  if (!has_kind(obstacles, Obstacle::Kind::nested_dict)) {
    return {"drop them ({}) or choose another format", {{Option::drop_inexpressible}}};
  }
  return {"take one dict alone ({}), drop them ({}) or choose another format",
          {{Option::part}, {Option::drop_inexpressible}}};
}

/// All obstacles in one sentence, the first few by name.
[[noreturn]] void throw_obstacles(const Format& format, const std::vector<Obstacle>& obstacles) {
  std::string list;
  for (std::size_t i = 0; i < std::min(obstacles.size(), kMaxListed); ++i) {
    list += (i == 0 ? "" : "; ") + describe(obstacles[i]);
  }
  if (obstacles.size() > kMaxListed) list += "; and " + core::format_count(obstacles.size() - kMaxListed) + " more";
  throw HintedError(ErrorCode::unsupported,
                    std::string(format.title) + " cannot hold " + core::format_count(obstacles.size()) +
                        (obstacles.size() == 1 ? " item: " : " items: ") + list,
                    advice_for(obstacles));
}

}  // namespace

Checkpoint open(const std::filesystem::path& path, const OpenOptions& options) {
  Checkpoint checkpoint = detail::read_checkpoint(path, options);
  core::with_context(path.string(), [&] { detail::refuse_delta(checkpoint); });
  return checkpoint;
}

Checkpoint detail::open_row(const std::filesystem::path& path, const OpenOptions& options, TensorRow& row) {
  Checkpoint checkpoint = read_checkpoint(path, options, &row);
  core::with_context(path.string(), [&] { refuse_delta(checkpoint); });
  return checkpoint;
}

Checkpoint retype(const Checkpoint& checkpoint, const std::vector<Retype>& pairs) {
  Checkpoint out = checkpoint;
  for (const Retype& pair : pairs) {
    for (const Retype& other : pairs) {
      if (&other != &pair && (other.from == pair.from || other.from == pair.to)) {
        throw Error(ErrorCode::usage, "the types to be written name " + std::string(core::name(other.from)) +
                                          " twice as one that is replaced, or as old and new");
      }
    }
    out = cast(out, {.to = pair.to, .from = {pair.from}});
  }
  return out;
}

namespace {

/// What a format cannot do is an error, not something that is left undone.
void check_form(const Format& format, const SaveOptions& options) {
  std::string subject = "the format " + core::quote(format.name);
  if (options.codec != Codec::automatic && options.codec != Codec::none && !format.packs) {
    throw Error(ErrorCode::usage, subject + " is not compressed; leave the codec out, or save as .ckpt");
  }
  if (options.codec == Codec::fast && !format.packs_floats) {
    throw Error(ErrorCode::usage, subject +
                                      " is for other programs, and none of them reads the codec fast; use zstd or " +
                                      "gzip, or save as .ckpt");
  }
  if (options.parity > 1) throw Error(ErrorCode::usage, "the share of parity data is at most 1");
  if (options.parity > 0 && !format.holds_parity) {
    throw Error(ErrorCode::usage, subject + " has no place for parity data; leave it out, or save as .ckpt");
  }
  bool several = options.max_shard_size > 0 || options.shards > 0 || !options.shard_prefixes.empty();
  if (several && !format.splits) {
    throw Error(ErrorCode::unsupported, subject + " is not split into shards; save as .safetensors");
  }
  if (format.is_folder && (options.max_shard_size > 0 || !options.shard_prefixes.empty())) {
    throw Error(ErrorCode::usage, subject + " is split by ranks, not by size or names; say how many ranks");
  }
}

/// Asks for one byte of every tensor that would be unfolded, before room is made for all of them: those that claim more
/// than is read say so here.
void require_values(const Format& format, const Checkpoint& checkpoint) {
  constexpr std::uint64_t kWorthAsking = 1 << 20;
  std::unordered_set<const ByteSource*> asked;
  for (const NamedEntry& named : list_entries(checkpoint.root)) {
    const Entry& entry = *named.entry;
    if (entry.byte_size() < kWorthAsking || (format.holds_views && entry.view)) continue;
    // One byte of a difference costs a whole part, and what it is made of was read when its packing was chosen.
    if (dynamic_cast<const detail::TrimmedBytes*>(entry.bytes.get()) != nullptr) continue;
    std::byte first{};
    if (!asked.insert(entry.bytes.get()).second) continue;
    core::with_context(core::quote(named.name), [&] { entry.bytes->read(0, {&first, 1}); });
  }
}

/// What lenient reading passed on.
void warn_of_damage(const Value& root, const Format& written, Report& report) {
  std::string text = damage_warning(list_entries(root));
  if (text.empty()) return;
  report.warnings.push_back(
      written.has_checksums ? text : text + "; a " + std::string(written.title) + " has no checksum to say so");
}

/// Runs the work of a save. What is corrupt or refused then was read: the file at fault is the one that it came from.
template <class Body>
void with_file_at_fault(const Checkpoint& given, const std::filesystem::path& target, Body body) {
  try {
    body();
  } catch (Error& error) {
    bool was_read = error.code() == ErrorCode::corrupt || error.code() == ErrorCode::refused;
    if (error.code() == ErrorCode::corrupt) {
      std::string name = first_damaged(list_entries(given.root));
      if (!name.empty() && error.message().find(core::quote(name)) == std::string::npos) {
        error.add_context(core::quote(name));
      }
    }
    // Of several files that were read, only the sources themselves know which it was.
    if (!was_read || !given.path.empty()) error.add_context(was_read ? given.path.string() : target.string());
    throw;
  }
}

}  // namespace

void save(const Checkpoint& given, const std::filesystem::path& path, const SaveOptions& options) {
  with_file_at_fault(given, path, [&] {
    refuse_packed(given, path);
    const Checkpoint checkpoint = options.retype.empty() ? given : retype(given, options.retype);
    const Format& format = target_format(checkpoint, path, options);
    check_form(format, options);
    std::vector<Obstacle> obstacles = find_obstacles(format, checkpoint, options);
    if (!obstacles.empty() && !options.drop_inexpressible) throw_obstacles(format, obstacles);
    bool blocks_in_the_way = !format.holds_blocks && has_kind(obstacles, Obstacle::Kind::blocks);
    if (options.report != nullptr) {
      for (const Obstacle& obstacle : obstacles) options.report->dropped.push_back(describe(obstacle));
    }
    Checkpoint written = blocks_in_the_way ? without_blocks(checkpoint) : checkpoint;
    if (!format.takes_late_texts) written = detail::with_late_texts(std::move(written));
    std::optional<InPlaceEdit> edit = plan_in_place(written, path, options);
    if (!edit) require_values(format, written);  // an edit reads none
    edit ? edit_in_place(written, std::move(*edit), path, options) : format.write(written, path, options);
    if (options.report != nullptr) warn_of_damage(given.root, format, *options.report);
  });
}

namespace {

/// What the format's own check has said already is not said again, nor what false checksums of a file without say.
void add_new(VerifyResult& result, const std::vector<Finding>& found) {
  constexpr std::string_view kOtherChecksum = "its CRC-32 is not the recorded one";
  std::vector<Finding>& known = result.damage;
  std::set<std::pair<std::string_view, std::string_view>> said;
  for (const Finding& finding : known) said.emplace(finding.subject, finding.text);
  std::vector<Finding> fresh;
  for (const Finding& finding : found) {
    bool is_false = result.checksums == ChecksumCover::absent && finding.text == kOtherChecksum;
    if (!is_false && said.emplace(finding.subject, finding.text).second) fresh.push_back(finding);
  }
  known.insert(known.end(), fresh.begin(), fresh.end());
}

}  // namespace

VerifyResult verify(const std::filesystem::path& path, const OpenOptions& given, const Progress& progress) {
  return core::with_context(shown_name(path), [&] {
    if (is_remote_name(path)) {
      throw Error(ErrorCode::unsupported, "a check reads every byte; download the file first, then check it");
    }
    Input input = open_input(path, given);
    OpenOptions options = given;
    options.limits = input.budget->limits(given.limits);
    const Format& format = detect_format(input);
    detail::read_as(*input.file, options.io);
    VerifyResult result = format.verify(input, options, progress);
    ScanResult scanned;
    detail::scan_contents(input, options, scanned);
    result.complete = result.complete && scanned.complete();
    add_new(result, scanned.unread);
    add_new(result, scanned.findings);
    std::string_view promised = detail::promised_instead(input.path, format.name);
    if (!promised.empty()) {
      result.notes.push_back(
          {"name", "the name promises " + std::string(promised) + ", but this is a " + std::string(format.title)});
    }
    return result;
  });
}

}  // namespace ckpt
