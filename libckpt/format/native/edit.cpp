// Edits that leave the payloads where they lie: the index takes the room that the user block has for it, and the HDF5
// side is described anew over the same bytes. It lies at the end of the file, so it may become longer or shorter.

#include "libckpt/format/hdf5_write/link_edit.h"
#include "libckpt/format/hdf5_write/payload_packing.h"
#include "libckpt/format/hdf5_write/payload_source.h"
#include "libckpt/format/native/index_plan.h"
#include "libckpt/format/native/native.h"
#include "libckpt/format/native/opened_file.h"
#include "libckpt/io/edit_journal.h"

namespace ckpt::detail {
namespace {

/// True when the bytes of `planned` are those of the payload, stored as they are to be written.
bool is_kept(const PlannedPayload& planned, const Payload& payload, Codec codec) {
  const StoredPayload* stored = stored_payload(*planned.source);
  return stored != nullptr && &stored->payload() == &payload && same_packing(payload, choose_packing(planned, codec));
}

/// Gives the new index the payloads of the old one. False where some are new, or not needed any more, or in another
/// order: such a file is written whole, without gaps.
bool keep_payloads(const OpenedNative& file, const PayloadPlan& plan, Codec codec, NativeIndex& index) {
  const LargeVector<Payload>& old = file.index.payloads;
  if (plan.payloads.size() != old.size()) return false;
  for (std::size_t i = 0; i < old.size(); ++i) {
    if (!is_kept(plan.payloads[i], old[i], codec)) return false;
  }
  index.payloads = old;
  return true;
}

constexpr std::size_t kSuperblockBytes = 96;  ///< of version 0
constexpr std::size_t kMovesWorthAll = 2;     ///< moving a link takes about twice as long as describing a dataset

/// The HDF5 side of the file, and what it is to become.
class Hdf5Edit {
 public:
  explicit Hdf5Edit(const OpenedNative& file) : file_(file) {}

  /// False for a file that this library would have laid out otherwise.
  bool is_possible() const {
    const std::vector<StampedRange>& ranges = file_.index.ranges;
    return ranges.size() == 2 && ranges[0].offset == 0 && ranges[0].length == kFirstPayload &&
           ranges[1].length <= Limits().max_index_bytes &&
           ranges[1].offset + ranges[1].length == file_.header.body_size;
  }

  /// Fills in the ranges of `index`.
  void plan(const Checkpoint& checkpoint, const PayloadPlan& plan, NativeIndex& index) {
    Hdf5Plan wanted{.datasets = plan_datasets(checkpoint, plan, index), .place = place()};
    std::optional<LinkEdit> links = links_to(wanted);
    index.ranges = file_.index.ranges;
    if (links && links->is_empty()) return;
    old_superblock_ = old(0);
    old_metadata_ = old(1);
    image_ = make_image(std::move(wanted), links);
    superblock_ = padded_superblock(image_);
    index.ranges = stamp(superblock_, place().metadata_begin, image_.metadata);
  }

  void add_to(FileEdit& edit) const {
    if (old_metadata_.empty()) return;
    std::uint64_t user_block = file_.header.user_block;
    edit.replace_where_different(user_block, old_superblock_, superblock_);
    edit.replace_end(user_block + place().metadata_begin, old_metadata_, image_.metadata);
  }

 private:
  Hdf5Place place() const { return {file_.header.user_block, file_.index.ranges[1].offset}; }

  core::ByteVector old(std::size_t range) const {
    const StampedRange& stamped = file_.index.ranges[range];
    return read_all(*slice(file_.body, stamped.offset, stamped.length));
  }

  /// nullopt where more changes than where datasets lie.
  std::optional<LinkEdit> links_to(const Hdf5Plan& wanted) const {
    Checkpoint checkpoint;
    checkpoint.root = build_tree(std::shared_ptr<const OpenedNative>(std::shared_ptr<void>(), &file_), {});
    PayloadPlan plan = plan_payloads(checkpoint.root);
    return plan_link_edit({.datasets = plan_datasets(checkpoint, plan, file_.index), .place = place()}, wanted);
  }

  /// Links are changed where they are few; else everything is described anew, which takes as long as in a save.
  Hdf5Image make_image(Hdf5Plan wanted, const std::optional<LinkEdit>& links) const {
    if (links && links->moved.size() * kMovesWorthAll < wanted.datasets.size()) {
      core::Bytes superblock = core::Bytes(old_superblock_).first(kSuperblockBytes);
      if (std::optional<Hdf5Image> image = relink_hdf5(wanted, superblock, old_metadata_, *links)) return *image;
    }
    Hdf5Describer helper;
    helper.require_ready();
    return build_hdf5(helper, std::move(wanted));
  }

  const OpenedNative& file_;
  core::ByteVector old_superblock_;  ///< empty where nothing changes, as is all that follows
  core::ByteVector old_metadata_;
  core::ByteVector superblock_;
  Hdf5Image image_;
};

core::ByteVector user_block_of(const NativeHeader& header, const core::ByteVector& packed) {
  core::ByteVector bytes = encode_header(header);
  core::append(bytes, packed);
  return bytes;
}

/// Header and index, old and new, filled up with zeros to the same length. Comes first: patches ascend.
void replace_index(const NativeDetail& detail, NativeHeader header, const core::ByteVector& packed, FileEdit& edit) {
  std::uint64_t old_size = header.index_size;
  ++header.generation;
  header.index_size = packed.size();
  header.index_hash = hash128(packed);
  header.body_size = edit.new_size - header.user_block;
  core::ByteVector fresh = user_block_of(header, packed);
  fresh.resize(std::max<std::size_t>(fresh.size(), kHeaderBytes + old_size));
  core::ByteVector old(fresh.size());
  detail.whole->read(0, old);
  edit.replace_where_different(0, old, fresh);
}

}  // namespace

std::optional<FileEdit> edit_native(const Checkpoint& checkpoint, const SaveOptions& options) {
  const auto& detail = dynamic_cast<const NativeDetail&>(*checkpoint.detail);
  const OpenedNative& file = *detail.file;
  Hdf5Edit hdf5(file);
  if (file.index.parity || options.parity > 0 || !hdf5.is_possible()) return std::nullopt;
  PayloadPlan plan = plan_payloads(checkpoint.root);
  NativeIndex index = plan_index(checkpoint, plan);
  if (!keep_payloads(file, plan, options.codec, index)) return std::nullopt;
  if (kHeaderBytes + encoded_size(index) > file.header.user_block) return std::nullopt;
  hdf5.plan(checkpoint, plan, index);
  core::ByteVector packed = encode_index(index, file.header.user_block);
  std::uint64_t size = file.header.user_block + index.ranges[1].offset + index.ranges[1].length;
  FileEdit edit{.old_size = detail.whole->size(), .new_size = size};
  if (hash128(packed) == file.header.index_hash) return edit;
  replace_index(detail, file.header, packed, edit);
  hdf5.add_to(edit);
  return edit;
}

}  // namespace ckpt::detail
