// Writing: payloads are streamed first, so that compressed sizes are known; then libhdf5 describes them in the helper
// program, and the description, the superblock and the index follow.

#include <algorithm>
#include <bit>
#include <set>

#include "libckpt/format/hdf5_write/payload_packing.h"
#include "libckpt/format/hdf5_write/payload_writer.h"
#include "libckpt/format/native/elsewhere.h"
#include "libckpt/format/native/index_plan.h"
#include "libckpt/format/native/native.h"
#include "libckpt/format/native/parity_writer.h"
#include "libckpt/format/save_file.h"
#include "libckpt/io/parallel_io.h"
#include "libckpt/late_texts.h"
#include "libcore/base/checked_math.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

// More than libhdf5 needs, for reserving space.
constexpr std::uint64_t kMetadataAtLeast = 4ULL << 10;
constexpr std::uint64_t kMetadataPerDataset = 1024;
constexpr std::uint64_t kMetadataPerGroup = 1024;

/// Room for the index and a quarter more, so that later edits need not move the rest of the file.
std::uint64_t user_block_for(std::uint64_t index_size) {
  std::uint64_t wanted = core::checked_add(kHeaderBytes + index_size, index_size / 4);
  return std::max(kMinUserBlock, std::bit_ceil(wanted));
}

std::uint64_t logical_bytes(const NativeIndex& index) {
  std::uint64_t total = 0;
  for (const Payload& payload : index.payloads) total += payload.size;
  return total;
}

std::uint64_t metadata_bound(const std::vector<DatasetPlan>& datasets) {
  std::set<std::string> groups;  // below the top one
  for (const DatasetPlan& dataset : datasets) {
    std::string group;
    for (std::size_t i = 0; i + 1 < dataset.path.size(); ++i) groups.insert(group += dataset.path[i] + "/");
  }
  return kMetadataAtLeast + datasets.size() * kMetadataPerDataset + (groups.size() + 2) * kMetadataPerGroup;
}

/// Streams all payloads; returns where the last one ends.
std::uint64_t write_payloads(AtomicFile& file, std::uint64_t user_block, const PayloadPlan& plan, NativeIndex& index,
                             const SaveOptions& options) {
  PayloadWriter writer(file, user_block, logical_bytes(index), options);
  writer.write(plan.payloads, index.payloads);
  return writer.finish();
}

/// Writes the HDF5 side and stamps it.
void write_hdf5(AtomicFile& file, const Hdf5Image& image, const Hdf5Place& place, NativeIndex& index) {
  core::ByteVector superblock = padded_superblock(image);
  if (index.parity) extend_superblock(superblock, index.parity->end());  // the HDF5 part comes to reach behind it
  file.write_at(place.user_block, superblock);
  file.skip_to(place.user_block + place.metadata_begin);
  file.write(image.metadata);
  index.ranges = stamp(superblock, place.metadata_begin, image.metadata);
}

/// Where the parity data will lie.
ParityLayout place_parity(const Hdf5Place& place, const Hdf5Image& image, double share) {
  return plan_parity(place.user_block + place.metadata_begin + image.metadata.size(), share);
}

/// The version that all there is in the file came with.
std::uint16_t minor_of(const NativeIndex& index) {
  auto has = [&](NativeCodec codec) {
    return std::ranges::find(index.payloads, codec, &Payload::codec) != index.payloads.end();
  };
  return has(NativeCodec::trimmed) ? kMinorOfTrimmed : has(NativeCodec::delta) ? kMinorOfDelta : kNativeMinor;
}

void write_user_block(AtomicFile& file, NativeHeader& header, const NativeIndex& index) {
  core::ByteVector packed = encode_index(index, header.user_block);
  header.minor = minor_of(index);
  header.index_size = packed.size();
  header.index_hash = hash128(packed);
  header.body_size = (index.parity ? index.parity->end() : file.position()) - header.user_block;
  file.write_at(0, encode_header(header));
  file.write_at(kHeaderBytes, packed);
}

/// Room for the whole file, more than it takes.
std::uint64_t bound_of(std::uint64_t payloads_end, const std::vector<DatasetPlan>& datasets, double parity) {
  std::uint64_t bound = core::checked_add(payloads_end, metadata_bound(datasets));
  return parity > 0 ? plan_parity(bound, parity).end() : bound;
}

}  // namespace

void write_native(const Checkpoint& checkpoint, const std::filesystem::path& path, const SaveOptions& options) {
  double parity = parity_share(checkpoint, options);
  Hdf5Describer helper;  // what is started now is ready when the plans are made
  PayloadPlan plan = plan_payloads(checkpoint.root);
  NativeIndex index = plan_index(checkpoint, plan);
  index.payloads.resize(plan.payloads.size());
  parallel_for(plan.payloads.size(), options.threads,
               [&](std::size_t i) { index.payloads[i] = choose_packing(plan.payloads[i], options.codec); });
  if (const auto* shared = dynamic_cast<const SharingDetail*>(checkpoint.detail.get())) {
    if (parity > 0) throw Error(ErrorCode::usage, "parity data covers one file, and this one is to share tensors");
    share_payloads(shared->files, path, plan, options.threads, index);
  }
  if (parity > 0) index.parity.emplace();
  NativeHeader header;
  header.user_block = user_block_for(encoded_size(index));
  std::vector<DatasetPlan> datasets = plan_datasets(checkpoint, plan, index);
  // What is packed lies elsewhere each time, so that no answer is known.
  const bool packs = std::ranges::any_of(index.payloads, is_packed);
  if (packs || !helper.may_know(datasets.size())) helper.require_ready();
  std::uint64_t bound = core::checked_add(header.user_block, bound_of_payloads(index.payloads));
  AtomicFile file(path, file_options(options, bound_of(bound, datasets, parity)));
  std::uint64_t end = write_payloads(file, header.user_block, plan, index, options);
  if (const LateTexts* late = late_texts(checkpoint)) late->put(index.metadata);
  Hdf5Place place{header.user_block, core::align_up(end, kPageAlignment)};
  Hdf5Image image = build_hdf5(helper, {std::move(datasets), place});
  if (parity > 0) index.parity = place_parity(place, image, parity);
  write_hdf5(file, std::move(image), place, index);
  write_user_block(file, header, index);
  if (index.parity) write_parity(file, {*index.parity, header.index_hash}, options);
  file.commit();
  if (options.report != nullptr) {
    options.report->bytes_written += file.position();
    options.report->rung = "rewrite";
  }
}

}  // namespace ckpt::detail
