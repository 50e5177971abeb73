#include "libckpt/format/parts/parts.h"

#include <array>

#include "libckpt/format/folder.h"
#include "libckpt/format/parts/parts_index.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

bool detect(const Input& input) {
  std::string_view head = core::as_text(input.head);
  return head.starts_with('{') && head.substr(0, 64).find("\"ckpt_parts_index\"") != head.npos;
}

}  // namespace

VerifyResult verify_parts(const Input& input, const OpenOptions& options, const Progress& progress) {
  PartsIndex index = read_parts_index(*input.file, options);
  read_parts_checkpoint(input, options);
  VerifyResult result;
  result.method = "128-bit hashes of the parts, and of every tensor in them";
  result.checksums = ChecksumCover::all;
  std::uint64_t total = 0;
  std::uint64_t done = 0;
  for (const PartFacts& part : index.parts) total += part.size;
  const Format& native = *find_format("native");
  for (const PartFacts& part : index.parts) {
    Input opened = core::with_context("part " + core::quote(part.file),
                                      [&] { return open_native_part(input.path.parent_path(), part.file, options); });
    if (hash128(*opened.file) != part.hash) {
      result.damage.push_back({part.file, "its content is not what was written: the 128-bit hash differs"});
    }
    VerifyResult of_part = core::with_context(part.file, [&] { return native.verify(opened, options, {}); });
    for (Finding& damage : of_part.damage) {
      result.damage.push_back({part.file + ": " + damage.subject, std::move(damage.text), std::move(damage.hint)});
    }
    result.tensors_checked += of_part.tensors_checked;
    result.bytes_checked += of_part.bytes_checked;
    done += part.size;
    if (progress) progress(done, total);
  }
  return result;
}

namespace {
constexpr std::array<std::string_view, 1> kExtensions = {".parts"};
}  // namespace

const Format kParts = {
    .name = "parts",
    .title = "native checkpoint in parts",
    .extensions = kExtensions,
    .detect = detect,
    .read = read_parts_checkpoint,
    .obstacles = parts_obstacles,
    .write = write_parts,
    .verify = verify_parts,
    .packs = true,
    .packs_floats = true,
    .splits = true,
    .holds_metadata = false,
    .holds_parity = true,
    .has_checksums = true,
    .several_files = true,
    .is_folder = true,
    .edits_in_place = false,
    .objects_beside = true,
    .writes_as = "native",
};

}  // namespace ckpt::detail
