#pragma once
// Options of DataLoader, and the parts of it that do not depend on the type of a batch.
// Thread safety: plain values; worker_info() is per thread. Use: core::DataLoader loader(data, {.batch_size = 30});

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "libcore/data/sampler.h"

namespace core {

struct DataLoaderOptions {
  std::int64_t batch_size = 1;
  bool shuffle = false;
  std::shared_ptr<Sampler> sampler = {};             ///< in place of `shuffle`
  std::shared_ptr<BatchSampler> batch_sampler = {};  ///< in place of batch_size, shuffle, sampler and drop_last
  int num_workers = 0;                               ///< threads that make batches ahead; 0: the caller makes them
  bool drop_last = false;                            ///< leave out a last batch that is not full
  double timeout = 0;                                ///< seconds to wait for a worker's batch; 0: no limit
  std::function<void(int worker)> worker_init_fn = {};
  std::optional<Generator> generator = {};  ///< for orders and seeds; none: the default one
  std::optional<int> prefetch_factor = {};  ///< batches ahead per worker; 2
  bool persistent_workers = false;          ///< threads stay for the next epoch, with their generators as they are
  bool pin_memory = false;                  ///< batches go through pinned() (pin_memory.h)
};

/// In a worker thread: who it is. Its default generator is seeded with `seed` = the epoch's seed + id.
struct WorkerInfo {
  int id = 0;
  int num_workers = 0;
  std::int64_t seed = 0;
};
/// None outside of worker threads.
std::optional<WorkerInfo> worker_info();

namespace detail {

/// What a loader reads, where its options depend on that.
struct LoaderKind {
  bool is_stream = false;  ///< an iterable dataset
  bool in_batches = true;  ///< not sample by sample
};
/// Errors: Error(value) with PyTorch's texts for options that contradict each other. Warns where pinned memory is asked
/// for and no GPU is there.
void check_loader_options(const DataLoaderOptions& options, const LoaderKind& kind);
/// The sampler that the options ask for. REQUIRES: checked options.
std::shared_ptr<BatchSampler> make_batch_sampler(const DataLoaderOptions& options, std::int64_t dataset_size);
/// Batches of `batch_size` places without end: how much to take from a stream at a time.
BatchStream endless_batches(std::int64_t batch_size);

/// Makes a thread a worker: its info and its default generator.
class WorkerScope {
 public:
  explicit WorkerScope(const WorkerInfo& info);
  ~WorkerScope();
  WorkerScope(const WorkerScope&) = delete;
  WorkerScope& operator=(const WorkerScope&) = delete;

 private:
  DefaultGeneratorScope generator_;
};

/// Error(runtime) "DataLoader timed out after 5 seconds".
[[noreturn]] void throw_timed_out(double seconds);
/// Rethrows the exception in flight as "Caught ValueError in DataLoader worker process 0." and its text.
[[noreturn]] void rethrow_from_worker(int worker);

}  // namespace detail
}  // namespace core
