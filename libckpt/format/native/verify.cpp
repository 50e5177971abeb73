// Verifying: every byte of the file is a checked index, a stamped range, a hashed payload, or padding of zeros.

#include <algorithm>

#include "libckpt/format/hdf5_write/payload_source.h"
#include "libckpt/format/native/elsewhere.h"
#include "libckpt/format/native/gaps.h"
#include "libckpt/format/native/native.h"
#include "libckpt/format/native/opened_file.h"
#include "libckpt/format/native/parity_survey.h"
#include "libckpt/format/native/payload_names.h"
#include "libckpt/format/native/value_codec.h"
#include "libckpt/format/native/verify_tree.h"
#include "libckpt/hint.h"
#include "libckpt/io/parallel_io.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

bool is_zero(const ByteSource& source) {
  bool zero = true;
  for_each_part(source, [&](Bytes part) {
    zero = zero && std::all_of(part.begin(), part.end(), [](std::byte b) { return b == std::byte{0}; });
  });
  return zero;
}

class Verifier {
 public:
  Verifier(const Input& input, const OpenOptions& options, const Progress& progress)
      : input_(input),
        options_(options),
        progress_(progress),
        file_(open_native(input, options.limits)),
        opener_(file_, options) {}

  /// What the file alone can tell.
  VerifyResult check() {
    result_.method = "128-bit content hashes";
    result_.checksums = ChecksumCover::all;
    check_tree();
    check_stamps();
    check_padding();
    check_payloads();
    check_wrappers();
    check_parity();
    return result_;
  }

  /// And what the helper program sees in its HDF5 part.
  VerifyResult run() {
    check();
    // What was changed behind the index is a finding already, and nothing more is known of it.
    if (result_.damage.empty()) compare_views(*file_, input_, options_, result_);
    input_.file->require_unchanged();
    return std::move(result_);
  }

 private:
  void damage(std::string subject, std::string text, std::optional<Hint> hint = {}) {
    result_.damage.push_back({std::move(subject), std::move(text), std::move(hint)});
  }

  /// Refuses with the same sentence whatever reading refuses, before anything relies on the index.
  void check_tree() const { build_tree(file_, options_); }

  /// Reading refuses a file with a stale range, so the answer is not complete. The tensors are looked at all the same:
  /// which of them are whole is what one wants to know next.
  void check_stamps() {
    for (const StampedRange& range : file_->index.ranges) {
      result_.bytes_checked += range.length;
      if (hash128(*slice(file_->body, range.offset, range.length)) == range.hash) continue;
      damage("HDF5 part", stale_text(range), stale_hint());
      result_.complete = false;
    }
  }

  void check_padding() {
    std::uint64_t used = kHeaderBytes + file_->header.index_size;
    result_.bytes_checked += file_->header.user_block;
    if (!is_zero(*slice(input_.file, used, file_->header.user_block - used))) {
      damage("user block", "the unused bytes after the index are not zero");
    }
    for (const FileGap& gap : find_gaps(*file_)) {
      result_.bytes_checked += gap.end - gap.begin;
      if (is_zero(*slice(file_->body, gap.begin, gap.end - gap.begin))) continue;
      damage("padding", "bytes " + std::to_string(gap.begin) + " to " + std::to_string(gap.end) +
                            " after the user block belong to nothing and are not zero");
    }
  }

  /// Empty when the payload holds what was written.
  std::string fault_of(const Payload& payload) const {
    try {
      SourcePtr source = opener_.open(payload, make_chunk_cache());
      Hash128 found = hash128(*source);
      if (found == payload.hash) return "";
      return "its bytes are damaged: their hash is " + to_hex(found) + " where " + to_hex(payload.hash) +
             " was written";
    } catch (const core::Error& error) {
      if (error.code() != core::ErrorCode::corrupt) throw;
      return std::string("its bytes are damaged: ") + error.what();
    }
  }

  void check_payloads() {
    const LargeVector<Payload>& payloads = file_->index.payloads;
    PayloadNames names(*file_, options_.limits);
    std::uint64_t total = 0;
    for (const Payload& payload : payloads) total += payload.stored;
    std::uint64_t done = 0;
    InOrderOptions in_order{thread_count(options_.threads), UINT64_MAX};
    ckpt::run_in_order<std::string>(
        payloads.size(), in_order, [](std::size_t) { return std::uint64_t{1}; },
        [&](std::size_t i) { return fault_of(payloads[i]); },
        [&](std::size_t i, const std::string& fault) {
          if (!fault.empty()) damage(names.name(static_cast<std::uint32_t>(i)), fault);
          ++result_.tensors_checked;
          done += payloads[i].stored;
          result_.bytes_checked += payloads[i].stored;
          if (progress_) progress_(done, total);
        });
  }

  void check_wrappers() {
    if (!file_->index.has_wrappers) return;
    EntryCompleter nothing = [](const EntryRecord&, Entry&) {};
    if (list_wrappers(decode_tree(file_->index.tree.bytes(), nothing, options_.limits)) == file_->index.wrappers)
      return;
    damage("index", "its record of wrappers is not what the keys say");
  }

  void check_parity() {
    if (!file_->index.parity) return;
    const ParityLayout& layout = *file_->index.parity;
    if (file_->parity_cut) damage("parity data", "the file is cut inside it");
    ParitySurvey survey = survey_blocks(*input_.file, {layout, file_->header.index_hash}, options_.threads);
    result_.bytes_checked += layout.end() - layout.covered;
    auto first = std::lower_bound(survey.lost.begin(), survey.lost.end(), layout.data_blocks());
    auto data = static_cast<std::uint64_t>(first - survey.lost.begin());
    std::uint64_t parity = survey.lost.size() - data;
    if (survey.bad_headers > 0) damage("parity data", "its header is damaged, or that of another file");
    if (survey.bad_entries > 0) damage("parity data", core::format_count(survey.bad_entries) + " hashes are damaged");
    if (parity > 0) damage("parity data", core::format_count(parity) + " parity blocks are damaged");
    if (data > 0 && result_.damage.empty()) {
      damage("parity data", "it does not fit the file, which is whole: it belongs to another state of it");
    } else if (!survey.lost.empty()) {
      std::uint64_t good = restorable(layout, survey.lost).size();
      result_.notes.push_back({"parity data",
                               "of " + core::format_count(survey.lost.size()) + " damaged blocks " +
                                   core::format_count(good) + " can be restored",
                               Hint{"run {}", {{Hint::Option::rescue}}}});
    }
  }

  const Input& input_;
  const OpenOptions& options_;
  const Progress progress_;
  std::shared_ptr<const OpenedNative> file_;
  PayloadOpener opener_;
  VerifyResult result_;
};

}  // namespace

VerifyResult verify_hashes(const Input& input, const OpenOptions& options) {
  return Verifier(input, options, Progress()).check();
}

VerifyResult verify_native(const Input& input, const OpenOptions& options, const Progress& progress) {
  return Verifier(input, options, progress).run();
}

}  // namespace ckpt::detail
