#include "libckpt/format/gguf/gguf_file.h"
#include "libckpt/format/gguf/gguf_plan.h"
#include "libckpt/format/save_file.h"
#include "libckpt/io/atomic_file.h"
#include "libcore/base/checked_math.h"

namespace ckpt::detail {
namespace {

constexpr std::uint64_t kCopyStep = 64ULL << 20;

void write_data(const std::vector<FlatEntry>& entries, const GgufPlan& plan, ByteSink& file, const Progress& progress) {
  for (const FlatEntry& flat : entries) {
    std::uint64_t size = flat.entry->byte_size();
    for (std::uint64_t done = 0; done < size; done += kCopyStep) {
      file.write_from(*slice(flat.entry->bytes, done, std::min(kCopyStep, size - done)));
      if (progress) progress(file.position(), plan.total_size());
    }
    file.write(core::ByteVector(core::align_up(size, plan.alignment) - size));
  }
}

}  // namespace

std::vector<Obstacle> gguf_obstacles(const Checkpoint& checkpoint, const SaveOptions&) {
  std::vector<Obstacle> found = flat_obstacles(checkpoint, gguf_obstacle);
  metadata_values(checkpoint, &found);
  return found;
}

void write_gguf(const Checkpoint& checkpoint, const std::filesystem::path& path, const SaveOptions& options) {
  std::vector<FlatEntry> entries = flat_entries(checkpoint, gguf_obstacle);
  warn_about_losses(checkpoint, entries, options.report);
  GgufPlan plan = plan_gguf(entries, metadata_values(checkpoint, nullptr));
  std::uint64_t total = plan.total_size();
  AtomicFile file(path, file_options(options, total));
  BufferedSink out(file);
  out.write(plan.header);
  write_data(entries, plan, out, options.progress);
  out.flush();
  file.commit();
  if (options.report == nullptr) return;
  options.report->bytes_written += total;
  options.report->rung = "rewrite";
}

}  // namespace ckpt::detail
