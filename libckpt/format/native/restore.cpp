#include "libckpt/format/native/restore.h"

#include <algorithm>
#include <map>

#include "libckpt/format/native/damaged_head.h"
#include "libckpt/format/native/native.h"
#include "libckpt/format/native/opened_file.h"
#include "libckpt/format/native/parity_survey.h"
#include "libckpt/format/native/parity_writer.h"
#include "libckpt/format/native/payload_names.h"
#include "libckpt/format/native/verify_tree.h"
#include "libckpt/hint.h"
#include "libckpt/io/patched_source.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::uint64_t kHeadBytes = 4096;

Input input_of(const std::filesystem::path& path, SourcePtr file) {
  Input input{path, std::move(file), {}, nullptr};
  input.head.resize(std::min(kHeadBytes, input.file->size()));
  try {
    input.file->read(0, input.head);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::io) throw;
    input.head.clear();  // it lies in a part that is gone
  }
  return input;
}

/// Header and index when both are as they were written.
std::shared_ptr<const OpenedNative> try_open_index(const Input& input, const Limits& limits) {
  try {
    return open_index(input, limits);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::io || error.code() == ErrorCode::unsupported) throw;
    return nullptr;
  }
}

std::optional<ParityHeader> parity_header_at(const ByteSource& file, std::uint64_t offset) {
  if (file.size() < kParityHeaderBytes || offset > file.size() - kParityHeaderBytes) return std::nullopt;
  core::ByteVector bytes(kParityHeaderBytes);
  file.read(offset, bytes);
  std::optional<ParityHeader> header = try_parse_parity_header(bytes);
  bool in_place = header && (header->layout.covered == offset || header->layout.second_header() == offset);
  return in_place ? header : std::nullopt;
}

/// The first copy stands at a multiple of 4,096.
std::optional<ParityHeader> look_everywhere(const ByteSource& file) {
  constexpr std::uint64_t kStep = 4096;
  for (std::uint64_t at = kStep; at < file.size(); at += kStep) {
    if (std::optional<ParityHeader> header = parity_header_at(file, at)) return header;
  }
  return std::nullopt;
}

/// From either copy, else from the index, which says the same.
std::optional<ParityHeader> find_parity(const ByteSource& file, const OpenedNative* opened) {
  if (file.size() >= kParityHeaderBytes) {
    if (auto header = parity_header_at(file, file.size() - kParityHeaderBytes)) return header;
  }
  if (opened != nullptr && opened->index.parity) {
    if (auto header = parity_header_at(file, opened->index.parity->covered)) return header;
    if (file.size() > opened->index.parity->covered) {
      return ParityHeader{*opened->index.parity, opened->header.index_hash};
    }
  }
  return opened == nullptr ? look_everywhere(file) : std::nullopt;
}

/// What another program made of the file later must never be turned back into what it was.
void require_unedited(const Input& input, const OpenedNative* opened, const ParityHeader& parity) {
  if (opened == nullptr) return;
  if (opened->header.index_hash != parity.index_hash) {
    throw Error(ErrorCode::corrupt,
                "the parity data belongs to an earlier state of the file and restores nothing of it");
  }
  if (input.file->size() != parity.layout.end() &&
      end_by_superblock(opened->header, *input.file) == input.file->size()) {
    throw HintedError(ErrorCode::corrupt, "another program edited the file after its parity data was written",
                      Hint{"run {} to bring the index up to date", {{Hint::Option::reindex}}});
  }
}

/// Names of the parts of a file, to say what blocks lie in.
class PartNames {
 public:
  PartNames(const OpenedNative& file, const ParityLayout& layout, const Limits& limits) : layout_(layout) {
    std::uint64_t base = file.header.user_block;
    parts_[0] = "header";
    parts_[kHeaderBytes] = "index";
    parts_[kHeaderBytes + file.header.index_size] = "padding";
    for (const StampedRange& range : file.index.ranges) add(base + range.offset, range.length, "HDF5 structure");
    PayloadNames names(file, limits);
    for (std::size_t i = 0; i < file.index.payloads.size(); ++i) {
      const Payload& payload = file.index.payloads[i];
      add(base + payload.offset, payload.stored, names.name(static_cast<std::uint32_t>(i)));
    }
  }

  /// What a block touches, in file order. Blocks of padding alone say so.
  std::vector<std::string> touched_by(std::uint64_t number) const {
    if (number >= layout_.data_blocks()) return {"parity data"};
    std::uint64_t begin = number * layout_.block;
    auto at = std::prev(parts_.upper_bound(begin));
    std::vector<std::string> names;
    for (; at != parts_.end() && at->first < begin + layout_.block; ++at) {
      bool known = std::find(names.begin(), names.end(), at->second) != names.end();
      if (!known && at->second != "padding") names.push_back(at->second);
    }
    return names.empty() ? std::vector<std::string>{"padding"} : names;
  }

 private:
  void add(std::uint64_t begin, std::uint64_t length, const std::string& name) {
    if (length == 0) return;
    parts_[begin] = name;
    parts_.try_emplace(begin + length, "padding");
  }

  const ParityLayout& layout_;
  std::map<std::uint64_t, std::string> parts_;  ///< by their first byte
};

void name_parts(const OpenedNative& file, const ParityLayout& layout, const std::vector<std::uint64_t>& restored,
                const Limits& limits, RescueReport& report) {
  PartNames names(file, layout, limits);
  std::map<std::string, std::size_t> seen;
  for (std::uint64_t number : restored) {
    for (const std::string& name : names.touched_by(number)) {
      auto [at, is_new] = seen.try_emplace(name, report.restored.size());
      if (is_new) report.restored.push_back({name, 0});
      ++report.restored[at->second].blocks;
    }
  }
}

bool same_bytes(const ByteSource& a, const ByteSource& b, std::uint64_t begin, std::uint64_t end) {
  if (begin >= end || end > a.size() || end > b.size()) return true;
  core::ByteVector one(end - begin);
  core::ByteVector other(end - begin);
  a.read(begin, one);
  b.read(begin, other);
  return one == other;
}

std::uint64_t count_differences(const ByteSource& a, const ByteSource& b, std::uint64_t begin, std::uint64_t end) {
  constexpr std::uint64_t kPart = 1ULL << 20;
  std::uint64_t count = 0;
  for (; begin < end; begin += kPart) {
    core::ByteVector one(std::min(kPart, end - begin));
    core::ByteVector other(one.size());
    a.read(begin, one);
    b.read(begin, other);
    for (std::size_t i = 0; i < one.size(); ++i) count += one[i] != other[i] ? 1U : 0U;
  }
  return count;
}

/// One of the restored blocks holds some of the bytes from `begin` to `end`.
bool touches(const std::vector<std::uint64_t>& restored, const ParityLayout& layout, std::uint64_t begin,
             std::uint64_t end) {
  auto at = std::lower_bound(restored.begin(), restored.end(), begin / layout.block);
  return at != restored.end() && *at <= (end - 1) / layout.block;
}

/// Decay flips bits, or takes sectors that know nothing of tensors. Most bytes of a tensor replaced, and none beside
/// it, is what a program does that writes new values.
void find_replaced_tensors(const Input& before, const OpenedNative& file, const std::vector<std::uint64_t>& restored,
                           const Limits& limits, RestoredNative& after) {
  constexpr std::uint64_t kBeside = 64;
  const ParityLayout& layout = *file.index.parity;
  PayloadNames names(file, limits);
  for (std::size_t i = 0; i < file.index.payloads.size(); ++i) {
    const Payload& payload = file.index.payloads[i];
    std::uint64_t begin = file.header.user_block + payload.offset;
    std::uint64_t end = begin + payload.stored;
    if (payload.stored == 0 || end > before.file->size() || !touches(restored, layout, begin, end)) continue;
    std::uint64_t differ = count_differences(*before.file, *after.input.file, begin, end);
    bool alone = differ > payload.stored / 2 && same_bytes(*before.file, *after.input.file, begin - kBeside, begin) &&
                 same_bytes(*before.file, *after.input.file, end, end + kBeside);
    if (alone) after.edited.push_back(names.name(static_cast<std::uint32_t>(i)));
  }
}

/// The HDF5 part as it stands can be read and shows other names, types or places than the index.
void find_edited_structure(const Input& before, const OpenedNative& file, const Limits& limits,
                           std::vector<std::string>& edited) {
  if (find_stale_range(file) == nullptr) return;
  VerifyResult views;
  compare_views(file, before, {.limits = limits}, views);
  for (const Finding& finding : views.damage) {
    if (finding.subject != "HDF5 part") edited.push_back(finding.subject);
  }
}

/// Both copies of header and table as they should be.
void patch_tables(const ParityHeader& header, const core::ByteVector& hashes, PatchedSource& out) {
  core::ByteVector head = encode_parity_header(header);
  core::ByteVector first = head;
  core::append(first, hashes);
  out.patch(header.layout.covered, first);
  core::ByteVector second = hashes;
  core::append(second, head);
  out.patch(header.layout.second_table(), second);
}

SourcePtr restore_by_parity(const Input& input, const ParityHeader& header, const RescueOptions& options,
                            const std::filesystem::path& scratch, RescueReport& report,
                            std::vector<std::uint64_t>& restored) {
  const ParityLayout& layout = header.layout;
  ParitySurvey survey = survey_blocks(*input.file, header, options.threads);
  restored = restorable(layout, survey.lost);
  auto out = std::make_shared<PatchedSource>(input.file, layout.end(), scratch);
  restore_blocks(*input.file, layout, restored, options.threads, [&](std::uint64_t number, Bytes block) {
    out->patch(layout.offset_of(number), block);
    core::store_le(survey.hashes.data() + number * kBlockHashBytes, hash128(block).low);
  });
  report.blocks = layout.blocks();
  report.block_bytes = layout.block;
  report.blocks_restored = restored.size();
  report.blocks_lost = survey.lost.size() - restored.size();
  bool tables = survey.bad_entries > 0 || survey.bad_headers > 0;
  report.damaged = tables || !survey.lost.empty() || input.file->size() != layout.end();
  patch_tables(header, survey.hashes, *out);
  if (tables) report.restored.push_back({"table of the parity data", 0});
  return out;
}

/// The header written anew for an index that stands where it should; nullopt when there is none.
std::optional<NativeHeader> remade_header(const Input& input) {
  std::optional<std::uint64_t> user_block = find_hdf5_part(*input.file);
  if (!user_block) return std::nullopt;
  std::optional<std::uint64_t> index_size = measure_index(*input.file, *user_block);
  if (!index_size) return std::nullopt;
  NativeHeader header;
  header.user_block = *user_block;
  header.index_size = *index_size;
  header.body_size = input.file->size() - *user_block;
  header.index_hash = hash128(*slice(input.file, kHeaderBytes, *index_size));
  return header;
}

/// The hash of the index that the damaged header still states.
Hash128 index_hash_in(const Input& input) {
  constexpr std::size_t kAt = 48;
  if (input.head.size() < kHeaderBytes) return {};
  return {core::load_le<std::uint64_t>(input.head.data() + kAt),
          core::load_le<std::uint64_t>(input.head.data() + kAt + 8)};
}

/// Without parity data: a header whose magic or other fields are damaged.
SourcePtr restore_header(const Input& input, const std::filesystem::path& scratch, RescueReport& report) {
  bool magic = find_head_damage(input) == HeadDamage::magic;
  core::ByteVector made;
  if (magic) {
    made.assign(core::as_bytes(kNativeMagic).begin(), core::as_bytes(kNativeMagic).end());
  } else if (std::optional<NativeHeader> header = remade_header(input)) {
    made = encode_header(*header);
    report.notes.push_back({"header", "it was rebuilt from the index; the generation of the file is not known"});
    report.proven = index_hash_in(input) == header->index_hash;
  } else {
    return nullptr;
  }
  auto out = std::make_shared<PatchedSource>(input.file, input.file->size(), scratch);
  out->patch(0, made);
  report.restored.push_back({magic ? "magic" : "header", 0});
  report.damaged = true;
  return out;
}

bool opened_is_cut(const OpenedNative& opened, const Input& input) {
  return input.file->size() < opened.header.user_block + opened.header.body_size;
}

/// Everything that has a hash fits it, and everything else is as it has to be.
bool is_proved(const Input& input, const RescueOptions& options) {
  OpenOptions open;
  open.limits = options.limits;
  open.threads = options.threads;
  try {
    return verify_hashes(input, open).damage.empty();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::io) throw;
    return false;
  }
}

}  // namespace

bool is_native_remains(const Input& input) {
  if (detect_native(input)) return true;
  for (const Format* format : formats()) {
    // Without its head a native file is an HDF5 file behind a user block.
    if (format->name != "hdf5" && format->detect(input)) return false;
  }
  return find_parity(*input.file, nullptr).has_value();
}

RestoredNative restore_native(const Input& input, const RescueOptions& options, const std::filesystem::path& scratch,
                              RescueReport& report) {
  std::shared_ptr<const OpenedNative> opened = try_open_index(input, options.limits);
  std::optional<ParityHeader> parity = find_parity(*input.file, opened.get());
  RestoredNative out{input};
  std::vector<std::uint64_t> restored;
  if (parity) {
    require_unedited(input, opened.get(), *parity);
    out.input = input_of(input.path, restore_by_parity(input, *parity, options, scratch, report, restored));
  } else if (opened != nullptr) {
    std::uint64_t size = opened->header.user_block + opened->header.body_size;
    if (input.file->size() < size) {
      out.input = input_of(input.path, std::make_shared<PatchedSource>(input.file, size, scratch));
    }
  } else if (SourcePtr made = restore_header(input, scratch, report)) {
    out.input = input_of(input.path, std::move(made));
  }
  std::shared_ptr<const OpenedNative> now = try_open_index(out.input, options.limits);
  out.whole = report.blocks_lost == 0 && is_proved(out.input, options);
  if (now != nullptr && parity) name_parts(*now, parity->layout, restored, options.limits, report);
  if (out.whole && parity && !restored.empty()) {
    find_replaced_tensors(input, *now, restored, options.limits, out);
    if (opened != nullptr && !opened_is_cut(*opened, input)) {
      find_edited_structure(input, *opened, options.limits, out.edited);
    }
  }
  if (!out.whole) report.damaged = true;
  return out;
}

Checkpoint read_remains(const Input& input, const RescueOptions& options) {
  std::shared_ptr<const OpenedNative> file = open_index(input, options.limits);
  OpenOptions open;
  open.limits = options.limits;
  open.check_hashes = true;
  Checkpoint checkpoint;
  checkpoint.root = build_tree(file, open);
  checkpoint.metadata = file->index.metadata;
  if (file->index.parity) {
    auto detail = std::make_shared<NativeDetail>();
    detail->parity = file->index.parity->share;
    checkpoint.detail = std::move(detail);
  }
  return checkpoint;
}

}  // namespace ckpt::detail
