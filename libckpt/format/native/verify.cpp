// Verifying: every byte of the file is a checked index, a stamped range, a hashed payload, or padding of zeros.

#include <algorithm>
#include <unordered_map>

#include "libckpt/format/hdf5_write/payload_source.h"
#include "libckpt/format/native/native.h"
#include "libckpt/format/native/opened_file.h"
#include "libckpt/format/native/value_codec.h"
#include "libckpt/format/native/verify_tree.h"
#include "libckpt/io/parallel_io.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

struct Part {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// Name of the first tensor that each payload holds, for messages.
class PayloadNames {
 public:
  PayloadNames(const OpenedNative& file, const Limits& limits) {
    std::unordered_map<const Entry*, std::uint32_t> payload_of;
    EntryCompleter note = [&](const EntryRecord& record, Entry& entry) {
      if (record.window) payload_of.emplace(&entry, record.window->payload);
    };
    Value root = decode_tree(file.index.tree, note, limits);
    for (const NamedEntry& named : list_entries(root)) {
      auto at = payload_of.find(named.entry.get());
      if (at != payload_of.end()) names_.emplace(at->second, named.name);
    }
  }
  std::string name(std::uint32_t payload) const {
    auto at = names_.find(payload);
    return at == names_.end() ? "payload " + std::to_string(payload) : at->second;
  }

 private:
  std::unordered_map<std::uint32_t, std::string> names_;
};

bool is_zero(const ByteSource& source) {
  bool zero = true;
  for_each_part(source, [&](Bytes part) {
    zero = zero && std::all_of(part.begin(), part.end(), [](std::byte b) { return b == std::byte{0}; });
  });
  return zero;
}

/// What lies between the parts that the index knows.
std::vector<Part> gaps(const OpenedNative& file) {
  std::vector<Part> parts;
  for (const Payload& payload : file.index.payloads) parts.push_back({payload.offset, payload.offset + payload.stored});
  for (const StampedRange& range : file.index.ranges) parts.push_back({range.offset, range.offset + range.length});
  parts.push_back({file.header.body_size, file.header.body_size});
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.begin < b.begin; });
  std::vector<Part> between;
  std::uint64_t end = 0;
  for (const Part& part : parts) {
    if (part.begin > end) between.push_back({end, part.begin});
    end = std::max(end, part.end);
  }
  return between;
}

class Verifier {
 public:
  Verifier(const Input& input, const OpenOptions& options, const Progress& progress)
      : input_(input), options_(options), progress_(progress), file_(open_native(input, options.limits)) {}

  VerifyResult run() {
    result_.method = "128-bit content hashes";
    check_stamps();
    check_padding();
    check_payloads();
    check_wrappers();
    // What was changed behind the index is a finding already, and nothing more is known of it.
    if (result_.damage.empty()) compare_views(*file_, input_, options_, result_);
    return std::move(result_);
  }

 private:
  void damage(std::string subject, std::string text) {
    result_.damage.push_back({std::move(subject), std::move(text)});
  }

  void check_stamps() {
    for (const StampedRange& range : file_->index.ranges) {
      result_.bytes_checked += range.length;
      if (hash128(*slice(file_->body, range.offset, range.length)) == range.hash) continue;
      damage("HDF5 part", describe(range) + " were damaged or changed by another program after the file was written");
    }
  }

  void check_padding() {
    std::uint64_t used = kHeaderBytes + file_->header.index_size;
    result_.bytes_checked += file_->header.user_block;
    if (!is_zero(*slice(input_.file, used, file_->header.user_block - used))) {
      damage("user block", "the unused bytes behind the index are not zero");
    }
    for (const Part& gap : gaps(*file_)) {
      result_.bytes_checked += gap.end - gap.begin;
      if (is_zero(*slice(file_->body, gap.begin, gap.end - gap.begin))) continue;
      damage("padding", "bytes " + std::to_string(gap.begin) + " to " + std::to_string(gap.end) +
                            " behind the user block belong to nothing and are not zero");
    }
  }

  /// Empty when the payload holds what was written.
  std::string fault_of(const Payload& payload) const {
    try {
      SourcePtr source = open_payload(file_->body, &payload, file_, make_chunk_cache());
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
    const std::vector<Payload>& payloads = file_->index.payloads;
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
    if (list_wrappers(decode_tree(file_->index.tree, nothing, options_.limits)) == file_->index.wrappers) return;
    damage("index", "its record of wrappers is not what the keys say");
  }

  const Input& input_;
  const OpenOptions& options_;
  const Progress& progress_;
  std::shared_ptr<const OpenedNative> file_;
  VerifyResult result_;
};

}  // namespace

VerifyResult verify_native(const Input& input, const OpenOptions& options, const Progress& progress) {
  return Verifier(input, options, progress).run();
}

}  // namespace ckpt::detail
