#include "libckpt/analyze/deep_verify.h"

#include "libckpt/analyze/stats.h"
#include "libckpt/format/format.h"
#include "libckpt/io/cached_pages.h"
#include "libckpt/open_save.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

void drop_pages_of(const std::filesystem::path& path, const OpenOptions& options) {
  Input input = open_input(path, options);
  bool several = detect_format(input).several_files;
  detail::drop_cached_pages(several ? std::filesystem::absolute(input.path).parent_path() : input.path);
}

std::string note_of(const TensorStats& stats) {
  std::string nan = core::format_count(stats.nan) + " NaN";
  std::string inf = core::format_count(stats.inf) + " infinite";
  std::string both = stats.nan > 0 && stats.inf > 0 ? nan + " and " + inf : stats.nan > 0 ? nan : inf;
  return "of its " + core::format_count(stats.values) + " values " + both;
}

void note_values(const std::vector<NamedEntry>& entries, unsigned threads, VerifyResult& result) {
  for (const NamedStats& tensor : stats(entries, {.threads = threads, .bins = 0}).tensors) {
    if (tensor.stats.nan > 0 || tensor.stats.inf > 0) result.notes.push_back({tensor.name, note_of(tensor.stats)});
  }
}

/// One tensor that cannot be read ends nothing: the others are looked at one by one.
void read_tensors(const Checkpoint& checkpoint, const OpenOptions& options, VerifyResult& result) {
  const std::vector<NamedEntry> entries = list_entries(checkpoint.root);
  try {
    return note_values(entries, options.threads, result);
  } catch (const core::Error& error) {
    if (error.code() != core::ErrorCode::corrupt && error.code() != core::ErrorCode::refused) throw;
  }
  for (const NamedEntry& named : entries) {
    try {
      note_values({named}, options.threads, result);
    } catch (const core::Error& error) {
      if (error.code() != core::ErrorCode::corrupt && error.code() != core::ErrorCode::refused) throw;
      result.damage.push_back({named.name, "it cannot be read as a tensor: " + error.message()});
    }
  }
}

/// What the library does not load, such as a delta, has no tensors to look at: that is a note.
void look_at_tensors(const std::filesystem::path& path, const OpenOptions& options, VerifyResult& result) {
  OpenOptions checked = options;
  checked.check_hashes = true;
  checked.look_past_foreign = true;
  Report unheard;  // verify() has said it
  checked.report = &unheard;
  Checkpoint checkpoint;
  try {
    checkpoint = open(path, checked);
  } catch (const core::Error& error) {
    if (error.code() != core::ErrorCode::refused) throw;
    result.notes.push_back({"tensors", "not looked at one by one: " + error.message()});
    return;
  }
  read_tensors(checkpoint, checked, result);
  result.method += "; every tensor as it is loaded";
}

}  // namespace

VerifyResult deep_verify(const std::filesystem::path& path, const OpenOptions& options, const Progress& progress) {
  return core::with_context(path.string(), [&] {
    drop_pages_of(path, options);
    VerifyResult result = verify(path, options, progress);
    result.method += ", from the disk";
    if (result.complete && result.damage.empty()) look_at_tensors(path, options, result);
    return result;
  });
}

}  // namespace ckpt
