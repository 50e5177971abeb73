#include <cstdlib>
#include <iostream>

#include "libckpt/io/zip.h"
#include "libcore/base/error.h"
#include "tests/support/golden.h"
#include "tests/support/manifest.h"
#include "tests/support/temp_dir.h"

// Every archive that PyTorch laid out comes out byte for byte when its records are written again.

namespace {

std::uint64_t alignment_of(const ckpt::ZipArchive& archive) {
  for (const ckpt::ZipMember& member : archive.members()) {
    if (!member.name.ends_with("/.storage_alignment")) continue;
    core::ByteVector text = ckpt::read_all(*archive.payload(member));
    return std::strtoull(std::string(core::as_text(text)).c_str(), nullptr, 10);
  }
  return 64;
}

/// PyTorch's writer, not a zip tool: descriptors and UTF-8 flags on every record, padding up to the payload.
bool is_laid_out_by_pytorch(const ckpt::ZipArchive& archive) {
  if (!archive.comment().empty() || archive.trailing_bytes() != 0) return false;
  for (const ckpt::ZipMember& member : archive.members()) {
    std::uint16_t expected = member.size == 0 ? 0x0800 : 0x0808;
    if (member.flags != expected || member.method != ckpt::kZipStored || member.payload_offset % 64 != 0) return false;
  }
  return true;
}

std::string rewritten(const ckpt::ZipArchive& archive) {
  std::vector<ckpt::ZipItem> items;
  for (const ckpt::ZipMember& member : archive.members()) items.push_back({member.name, archive.payload(member)});
  ckpt::ZipWriter writer(std::move(items), alignment_of(archive));
  ckpt::MemorySink sink;
  writer.write(sink);
  return std::string(core::as_text(sink.bytes()));
}

void check(const test::Manifest& manifest, test::GoldenRun& run) {
  try {
    ckpt::ZipArchive archive = ckpt::ZipArchive::open(ckpt::open_file(manifest.file), {.accept_trailing = true});
    if (!is_laid_out_by_pytorch(archive)) return run.skip(manifest.id, "not laid out by PyTorch's writer");
    bool same = rewritten(archive) == test::read_file(manifest.file);
    run.check(manifest.id, same, "the bytes differ");
  } catch (const core::Error& error) {
    run.fail(manifest.id, error.what());
  }
}

}  // namespace

int main() {
  test::GoldenRun run("checkpoints_zip_layout");
  bool any = false;
  for (const char* folder : {"torch_1.13", "torch_2.15"}) {
    for (const test::Manifest& manifest : test::load_manifests(folder)) {
      if (manifest.format != "torch-zip" || manifest.action == "refuse") continue;
      any = true;
      check(manifest, run);
    }
  }
  if (!any) return 77;
  return run.finish();
}
