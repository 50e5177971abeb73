#include "libckpt/analyze/matrix_stats.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>

#include "libckpt/analyze/numbers.h"
#include "libckpt/analyze/spectral.h"
#include "libckpt/blocks/unpacked.h"
#include "libckpt/io/parallel_io.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kLargest = 16;

/// A matrix that is to be examined.
struct Task {
  std::size_t at;  ///< in the list of entries
  EntryPtr values;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  bool exact = false;
  std::uint64_t numbers() const { return rows * columns; }
  std::uint64_t smaller() const { return std::min(rows, columns); }
  /// In bytes.
  double memory(const SpectralOptions& options) const {
    const auto side = static_cast<double>(columns);
    if (exact) return static_cast<double>(numbers()) * 2 * sizeof(double);
    return (side * static_cast<double>(options.sketch + 64) + 2e6) * sizeof(double);
  }
  /// Multiplications, about: what is cheap comes first.
  double work(const SpectralOptions& options) const {
    const auto all = static_cast<double>(numbers());
    return all * (exact ? 2 * static_cast<double>(smaller()) : 4 * static_cast<double>(options.sketch));
  }
};

/// Numbers of some rows of a tensor.
void read_rows(const Entry& entry, std::uint64_t columns, std::uint64_t first, std::uint64_t count, double* out) {
  const auto width = static_cast<std::uint64_t>(core::bit_width(entry.dtype)) / 8;
  core::ByteVector bytes(count * columns * width);
  entry.bytes->read(first * columns * width, bytes);
  if (entry.negative) detail::resolve_flags(entry, bytes);
  detail::to_numbers(entry.dtype, bytes, {out, count * columns});
}

double tolerance_of(const SpectralOptions& options, const Task& task) {
  if (options.tolerance) return *options.tolerance;
  const double eps = task.values->dtype == core::DType::f64 ? std::numeric_limits<double>::epsilon()
                                                            : std::numeric_limits<float>::epsilon();
  return static_cast<double>(std::max(task.rows, task.columns)) * eps;
}

double effective_rank(const std::vector<double>& values) {
  if (values.front() == 0) return 0;
  double sum = 0, entropy = 0;
  for (double value : values) sum += value / values.front();
  for (double value : values) {
    const double share = value / values.front() / sum;
    if (share > 0) entropy -= share * std::log(share);
  }
  return std::exp(entropy);
}

void summarise(const std::vector<double>& values, double tolerance, MatrixStats& out) {
  out.spectral = values.front();
  const double part = out.spectral > 0 ? out.frobenius / out.spectral : 0;
  out.stable_rank = part * part;
  out.rank = static_cast<std::uint64_t>(
      std::count_if(values.begin(), values.end(), [&](double v) { return v > tolerance * out.spectral; }));
  out.condition = values.back() > 0 ? out.spectral / values.back() : std::numeric_limits<double>::infinity();
  out.largest.assign(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(std::min(kLargest, values.size())));
}

class Examiner {
 public:
  Examiner(const std::vector<NamedEntry>& entries, const SpectralOptions& options)
      : entries_(entries),
        options_(options),
        results_(entries.size()),
        why_(entries.size()),
        same_as_(entries.size()) {}

  SpectralReport run() {
    for (std::size_t i = 0; i < entries_.size(); ++i) look_at(i);
    std::stable_sort(tasks_.begin(), tasks_.end(),
                     [&](const Task& a, const Task& b) { return a.work(options_) < b.work(options_); });
    for (const Task& task : tasks_) total_ += task.numbers();
    const InOrderOptions how{.threads = options_.threads, .max_memory = options_.max_memory};
    run_in_order<bool>(
        tasks_.size(), how, [&](std::size_t i) { return static_cast<std::uint64_t>(tasks_[i].memory(options_)); },
        [&](std::size_t i) { return examine(tasks_[i]); }, [](std::size_t, bool) {});
    return report();
  }

 private:
  bool is_over() const {
    return options_.time_limit > 0 &&
           std::chrono::duration<double>(Clock::now() - start_).count() > options_.time_limit;
  }

  void look_at(std::size_t i) {
    const EntryPtr values = detail::with_values(entries_[i].entry);
    same_as_[i] = i;
    const bool counts = values->shape.size() >= 2 && core::is_floating(values->dtype) && !values->blocks &&
                        detail::numbers_per_element(values->dtype) == 1;
    if (!counts) {
      ++others_;
      return;
    }
    Task task{i, values};
    task.rows = static_cast<std::uint64_t>(values->shape[0]);
    task.columns = task.rows == 0 ? 0 : values->numel() / task.rows;
    if (task.numbers() == 0) {
      why_[i] = "has no values";
    } else if (values->bytes == nullptr) {
      why_[i] = "the file does not hold its values";
    } else if (entries_[i].entry->view && values->byte_size() > entries_[i].entry->view->storage->bytes->size()) {
      why_[i] = "repeats its elements";
    } else if (const auto [first, fresh] = first_.try_emplace({values->bytes, task.rows}, i); !fresh) {
      same_as_[i] = first->second;
    } else {
      choose_way(task);
    }
  }

  void choose_way(Task task) {
    task.exact = task.smaller() <= options_.exact;
    if (task.exact && task.memory(options_) > static_cast<double>(options_.max_memory)) task.exact = false;
    if (task.memory(options_) > static_cast<double>(options_.max_memory)) {
      why_[task.at] = "needs " + core::format_size(static_cast<std::uint64_t>(task.memory(options_))) +
                      " of memory, and " + core::format_size(options_.max_memory) + " are allowed";
      return;
    }
    tasks_.push_back(std::move(task));
  }

  bool examine(const Task& task) {
    const std::string& name = entries_[task.at].name;
    if (is_over()) {
      why_[task.at] = kOver;
      return false;
    }
    core::with_context(core::quote(name), [&] {
      try {
        results_[task.at] = result_of(task);
        if (!results_[task.at]) why_[task.at] = kOver;
      } catch (const core::Error& error) {
        if (error.code() != core::ErrorCode::value) throw;
        why_[task.at] = error.message();
      }
      task.values->bytes->require_unchanged();
    });
    tick(task.numbers());
    return true;
  }

  std::optional<MatrixStats> result_of(const Task& task) {
    MatrixStats out{entries_[task.at].name, entries_[task.at].entry, task.rows, task.columns};
    const MatrixRows matrix = {task.rows, task.columns, [&](std::uint64_t first, std::uint64_t count, double* into) {
                                 read_rows(*task.values, task.columns, first, count, into);
                               }};
    if (task.exact) {
      const std::vector<double> values = singular_values(matrix);
      double squares = 0;
      for (double value : values) squares += value / values.front() * (value / values.front());
      out.frobenius = values.front() > 0 ? values.front() * std::sqrt(squares) : 0;
      out.effective_rank = effective_rank(values);
      summarise(values, tolerance_of(options_, task), out);
      return out;
    }
    const SketchedSvd sketch = randomized_svd(
        matrix, {.size = options_.sketch, .seed = options_.seed, .stopped = [this] { return is_over(); }});
    if (sketch.values.empty()) return std::nullopt;
    if (sketch.frobenius > 0) out.sketched = sketch.values.size();  // of zeros everything is known
    out.frobenius = sketch.frobenius;
    summarise(sketch.values, tolerance_of(options_, task), out);
    return out;
  }

  void tick(std::uint64_t numbers) {
    const std::lock_guard lock(mutex_);
    done_ += numbers;
    if (options_.progress) options_.progress(done_, total_);
  }

  SpectralReport report() {
    SpectralReport out;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const std::size_t first = same_as_[i];
      if (results_[first]) {
        out.matrices.push_back(*results_[first]);
        out.matrices.back().name = entries_[i].name;
        out.matrices.back().entry = entries_[i].entry;
      } else if (!why_[first].empty()) {
        out.left_out.push_back({entries_[i].name, why_[first]});
      }
    }
    out.others = others_;
    out.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    return out;
  }

  static constexpr const char* kOver = "the time was over";

  const std::vector<NamedEntry>& entries_;
  const SpectralOptions& options_;
  std::vector<Task> tasks_;
  std::vector<std::optional<MatrixStats>> results_;
  std::vector<std::string> why_;      ///< left out
  std::vector<std::size_t> same_as_;  ///< the first name of the same values
  /// Sources are kept, so that no other takes the address of one.
  std::map<std::pair<SourcePtr, std::uint64_t>, std::size_t> first_;
  std::uint64_t others_ = 0;
  std::uint64_t total_ = 0;
  std::uint64_t done_ = 0;
  std::mutex mutex_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace

SpectralReport spectral_stats(const std::vector<NamedEntry>& entries, const SpectralOptions& options) {
  return Examiner(entries, options).run();
}

}  // namespace ckpt
