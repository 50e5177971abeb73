// Golden data set golden_dist: what PyTorch does with several processes. Starts itself as the ranks of every world size
// that the data have.
#include <iostream>
#include <set>

#include "libcore/dist/init.h"
#include "tests/libcore/dist/golden_errors.h"
#include "tests/libcore/dist/golden_parts.h"
#include "tests/libcore/dist/rank_gpus.h"
#include "tests/libcore/dist/ranks.h"

namespace {

using test::Json;
using test::member;

constexpr const char* kFile = "dist/ddp.json";
constexpr const char* kArrays = "dist/ddp.safetensors";

using Differ = std::string (*)(Json json, const test::GoldenArrays& arrays);
struct Section {
  const char* name;
  Differ differ;
};
const Section kSections[] = {
    {"collectives", [](Json json, const test::GoldenArrays&) { return test::collective_difference(json); }},
    {"ddp_buckets", [](Json json, const test::GoldenArrays&) { return test::ddp_buckets_difference(json); }},
    {"training", [](Json json, const test::GoldenArrays& arrays) { return test::training_difference(json, arrays); }},
    {"sync_batch_norm", test::sync_batch_norm_difference},
};

std::int64_t world_size_of(Json json) {
  return test::integer(member(json, "world_size"));
}

/// What a rank does: all cases of a section that have its world size.
int run_rank(const Section& section) {
  const test::GoldenJson json(*test::golden_file(kFile));
  const test::GoldenArrays arrays(*test::golden_file(kArrays));
  core::distributed::init_process_group({.backend = test::default_backend(), .timeout = std::chrono::seconds(60)});
  int index = -1;
  for (Json each : test::items(member(json.root(), section.name))) {
    ++index;
    if (world_size_of(each) != core::distributed::get_world_size()) continue;
    std::string why;
    try {
      why = section.differ(each, arrays);
    } catch (const std::exception& error) {
      why = error.what();
    }
    for (char& c : why) {
      if (c == '\n') c = ' ';
    }
    test::say(std::to_string(index) + "\t" + why);
  }
  core::distributed::destroy_process_group();
  return 0;
}

/// What the ranks said: index -> the first difference; complete only for cases of which all ranks spoke.
struct Verdicts {
  std::map<int, std::string> why;
  std::map<int, int> spoken;
  std::string endings;
};
Verdicts verdicts_of(const std::vector<test::Ending>& endings) {
  Verdicts verdicts;
  for (std::size_t rank = 0; rank < endings.size(); ++rank) {
    std::istringstream lines(endings[rank].report);
    for (std::string line; std::getline(lines, line);) {
      const int index = std::atoi(line.c_str());
      const std::string why = line.substr(line.find('\t') + 1);
      ++verdicts.spoken[index];
      std::string& first = verdicts.why[index];
      if (first.empty() && !why.empty())
        first = why.starts_with("skip: ") ? why : "rank " + std::to_string(rank) + " " + why;
    }
    if (endings[rank].status == 0) continue;
    verdicts.endings += " rank " + std::to_string(rank) + " ended with " + std::to_string(endings[rank].status) +
                        (endings[rank].timed_out ? " (too slow)" : "") + ": " + endings[rank].errors;
  }
  return verdicts;
}

std::string id_of(const Section& section, Json json, int index) {
  std::string id = std::string(section.name) + "/" + std::to_string(index);
  for (const char* key : {"id", "what", "op", "dtype"}) {
    if (test::has(json, key)) id += "/" + test::text(member(json, key));
  }
  return id + "/w" + std::to_string(world_size_of(json));
}

void run_section(const Section& section, Json root, test::GoldenRun& run) {
  const std::vector<Json> cases = test::items(member(root, section.name));
  std::set<std::int64_t> sizes;
  for (Json each : cases) sizes.insert(world_size_of(each));
  for (const std::int64_t size : sizes) {
    if (!test::has_gpus_for(static_cast<int>(size))) {
      run.skip(std::string(section.name) + "/w" + std::to_string(size), "fewer GPUs than ranks");
      continue;
    }
    const Verdicts verdicts = verdicts_of(test::run_ranks({.role = section.name, .size = static_cast<int>(size)}));
    for (std::size_t i = 0; i < cases.size(); ++i) {
      if (world_size_of(cases[i]) != size) continue;
      const int index = static_cast<int>(i);
      const std::string id = id_of(section, cases[i], index);
      const auto spoken = verdicts.spoken.find(index);
      if (spoken == verdicts.spoken.end() || spoken->second != size) {
        run.fail(id, "not all ranks came so far:" + verdicts.endings);
      } else if (verdicts.why.at(index).starts_with("skip: ")) {
        run.skip(id, verdicts.why.at(index).substr(6));
      } else {
        run.check(id, verdicts.why.at(index).empty(), verdicts.why.at(index));
      }
    }
  }
}

/// What needs no other process.
void run_alone(const char* name, std::string (*differ)(Json json), Json root, test::GoldenRun& run) {
  int index = 0;
  for (Json each : test::items(member(root, name))) {
    const std::string id = std::string(name) + "/" + std::to_string(index++);
    test::guarded(run, id, [&] {
      const std::string why = differ(each);
      run.check(id, why.empty(), why);
    });
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string role = test::rank_role(argc, argv);
  const test::RankGpus gpus;
  for (const Section& section : kSections) {
    if (role == section.name) return run_rank(section);
  }
  if (role == "errors") return test::run_error_rank(test::rank_argument(argc, argv, 0));
  std::string missing;
  if (!test::may_run_on_these_gpus()) return std::cout << "skipped: there is no GPU with NCCL\n", 77;
  if (!test::has_backend(test::default_backend(), &missing)) return std::cerr << missing << '\n', 77;
  return test::golden_main("dist", kFile, [](Json root, test::GoldenRun& run) {
    run_alone("samplers", test::sampler_difference, root, run);
    run_alone("buckets", test::buckets_difference, root, run);
    for (const Section& section : kSections) run_section(section, root, run);
    for (Json each : test::items(member(root, "errors"))) {
      test::guarded(run, "errors", [&] { test::run_error_case(each, run); });
    }
  });
}
