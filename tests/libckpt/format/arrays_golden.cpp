#include <algorithm>
#include <map>

#include "libckpt/ckpt.h"
#include "libckpt/io/byte_swap.h"
#include "libckpt/io/edit_journal.h"
#include "libcore/base/error.h"
#include "tests/support/golden.h"
#include "tests/support/manifest.h"
#include "tests/support/sha256.h"
#include "tests/support/temp_dir.h"

// The golden NumPy and GGUF files: what is in them is read exactly, survives being saved over itself, and what must be
// refused is refused as bad input.

namespace {

bool is_ours(const test::Manifest& manifest) {
  return manifest.format == "npy" || manifest.format == "npz" || manifest.format == "gguf";
}

/// ggml's names of plain types; blocks keep theirs.
std::string dtype_of(const std::string& name) {
  static const std::map<std::string, std::string> kPlain = {
      {"F32", "float32"}, {"F16", "float16"}, {"BF16", "bfloat16"}, {"F64", "float64"},  {"I8", "int8"},
      {"I16", "int16"},   {"I32", "int32"},   {"I64", "int64"},     {"void16", "bits16"}};
  auto found = kPlain.find(name);
  return found == kPlain.end() ? name : found->second;
}

std::string compare_tensor(const test::ManifestTensor& expected, const ckpt::NamedEntry& actual) {
  if (actual.name != expected.name) return "tensor '" + actual.name + "' where '" + expected.name + "' was expected";
  const ckpt::Entry& entry = *actual.entry;
  if (ckpt::type_name(entry) != dtype_of(expected.dtype)) return expected.name + ": dtype " + ckpt::type_name(entry);
  if (ckpt::value_shape(entry).to_vector() != expected.shape) return expected.name + ": another shape";
  if (test::sha256(ckpt::read_all(*entry.bytes)) == expected.sha256) return "";
  // The manifest of a big-endian GGUF file has the hash of what is stored.
  ckpt::SourcePtr stored = ckpt::byte_swapped(entry.bytes, ckpt::swap_width(entry.dtype));
  return test::sha256(ckpt::read_all(*stored)) == expected.sha256 ? "" : expected.name + ": bytes differ";
}

std::string compare_all(const test::Manifest& manifest, const ckpt::Checkpoint& checkpoint) {
  std::vector<ckpt::NamedEntry> entries = ckpt::list_entries(checkpoint.root);
  if (entries.size() != manifest.tensors.size()) return std::to_string(entries.size()) + " tensors";
  for (std::size_t i = 0; i < entries.size(); ++i) {
    std::string difference = compare_tensor(manifest.tensors[i], entries[i]);
    if (!difference.empty()) return difference;
  }
  return "";
}

/// Loads lazily and saves to the same path, twice: the content stays, and the bytes once they are ours.
std::string check_rewrite(const test::Manifest& manifest) {
  test::TempDir dir;
  std::filesystem::path copy = dir.path() / manifest.file.filename();
  std::filesystem::copy(manifest.file, copy);
  ckpt::Checkpoint before = ckpt::open(copy);
  ckpt::save(before, copy, {.format = manifest.format});
  ckpt::Checkpoint after = ckpt::open(copy);
  std::string difference = compare_all(manifest, after);
  if (!difference.empty()) return "saved over itself: " + difference;
  if (after.metadata != before.metadata) return "saved over itself: other metadata";
  std::string first = test::read_file(copy);
  ckpt::save(after, copy, {.format = manifest.format});
  if (test::read_file(copy) != first) return "saving again changed bytes";
  return test::list_folder(dir.path()).size() == 1 ? "" : "saving over itself left files behind";
}

bool is_ascii(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

/// The checkpoint with a shorter name for each tensor that has letters to spare.
ckpt::Checkpoint with_shorter_names(const ckpt::Checkpoint& checkpoint, std::size_t by) {
  ckpt::Dict dict = checkpoint.root.as_dict();
  for (std::size_t i = 0; i < dict.items.size(); ++i) {
    const std::string& name = dict.items[i].first.as_text();
    std::string shorter = name.size() > by && is_ascii(name) ? name.substr(0, name.size() - by) : name;
    auto taken = [&](const auto& item) { return item.first.as_text() == shorter; };
    if (std::any_of(dict.items.begin(), dict.items.end(), taken)) continue;
    dict.items[i].first = ckpt::Value::text(shorter);
  }
  ckpt::Checkpoint out = checkpoint;
  out.root = ckpt::Value::dict(std::move(dict));
  return out;
}

/// Shortens names in place: that reads as a copy with those names does, and undo gives every byte back.
std::string check_edit(const test::Manifest& manifest, std::size_t by) {
  test::TempDir dir;
  std::filesystem::path edited = dir.path() / manifest.file.filename();
  std::filesystem::copy(manifest.file, edited);
  std::filesystem::permissions(edited, std::filesystem::perms::owner_write, std::filesystem::perm_options::add);
  std::string before = test::read_file(edited);
  ckpt::Checkpoint shorter = with_shorter_names(ckpt::open(edited), by);
  std::filesystem::path copy = dir.path() / ("copy." + manifest.format);
  ckpt::save(shorter, copy, {.format = manifest.format});
  ckpt::Report report;
  ckpt::save(shorter, edited, {.format = manifest.format, .in_place = true, .report = &report});
  ckpt::DiffResult difference = ckpt::diff(ckpt::open(copy), ckpt::open(edited), {.order = true, .metadata = true});
  if (!difference.equal()) return "edited: reads otherwise than the copy";
  ckpt::VerifyResult result = ckpt::verify(edited);
  if (!result.damage.empty()) return "edited: verify found damage: " + result.damage.front().text;
  bool moved = manifest.id.find("big_endian") != std::string::npos || shorter.root.as_dict().items.empty();
  bool whole = moved && manifest.format == "gguf";
  if (report.rung != (whole ? "rewrite" : "in place")) return "edited by " + std::to_string(by) + ": " + report.rung;
  if (report.rung == "rewrite" || report.bytes_written == 0) return "";
  ckpt::EditJournal(edited).undo();
  return test::read_file(edited) == before ? "" : "undone: other bytes than before";
}

std::string check_edits(const test::Manifest& manifest) {
  std::string difference;
  for (std::size_t by = 1; by <= 6 && difference.empty(); ++by) difference = check_edit(manifest, by);
  return difference;
}

std::string check_loads(const test::Manifest& manifest) {
  const test::Manifest& content = manifest.same_as.empty() ? manifest : test::load_manifest(manifest.same_as);
  std::string difference = content.has_tensors ? compare_all(content, ckpt::open(manifest.file)) : "";
  if (!difference.empty()) return difference;
  ckpt::VerifyResult result = ckpt::verify(manifest.file);
  if (manifest.verify_exit.value_or(0) != 0) return result.damage.empty() ? "verify found nothing" : "";
  if (!result.damage.empty()) return "verify found damage: " + result.damage.front().text;
  if (!manifest.same_as.empty() || !manifest.has_tensors) return "";
  difference = check_rewrite(manifest);
  return difference.empty() && manifest.format != "npy" ? check_edits(manifest) : difference;
}

bool is_bad_input(core::ErrorCode code) {
  return code == core::ErrorCode::corrupt || code == core::ErrorCode::refused || code == core::ErrorCode::unsupported;
}

std::string check(const test::Manifest& manifest) {
  try {
    std::string difference = check_loads(manifest);
    return manifest.action == "refuse" ? "was read, although: " + manifest.reason : difference;
  } catch (const core::Error& error) {
    if (!is_bad_input(error.code())) return std::string("wrong kind of error: ") + error.what();
    return manifest.action == "load" ? error.what() : "";
  }
}

}  // namespace

int main() {
  test::GoldenRun run("checkpoints_arrays");
  bool any = false;
  for (const char* folder : {"numpy", "gguf", "broken"}) {
    for (const test::Manifest& manifest : test::load_manifests(folder)) {
      if (!is_ours(manifest)) continue;
      any = true;
      std::string difference = check(manifest);
      run.check(manifest.id, difference.empty(), difference);
    }
  }
  if (!any) return 77;
  return run.finish();
}
