// many_ranks FOLDER [RANKS [TENSORS]]: one process plays the ranks of a large training: what the plan of a save costs,
// its metadata, and opening the folder, in seconds of the processor. The data files are sparse. Prints one JSON line;
// `ckpt ls FOLDER` can be timed after.

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "libckpt/ckpt.h"
#include "libckpt/dist/plan.h"
#include "libckpt/format/dcp/encode.h"
#include "libckpt/format/dcp/write.h"

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kRows = 8;  ///< of each tensor, a rank

/// Of the processor: what others do on it meanwhile does not count.
double seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}
double seconds_since(double start) {
  return seconds() - start;
}

double peak_mib() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

ckpt::dist::LocalPlan plan_of(int rank, int ranks, int tensors) {
  ckpt::dist::LocalPlan plan;
  for (int i = 0; i < tensors; ++i) {
    ckpt::dist::LocalItem local;
    local.item.name = "model.layers." + std::to_string(i / 10) + ".mlp.weight_" + std::to_string(i % 10);
    local.item.path = {"model", "layers." + std::to_string(i / 10) + ".mlp.weight_" + std::to_string(i % 10)};
    local.item.is_tensor = true;
    local.item.shape = {kRows * ranks, 16};
    local.box = {{kRows * rank, 0}, {kRows, 16}};
    plan.items.push_back(std::move(local));
  }
  return plan;
}

/// As if every piece were written, one archive of 2 KiB behind the other.
void place_all(const ckpt::dist::Plan& plan, int ranks, ckpt::detail::DcpMetadata& metadata,
               ckpt::detail::PartsFile& parts) {
  constexpr std::uint64_t kPiece = 2048;
  std::vector<std::uint64_t> ends(static_cast<std::size_t>(ranks), ckpt::detail::kPartHead);
  for (const ckpt::dist::PlannedItem& planned : plan.items) {
    metadata.items.push_back(planned.item);
    for (std::size_t k = 0; k < planned.owners.size(); ++k) {
      std::uint64_t& end = ends[planned.owners[k]];
      metadata.items.back().chunks.set_place(k, {ckpt::detail::part_name(planned.owners[k]), end, kPiece});
      end += kPiece;
    }
  }
  for (int rank = 0; rank < ranks; ++rank) {
    auto at = static_cast<std::size_t>(rank);
    parts.parts.push_back({ckpt::detail::part_name(at), ends[at], {}});
  }
}

void make_parts(const fs::path& folder, const ckpt::detail::PartsFile& parts) {
  fs::create_directories(folder);
  for (const ckpt::detail::PartFacts& part : parts.parts) {
    std::ofstream(folder / part.file, std::ios::binary);
    fs::resize_file(folder / part.file, part.size);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "many_ranks FOLDER [RANKS [TENSORS]]\n"), 2;
  const fs::path folder = argv[1];
  const int ranks = argc > 2 ? std::atoi(argv[2]) : 1024;
  const int tensors = argc > 3 ? std::atoi(argv[3]) : 300;
  std::vector<std::string> texts;
  for (int rank = 0; rank < ranks; ++rank) texts.push_back(ckpt::dist::encode_plan(plan_of(rank, ranks, tensors)));
  const std::size_t sent = texts[0].size();
  double start = seconds();
  std::vector<ckpt::dist::LocalPlan> plans;
  for (const std::string& text : texts) plans.push_back(ckpt::dist::decode_plan(text));
  const double decode = seconds_since(start);
  start = seconds();
  const ckpt::dist::Plan plan = ckpt::dist::merge_plans(plans);
  const double merge = seconds_since(start);
  plans.clear();
  ckpt::detail::DcpMetadata metadata;
  ckpt::detail::PartsFile parts;
  metadata.save_id = parts.save_id = ckpt::detail::save_id_of({1, 2});
  parts.ranks = static_cast<std::uint64_t>(ranks);
  place_all(plan, ranks, metadata, parts);
  make_parts(folder, parts);
  start = seconds();
  ckpt::detail::write_index(folder, metadata, parts, {});
  const double write = seconds_since(start);
  std::printf(
      "{\"ranks\": %d, \"tensors\": %d, \"sent_a_rank\": %zu, \"decode_s\": %.3f, \"merge_and_tiling_s\": %.3f, "
      "\"metadata_bytes\": %llu, \"metadata_written_s\": %.3f, \"peak_mib\": %.0f}\n",
      ranks, tensors, sent, decode, merge, static_cast<unsigned long long>(fs::file_size(folder / ".metadata")), write,
      peak_mib());
  return 0;
}
