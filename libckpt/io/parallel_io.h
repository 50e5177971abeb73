#pragma once
// Work on many pieces by several threads with bounded memory: hash or compress in any order, write in order.
// Thread safety: call from one thread; bodies run on several. Use: parallel_for(n, threads, [&](std::size_t i) { ...
// }); ckpt::run_in_order<ByteVector>(n, {.threads = 4}, size_of, compress, store);

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace ckpt {

/// `asked` threads, or as many as the machine has cores for 0. Fewer do the work where the system gives no more, at
/// worst the calling thread alone.
unsigned thread_count(unsigned asked);

/// Calls body(i) for every i below `count`, body(0) on the calling thread. The first failure (by index) stops the
/// handing out of work and is rethrown.
void parallel_for(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& body);

struct InOrderOptions {
  unsigned threads = 0;
  std::uint64_t max_memory = 256ULL << 20;  ///< sum of the weights of pieces that are made and not yet consumed
};

namespace detail {
/// make(i) on workers, use(i) on the calling thread for i = 0, 1, ...; weight(i) bytes count from before make(i) until
/// use(i) has returned. A piece heavier than the bound runs alone.
void run_in_order(std::size_t count, const InOrderOptions& options,
                  const std::function<std::uint64_t(std::size_t)>& weight, const std::function<void(std::size_t)>& make,
                  const std::function<void(std::size_t)>& use);
}  // namespace detail

/// Results of make(i), computed by several threads, are handed to use(i, result) on the calling thread in order.
/// weight(i) says how many bytes piece i holds meanwhile. The first failure (by index) is rethrown.
template <class Result>
void run_in_order(std::size_t count, const InOrderOptions& options,
                  const std::function<std::uint64_t(std::size_t)>& weight,
                  const std::function<Result(std::size_t)>& make, const std::function<void(std::size_t, Result)>& use) {
  std::vector<std::optional<Result>> results(count);
  detail::run_in_order(
      count, options, weight, [&](std::size_t i) { results[i].emplace(make(i)); },
      [&](std::size_t i) {
        Result result = std::move(*results[i]);
        results[i].reset();
        use(i, std::move(result));
      });
}

}  // namespace ckpt
