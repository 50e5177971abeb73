#include "libckpt/scan.h"

#include "libckpt/budget.h"
#include "libckpt/format/format.h"
#include "libckpt/format/scan_file.h"
#include "libckpt/format/scan_walk.h"
#include "libckpt/format/shard_index.h"
#include "libckpt/hint.h"
#include "libckpt/io/unpacked_file.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;
using detail::ScanWalk;

/// What the format itself can verify: damage is a finding, a file that it cannot read is unread.
void verify_format(const Input& input, const OpenOptions& options, const Progress& progress, ScanResult& result) {
  const Format* format = nullptr;
  for (const Format* known : formats()) {
    if (known->detect(input)) {
      format = known;
      break;
    }
  }
  if (format == nullptr) {
    bool whole =
        result.content == "pickle" || result.content == "keras" || result.content == "zip" || result.content == "tar";
    if (!whole && result.unread.empty()) result.unread.push_back({"file", "no reader knows this format"});
    return;
  }
  result.content = format->name;
  try {
    VerifyResult verified = format->verify(input, options, progress);
    for (Finding& damage : verified.damage) {
      verified.complete ? result.add_finding(std::move(damage)) : result.unread.push_back(std::move(damage));
    }
    for (Finding& note : verified.notes) result.notes.push_back(std::move(note));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::io) throw;
    result.unread.push_back({"file", error.what(), hint_of(error)});
  }
}

/// The files that an index or a metadata file stands for.
void scan_parts(const Input& input, const OpenOptions& options, ScanWalk& walk) {
  for (const std::string& name : detail::files_beside(input, options)) {
    try {
      walk.content(detail::open_shard(detail::folder_of_files(input), name, options), name);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::io) throw;
      walk.unread(name, error.message(), hint_of(error));
    }
  }
  for (const auto& [where, bytes] : detail::pieces_beside(input, options)) walk.content(bytes, where);
}

/// nullopt for a packed file that does not unpack, of which nothing is known then.
std::optional<Input> open_to_scan(const std::filesystem::path& path, const OpenOptions& options, ScanResult& result) {
  try {
    return open_input(path, options);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::io || detail::packer_of_file(path) == detail::Packer::none) throw;
    result.content = "unknown";
    result.unread.push_back({"file", error.message(), hint_of(error)});
    return std::nullopt;
  }
}

}  // namespace

std::string_view verdict_text(SymbolVerdict verdict) {
  switch (verdict) {
    case SymbolVerdict::allowed:
      return "allowed";
    case SymbolVerdict::inert:
      return "inert";
    case SymbolVerdict::foreign:
      return "foreign";
    case SymbolVerdict::dangerous:
      break;
  }
  return "dangerous";
}

std::string_view name(FindingKind kind) {
  switch (kind) {
    case FindingKind::danger:
      return "danger";
    case FindingKind::foreign:
      return "foreign";
    case FindingKind::problem:
      break;
  }
  return "finding";
}

std::string_view ScanResult::verdict() const {
  if (has(FindingKind::danger)) return "dangerous";
  if (!complete()) return "not analysed";
  if (has(FindingKind::problem)) return "findings";
  return has(FindingKind::foreign) ? "foreign" : "clean";
}

void ScanResult::add_finding(Finding finding, FindingKind kind) {
  findings.push_back(std::move(finding));
  kinds.push_back(kind);
}

void detail::scan_contents(const Input& input, const OpenOptions& options, ScanResult& result) {
  // A second look at everything that reading has looked at.
  Budget budget(options.limits, input.file->size());
  ScanWalk walk(options.limits, budget, result);
  result.content = walk.content(input.file, "");
  try {
    scan_parts(input, options, walk);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::io) throw;
    result.unread.push_back({"file", error.what(), hint_of(error)});
  }
}

ScanResult scan(const std::filesystem::path& path, const OpenOptions& given, const Progress& progress) {
  return core::with_context(path.string(), [&] {
    ScanResult result;
    std::optional<Input> opened = open_to_scan(path, given, result);
    if (!opened) return result;
    Input& input = *opened;
    OpenOptions options = given;
    options.limits = input.budget->limits(given.limits);
    detail::scan_contents(input, options, result);
    verify_format(input, options, progress, result);
    std::string_view promised = detail::promised_instead(input.path, result.content);
    if (!promised.empty()) {
      result.add_finding({"name", "the name promises " + std::string(promised) + ", but this is " +
                                      (result.content == "unknown" ? "not one" : result.content)});
    }
    return result;
  });
}

}  // namespace ckpt
