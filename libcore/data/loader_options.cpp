#include "libcore/data/loader_options.h"

#include <exception>
#include <string>

#include "libcore/base/error.h"

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

void check_loader_options(const DataLoaderOptions& options) {
  require(options.num_workers >= 0,
          "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.");
  require(options.timeout >= 0, "timeout option should be non-negative");
  require(options.num_workers > 0 || !options.prefetch_factor,
          "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to enable "
          "multiprocessing, otherwise set prefetch_factor to None.");
  require(options.prefetch_factor.value_or(1) > 0, "prefetch_factor option should be non-negative");
  require(!options.sampler || !options.shuffle, "sampler option is mutually exclusive with shuffle");
  bool shapes_batches = options.batch_size != 1 || options.shuffle || options.sampler || options.drop_last;
  require(!options.batch_sampler || !shapes_batches,
          "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last");
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

WorkerScope::WorkerScope(const WorkerInfo& info) : generator_(seeded(info.seed)) {
  current_worker = info;
}
WorkerScope::~WorkerScope() {
  current_worker.reset();
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
