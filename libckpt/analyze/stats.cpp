#include "libckpt/analyze/stats.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <mutex>
#include <set>
#include <tuple>

#include "libckpt/analyze/numbers.h"
#include "libckpt/analyze/stats_loops.h"
#include "libckpt/blocks/unpacked.h"
#include "libckpt/io/parallel_io.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using detail::FineCounts;
using detail::Moments;

constexpr std::uint64_t kPiece = 4ULL << 20;   // bytes read at once; a multiple of every element size
constexpr std::size_t kBlock = 4096;           // numbers
constexpr std::uint64_t kBatch = 16 * kPiece;  // of small tensors that threads share

bool counts_in_total(core::DType dtype) {
  return core::is_floating(dtype) || core::is_complex(dtype);
}

bool are_numbers(const Entry& entry) {
  return entry.bytes != nullptr && !entry.blocks && detail::numbers_per_element(entry.dtype) > 0;
}

/// A tensor whose elements repeat (expand() in PyTorch) with each element once, and how often each counts.
struct Distinct {
  EntryPtr entry;
  std::uint64_t times = 1;
};

Distinct distinct_elements(const EntryPtr& entry) {
  if (entry->blocks) return {detail::with_values(entry)};
  bool views = entry->bytes != nullptr && entry->view && entry->view->storage && entry->numel() > 0;
  if (!views) return {entry};
  Distinct out{entry};
  core::Shape shape = entry->shape;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (entry->view->strides[d] != 0 || shape[d] == 1) continue;
    out.times *= static_cast<std::uint64_t>(shape[d]);
    shape.data()[d] = 1;
  }
  if (out.times == 1) return out;
  auto once = std::make_shared<Entry>(*entry);
  once->shape = shape;
  once->bytes = gather(*once->view, once->dtype, once->shape);
  // Windows that overlap otherwise are left to whoever refuses to unfold them.
  if (once->byte_size() > entry->view->storage->bytes->size()) return {entry};
  out.entry = std::move(once);
  return out;
}

/// As if each number had been there `times` times.
Moments repeated(Moments moments, std::uint64_t times) {
  for (std::uint64_t* count :
       {&moments.values, &moments.nan, &moments.inf, &moments.zeros, &moments.negative, &moments.denormals}) {
    *count *= times;
  }
  moments.squares *= static_cast<double>(times);
  return moments;
}

/// Calls `body` with blocks of at most kBlock numbers; magnitudes for complex types.
template <class Body>
void for_each_block(const Entry& entry, MutableBytes bytes, Body body) {
  if (entry.conjugate || entry.negative) detail::resolve_flags(entry, bytes);
  std::size_t width = static_cast<std::size_t>(core::bit_width(entry.dtype)) / 8;
  std::size_t per_element = detail::numbers_per_element(entry.dtype);
  std::size_t step = kBlock / per_element * width;
  double numbers[kBlock];
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    Bytes part = bytes.subspan(at, std::min(step, bytes.size() - at));
    std::span<double> block(numbers, part.size() / width * per_element);
    detail::to_numbers(entry.dtype, part, block);
    body(core::is_complex(entry.dtype) ? detail::magnitudes(block) : block);
  }
}

/// Tables for threads that work on one tensor; as many as are in use at once.
class TablePool {
 public:
  std::unique_ptr<FineCounts> take() {
    std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<FineCounts>();
    std::unique_ptr<FineCounts> out = std::move(free_.back());
    free_.pop_back();
    return out;
  }
  void give(std::unique_ptr<FineCounts> table) {
    std::lock_guard lock(mutex_);
    free_.push_back(std::move(table));
  }
  /// Adds all tables up and empties them.
  void drain(FineCounts& into) {
    for (const auto& table : free_) {
      into.add(*table);
      table->clear();
    }
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<FineCounts>> free_;
};

void set_moments(TensorStats& stats, const Moments& moments) {
  auto finite = static_cast<double>(moments.finite());
  stats.values = moments.values;
  stats.nan = moments.nan;
  stats.inf = moments.inf;
  stats.zeros = moments.zeros;
  stats.negative = moments.negative;
  stats.denormals = moments.denormals;
  stats.min = moments.min;
  stats.max = moments.max;
  stats.mean = moments.mean;
  if (finite == 0) return;
  stats.deviation = std::sqrt(moments.squares / finite);
  stats.norm = std::sqrt(moments.squares + moments.mean * moments.mean * finite);
}

class Counter {
 public:
  Counter(const std::vector<NamedEntry>& entries, const StatsOptions& options) : options_(options) {
    for (const NamedEntry& named : entries) {
      result_.tensors.push_back({named.name, named.entry, {}});
      moments_.emplace_back();
      first_.push_back(is_first(*named.entry));
      distinct_.push_back(distinct_elements(named.entry));
      bytes_in_all_ += distinct_.back().entry->byte_size();
    }
  }

  ModelStats run() {
    std::size_t count = result_.tensors.size();
    for (std::size_t i = 0; i < count;) {
      std::size_t end = i;
      std::uint64_t batch = 0;
      while (end < count && size_of(end) <= kPiece && batch <= kBatch) batch += size_of(end++);
      if (end == i) {
        in_context(i, [&] { count_large(i); });
        ++i;
        continue;
      }
      parallel_for(end - i, options_.threads, [&](std::size_t k) { in_context(i + k, [&] { count_small(i + k); }); });
      i = end;
      tick();
    }
    finish_total();
    return std::move(result_);
  }

 private:
  std::uint64_t size_of(std::size_t i) const { return distinct_[i].entry->byte_size(); }

  template <class Body>
  void in_context(std::size_t i, Body body) {
    core::with_context(core::quote(result_.tensors[i].name), body);
  }

  bool is_first(const Entry& entry) {
    return entry.bytes == nullptr || seen_.insert({entry.bytes.get(), entry.dtype, core::to_list(entry.shape)}).second;
  }

  bool counts(std::size_t i) const { return first_[i] && counts_in_total(distinct_[i].entry->dtype); }

  /// A tensor that is read at once: its bins are exact.
  void count_small(std::size_t i) {
    const auto& [distinct, times] = distinct_[i];
    const Entry& entry = *distinct;
    TensorStats& stats = result_.tensors[i].stats;
    stats.numbers = are_numbers(entry);
    if (!stats.numbers) return;
    core::ByteVector bytes = read_all(*entry.bytes);
    core::ByteVector again = options_.bins > 0 && (entry.conjugate || entry.negative) ? bytes : core::ByteVector();
    std::unique_ptr<FineCounts> table = counts(i) && options_.bins > 0 ? totals_.take() : nullptr;
    double smallest = detail::smallest_normal(entry.dtype);
    Moments moments;
    for_each_block(entry, bytes, [&](std::span<const double> block) {
      moments.merge(detail::moments_of(block, smallest));
      if (table) table->add(block, times);
    });
    if (table) totals_.give(std::move(table));
    moments = repeated(moments, times);
    set_moments(stats, moments);
    if (options_.bins > 0 && moments.finite() > 0) {
      stats.histogram = {moments.min, moments.max, std::vector<std::uint64_t>(options_.bins)};
      for_each_block(entry, again.empty() ? bytes : again, [&](std::span<const double> block) {
        detail::add_to_bins(block, moments.min, moments.max, stats.histogram.counts);
      });
      for (std::uint64_t& count : stats.histogram.counts) count *= times;
    }
    moments_[i] = moments;
    done_ += bytes.size();
  }

  void count_large(std::size_t i) {
    const auto& [distinct, times] = distinct_[i];
    const Entry& entry = *distinct;
    TensorStats& stats = result_.tensors[i].stats;
    stats.numbers = are_numbers(entry);
    if (!stats.numbers) {
      done_ += entry.byte_size();
      return;
    }
    std::uint64_t size = entry.byte_size();
    std::vector<Moments> parts((size + kPiece - 1) / kPiece);
    parallel_for(parts.size(), options_.threads, [&](std::size_t p) {
      std::uint64_t begin = p * kPiece;
      parts[p] = count_piece(distinct_[i], begin, std::min(kPiece, size - begin));
    });
    entry.bytes->require_unchanged();
    Moments all;
    for (const Moments& part : parts) all.merge(part);
    all = repeated(all, times);
    set_moments(stats, all);
    moments_[i] = all;
    if (options_.bins == 0) return;
    fine_.clear();
    tables_.drain(fine_);
    if (all.finite() > 0) stats.histogram = {all.min, all.max, fine_.rebin(all.min, all.max, options_.bins)};
    if (counts(i)) total_fine_.add(fine_);
  }

  Moments count_piece(const Distinct& distinct, std::uint64_t begin, std::uint64_t length) {
    const Entry& entry = *distinct.entry;
    core::ByteVector bytes(length);
    entry.bytes->read(begin, bytes);
    std::unique_ptr<FineCounts> table = options_.bins > 0 ? tables_.take() : nullptr;
    double smallest = detail::smallest_normal(entry.dtype);
    Moments moments;
    for_each_block(entry, bytes, [&](std::span<const double> block) {
      moments.merge(detail::moments_of(block, smallest));
      if (table) table->add(block, distinct.times);
    });
    if (table) tables_.give(std::move(table));
    done_ += length;
    tick();
    return moments;
  }

  void finish_total() {
    Moments all;
    for (std::size_t i = 0; i < moments_.size(); ++i) {
      if (counts(i)) all.merge(moments_[i]);
    }
    set_moments(result_.total, all);
    totals_.drain(total_fine_);
    if (options_.bins > 0 && all.finite() > 0) {
      result_.total.histogram = {all.min, all.max, total_fine_.rebin(all.min, all.max, options_.bins)};
    }
    result_.bytes = done_;
  }

  void tick() {
    if (!options_.progress) return;
    std::lock_guard lock(progress_mutex_);
    options_.progress(done_, bytes_in_all_);
  }

  const StatsOptions& options_;
  ModelStats result_;
  std::vector<Distinct> distinct_;
  std::vector<Moments> moments_;
  std::vector<bool> first_;  ///< not another name of values that were counted
  std::set<std::tuple<const ByteSource*, core::DType, std::string>> seen_;
  TablePool tables_;  ///< of the large tensor that is being read
  TablePool totals_;  ///< of all small ones
  FineCounts fine_;
  FineCounts total_fine_;
  std::atomic<std::uint64_t> done_ = 0;
  std::uint64_t bytes_in_all_ = 0;
  std::mutex progress_mutex_;
};

}  // namespace

ModelStats stats(const std::vector<NamedEntry>& entries, const StatsOptions& options) {
  return Counter(entries, options).run();
}

}  // namespace ckpt
