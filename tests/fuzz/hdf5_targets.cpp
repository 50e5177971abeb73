#include <algorithm>

#include "libckpt/hdf5/dataset_source.h"
#include "libckpt/hdf5/described_file.h"
#include "libckpt/hdf5/describer.h"
#include "libckpt/hdf5/filters.h"
#include "libckpt/hdf5/helper_process.h"
#include "libckpt/hdf5/tree.h"
#include "libckpt/io/packed.h"
#include "libckpt/limits.h"
#include "tests/fuzz/format_targets.h"
#include "tests/fuzz/targets.h"

namespace fuzz {
namespace {

constexpr std::uint64_t kFileSize = 64 << 10;
constexpr std::uint64_t kReadBudget = 4 << 20;
constexpr ckpt::detail::DescribedPlan kEmptyPlan{4096, 8192, 0};

ckpt::SourcePtr some_file() {
  core::ByteVector bytes(kFileSize);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 + (i >> 8));
  return ckpt::memory_source(std::move(bytes));
}

/// One chunk of 256 elements of four bytes behind filters that bits choose.
ckpt::Hdf5Dataset dataset_of(unsigned choice) {
  ckpt::Hdf5Dataset dataset;
  dataset.dtype = core::DType::f32;
  dataset.width = 4;
  dataset.dims = {256};
  dataset.size = 1024;
  dataset.layout = ckpt::detail::kLayoutChunked;
  dataset.chunk = {256};
  const std::vector<ckpt::Hdf5Filter> filters = {{2, {4}}, {1, {6}}, {32015, {3}}, {32000, {4, 261, 1024}}, {3, {}}};
  for (std::size_t i = 0; i < filters.size(); ++i) {
    if ((choice >> i & 1U) != 0) dataset.filters.push_back(filters[i]);
  }
  return dataset;
}

}  // namespace

void run_hdf5_answer(core::Bytes bytes) {
  answer([&] {
    ckpt::Hdf5Tree tree = ckpt::detail::parse_walk(bytes, kFileSize, {});
    ckpt::Hdf5Sources sources(some_file());
    std::uint64_t budget = kReadBudget;
    for (const ckpt::Hdf5Object& object : tree.objects) {
      bool readable = object.dataset && object.dataset->is_tensor() && object.dataset->outside.empty();
      if (!readable || object.dataset->size > budget) continue;
      budget -= object.dataset->size;
      answer([&] { ckpt::read_all(*sources.open(std::make_shared<ckpt::Hdf5Dataset>(*object.dataset))); });
    }
  });
}

void run_hdf5_image(core::Bytes bytes) {
  answer([&] { ckpt::detail::parse_described({bytes.begin(), bytes.end()}, kEmptyPlan); });
}

core::ByteVector hdf5_image_of(core::Bytes /*file*/) {
  core::ByteVector out;
  answer([&] {
    core::ByteVector wanted;
    ckpt::detail::put_count(wanted, kEmptyPlan.user_block);
    ckpt::detail::put_count(wanted, kEmptyPlan.metadata_begin);
    wanted.push_back(std::byte{0});
    ckpt::detail::put_text(wanted, "data");
    ckpt::detail::put_count(wanted, 0);  // attributes
    ckpt::detail::put_count(wanted, kEmptyPlan.datasets);
    out = *ckpt::detail::Hdf5Describer().describe(wanted, kEmptyPlan).answer;
  });
  return out;
}

void run_hdf5_chunk(core::Bytes bytes) {
  if (bytes.size() < 2) return;
  ckpt::Hdf5Dataset dataset = dataset_of(static_cast<unsigned>(bytes[0]));
  if (!ckpt::detail::filter_obstacle(dataset).empty()) return;
  answer([&] {
    ckpt::detail::decode_chunk({bytes.begin() + 2, bytes.end()}, dataset,
                               {.skipped = static_cast<unsigned>(bytes[1]) & 31U});
  });
}

core::ByteVector hdf5_answer_of(core::Bytes file) {
  core::ByteVector out;
  answer([&] {
    ckpt::SourcePtr source = ckpt::memory_source({file.begin(), file.end()});
    out = ckpt::detail::run_hdf5_helper(
        *source, {.max_objects = 10'000, .max_depth = 100, .seconds = 20, .max_answer = 16 << 20});
  });
  return out;
}

}  // namespace fuzz
