#include "libcore/data/loader_options.h"

#include <exception>
#include <string>

#include "libcore/backend/device_registry.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/base/warning.h"

namespace core {
namespace {

thread_local std::optional<WorkerInfo> current_worker;

void require(bool ok, const char* message) {
  if (!ok) throw Error(ErrorCode::value, message);
}

Generator seeded(std::int64_t seed) {
  Generator generator;
  return generator.manual_seed(seed);
}

}  // namespace

std::optional<WorkerInfo> worker_info() {
  return current_worker;
}

namespace detail {

namespace {

void check_iterable(const DataLoaderOptions& options) {
  const std::string start = "DataLoader with IterableDataset: expected unspecified ";
  if (options.shuffle) throw Error(ErrorCode::value, start + "shuffle option, but got shuffle=True");
  if (options.sampler) throw Error(ErrorCode::value, start + "sampler option, but got a sampler");
  if (options.batch_sampler) throw Error(ErrorCode::value, start + "batch_sampler option, but got a batch sampler");
}

}  // namespace

void check_loader_options(const DataLoaderOptions& options, const LoaderKind& kind) {
  require(options.num_workers >= 0,
          "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.");
  require(options.timeout >= 0, "timeout option should be non-negative");
  require(options.num_workers > 0 || !options.prefetch_factor,
          "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to enable "
          "multiprocessing, otherwise set prefetch_factor to None.");
  require(options.prefetch_factor.value_or(1) > 0, "prefetch_factor option should be non-negative");
  require(options.num_workers > 0 || !options.persistent_workers, "persistent_workers option needs num_workers > 0");
  if (kind.is_stream) check_iterable(options);
  require(!options.sampler || !options.shuffle, "sampler option is mutually exclusive with shuffle");
  bool shapes_batches = options.batch_size != 1 || options.shuffle || options.sampler || options.drop_last;
  require(!options.batch_sampler || !shapes_batches,
          "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last");
  require(kind.in_batches || !options.drop_last,
          "batch_size=None option disables auto-batching and is mutually exclusive with drop_last");
  if (options.pin_memory && !cuda::is_available()) {
    warn("'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be used.");
  }
}

std::shared_ptr<BatchSampler> make_batch_sampler(const DataLoaderOptions& options, std::int64_t dataset_size) {
  if (options.batch_sampler) return options.batch_sampler;
  std::shared_ptr<Sampler> sampler = options.sampler;
  if (!sampler && options.shuffle) {
    sampler = std::make_shared<RandomSampler>(dataset_size, RandomSamplerOptions{.generator = options.generator});
  }
  if (!sampler) sampler = std::make_shared<SequentialSampler>(dataset_size);
  return std::make_shared<FixedBatchSampler>(
      std::move(sampler), FixedBatchSampler::Options{.batch_size = options.batch_size, .drop_last = options.drop_last});
}

BatchStream endless_batches(std::int64_t batch_size) {
  if (batch_size <= 0) {
    throw Error(ErrorCode::value,
                "batch_size should be a positive integer value, but got batch_size=" + std::to_string(batch_size));
  }
  return [places = std::vector<std::int64_t>(static_cast<std::size_t>(batch_size))] { return std::optional(places); };
}

WorkerScope::WorkerScope(const WorkerInfo& info) : generator_(seeded(info.seed)) {
  current_worker = info;
}
WorkerScope::~WorkerScope() {
  current_worker.reset();
}

void throw_timed_out(double seconds) {
  std::string text = python_float(seconds);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  throw Error(ErrorCode::runtime, "DataLoader timed out after " + text + " seconds");
}

void rethrow_from_worker(int worker) {
  std::string where = " in DataLoader worker process " + std::to_string(worker) + ".\nOriginal exception: ";
  try {
    throw;
  } catch (const Error& error) {
    throw Error(error.code(), "Caught " + std::string(python_name(error.code())) + where + error.what());
  } catch (const std::exception& error) {
    throw Error(ErrorCode::runtime, "Caught RuntimeError" + where + error.what());
  }
}

}  // namespace detail
}  // namespace core
