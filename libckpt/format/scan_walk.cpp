#include "libckpt/format/scan_walk.h"

#include "libckpt/limits.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {

using core::Error;
using core::ErrorCode;

std::string ScanWalk::join(const std::string& where, std::string_view name) const {
  return where.empty() ? std::string(name) : where + "/" + std::string(name);
}

void ScanWalk::finding(const std::string& where, std::string text, FindingKind kind) {
  result_.add_finding({where.empty() ? "file" : where, std::move(text)}, kind);
}

void ScanWalk::unread(const std::string& where, std::string text, std::optional<Hint> hint) {
  result_.unread.push_back({where.empty() ? "file" : where, std::move(text), std::move(hint)});
}

bool ScanWalk::guarded(const std::string& where, const std::function<void()>& body) {
  try {
    body();
    return true;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::io) throw;
    unread(where, error.what(), hint_of(error));
    return false;
  }
}

std::string ScanWalk::content(const SourcePtr& source, const std::string& where) {
  ++result_.parts;
  if (depth_ > kMaxNestedArchives) {
    unread(where, "archives are nested more than " + std::to_string(kMaxNestedArchives) + " levels deep");
    return "unknown";
  }
  ++depth_;
  std::string name = "unknown";
  guarded(where, [&] { name = dispatch(content_kind(*source), source, where); });
  --depth_;
  return name;
}

std::string ScanWalk::dispatch(ContentKind kind, const SourcePtr& source, const std::string& where) {
  switch (kind) {
    case ContentKind::empty:
      if (where.empty()) unread(where, "the file is empty");
      return "empty";
    case ContentKind::zip:
      return zip(source, where);
    case ContentKind::tar:
      return tar(source, where);
    case ContentKind::legacy_stream:
      legacy_stream(source, where);
      return "torch-legacy";
    case ContentKind::pickle:
      bare_pickles(source, where);
      return "pickle";
    case ContentKind::npy:
      npy(source, where);
      return "npy";
    case ContentKind::gguf:
      gguf(source, where);
      return "gguf";
    case ContentKind::hdf5:
      hdf5(source, where);
      return "hdf5";
    case ContentKind::native:
      return "native";
    case ContentKind::safetensors:
      return "safetensors";
    case ContentKind::onnx:  // nothing of it runs but its operators; values beside it are plain numbers
      return "onnx";
    case ContentKind::flax:
      text_with_symbols(source, where);  // the same bytes can be a pickle
      return "flax";
    case ContentKind::json:
      json(source, where);
      return "json";
    case ContentKind::text:
      if (!text_with_symbols(source, where) && where.empty()) unread(where, "this is text, not a checkpoint");
      return "text";
    case ContentKind::unknown:
      break;
  }
  if (!text_with_symbols(source, where)) unread(where, "nothing that is known begins like this; it was not analysed");
  return "unknown";
}

}  // namespace ckpt::detail
