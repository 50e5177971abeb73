#include "libcore/backend/caching_model.h"

#include <algorithm>
#include <iterator>

namespace core {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kMinBlock = 512;
constexpr std::uint64_t kSmallLimit = kMiB;
constexpr std::uint64_t kSmallSegment = 2 * kMiB;
constexpr std::uint64_t kMediumLimit = 10 * kMiB;
constexpr std::uint64_t kMediumSegment = 20 * kMiB;

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t step) {
  return (bytes + step - 1) / step * step;
}

std::uint64_t block_size(std::uint64_t bytes) {
  return std::max(round_up(bytes, kMinBlock), kMinBlock);
}

std::int64_t as_signed(std::uint64_t bytes) {
  return static_cast<std::int64_t>(bytes);
}

template <class F>
void each_stat(MemoryStats& stats, F f) {
  for (MemoryStatOfPools* quantity :
       {&stats.allocation, &stats.segment, &stats.active, &stats.inactive_split, &stats.allocated_bytes,
        &stats.reserved_bytes, &stats.active_bytes, &stats.inactive_split_bytes, &stats.requested_bytes}) {
    for (MemoryStat* stat : {&quantity->all, &quantity->large_pool, &quantity->small_pool}) f(*stat);
  }
}

}  // namespace

CachingModel::~CachingModel() {
  auto drop = [](const Pools& pools) {
    for (const auto* blocks : {&pools.small, &pools.large}) {
      for (Block* block : *blocks) delete block;
    }
  };
  drop(shared_);
  for (const auto& [id, pools] : private_) drop(pools);
}

std::uint64_t CachingModel::segment_size(std::uint64_t bytes) {
  std::uint64_t size = block_size(bytes);
  if (size <= kSmallLimit) return kSmallSegment;
  return size < kMediumLimit ? kMediumSegment : round_up(size, kSmallSegment);
}

CachingModel::Block* CachingModel::allocate(std::uint64_t bytes, std::uint64_t limit) {
  Block* block = try_allocate(bytes, limit, {});
  if (block != nullptr) return block;
  release_cached();
  count_retry();
  return try_allocate(bytes, limit, {});
}

CachingModel::Block* CachingModel::try_allocate(std::uint64_t bytes, std::uint64_t limit, Use use) {
  std::uint64_t size = block_size(bytes);
  MemoryPool pool = size <= kSmallLimit ? MemoryPool::small : MemoryPool::large;
  Block* block = take_cached(size, pool, use);
  if (block == nullptr) block = take_segment(size, pool, limit, use);
  if (block == nullptr) return nullptr;
  block = split(block, size);
  block->in_use = true;
  block->requested = bytes;
  stats_.allocation.add(pool, 1);
  stats_.active.add(pool, 1);
  stats_.allocated_bytes.add(pool, as_signed(block->size));
  stats_.active_bytes.add(pool, as_signed(block->size));
  stats_.requested_bytes.add(pool, as_signed(bytes));
  return block;
}

/// The smallest cached block that is large enough, out of the cache.
CachingModel::Block* CachingModel::take_cached(std::uint64_t size, MemoryPool pool, Use use) {
  Block wanted{.address = 0, .size = size, .stream = use.stream};
  FreeBlocks& cached = free_of(pool, use.private_pool);
  auto found = cached.lower_bound(&wanted);
  if (found == cached.end() || (*found)->stream != use.stream) return nullptr;
  Block* block = *found;
  cached.erase(found);
  return block;
}

CachingModel::Block* CachingModel::take_segment(std::uint64_t size, MemoryPool pool, std::uint64_t limit, Use use) {
  std::uint64_t bytes = segment_size(size);
  if (reserved() + bytes > limit) return nullptr;
  std::uint64_t address = next_address_;
  if (source_ != nullptr) {
    address = source_->take(bytes);
    if (address == 0) return nullptr;
  }
  auto* block = new Block{
      .address = address, .size = bytes, .pool = pool, .stream = use.stream, .private_pool = use.private_pool};
  next_address_ += bytes;
  ++stats_.num_device_alloc;
  stats_.segment.add(pool, 1);
  stats_.reserved_bytes.add(pool, as_signed(bytes));
  return block;
}

/// The first `size` bytes of `block`; what is left goes to the cache where it is worth it.
CachingModel::Block* CachingModel::split(Block* block, std::uint64_t size) {
  std::uint64_t left = block->size - size;
  bool was_split = block->is_split();
  bool splits = block->pool == MemoryPool::small ? left >= kMinBlock : left > kSmallLimit;
  if (!splits) {
    if (was_split) {
      stats_.inactive_split.add(block->pool, -1);
      stats_.inactive_split_bytes.add(block->pool, -as_signed(block->size));
    }
    return block;
  }
  auto* first = new Block{.address = block->address,
                          .size = size,
                          .pool = block->pool,
                          .stream = block->stream,
                          .private_pool = block->private_pool};
  first->previous = block->previous;
  if (first->previous != nullptr) first->previous->next = first;
  first->next = block;
  block->previous = first;
  block->address += size;
  block->size = left;
  free_of(block).insert(block);
  if (was_split) {
    stats_.inactive_split_bytes.add(block->pool, -as_signed(size));
  } else {
    stats_.inactive_split.add(block->pool, 1);
    stats_.inactive_split_bytes.add(block->pool, as_signed(left));
  }
  return first;
}

/// Joins a free neighbour to `block`; the bytes gained.
std::int64_t CachingModel::absorb(Block* block, Block* neighbour) {
  if (neighbour == nullptr || neighbour->in_use) return 0;
  free_of(block).erase(neighbour);
  if (block->previous == neighbour) {
    block->address = neighbour->address;
    block->previous = neighbour->previous;
    if (block->previous != nullptr) block->previous->next = block;
  } else {
    block->next = neighbour->next;
    if (block->next != nullptr) block->next->previous = block;
  }
  block->size += neighbour->size;
  std::int64_t gained = as_signed(neighbour->size);
  delete neighbour;
  return gained;
}

void CachingModel::retire(Block* block) {
  stats_.allocation.add(block->pool, -1);
  stats_.allocated_bytes.add(block->pool, -as_signed(block->size));
}

void CachingModel::give_back(Block* block) {
  MemoryPool pool = block->pool;
  stats_.active.add(pool, -1);
  stats_.active_bytes.add(pool, -as_signed(block->size));
  stats_.requested_bytes.add(pool, -as_signed(block->requested));
  block->in_use = false;
  std::int64_t blocks = 0, bytes = 0;
  for (Block* neighbour : {block->previous, block->next}) {
    std::int64_t gained = absorb(block, neighbour);
    if (gained > 0) --blocks;
    bytes -= gained;
  }
  free_of(block).insert(block);
  if (block->is_split()) {
    ++blocks;
    bytes += as_signed(block->size);
  }
  stats_.inactive_split.add(pool, blocks);
  stats_.inactive_split_bytes.add(pool, bytes);
}

void CachingModel::release_cached() {
  release_unsplit(shared_);
  release_dead_pools();
}

void CachingModel::release_dead_pools() {
  for (auto it = private_.begin(); it != private_.end();) {
    auto& [id, pools] = *it;
    if (!kept_.contains(id)) release_unsplit(pools);
    const bool is_empty = pools.small.empty() && pools.large.empty();
    it = is_empty ? private_.erase(it) : std::next(it);  // made again for blocks that are freed later
  }
}

void CachingModel::release_unsplit(Pools& pools) {
  release_unsplit(pools.small);
  release_unsplit(pools.large);
}

void CachingModel::release_unsplit(FreeBlocks& blocks) {
  for (auto it = blocks.begin(); it != blocks.end();) {
    Block* block = *it;
    if (block->is_split()) {
      ++it;
      continue;
    }
    ++stats_.num_device_free;
    stats_.segment.add(block->pool, -1);
    stats_.reserved_bytes.add(block->pool, -as_signed(block->size));
    if (source_ != nullptr) source_->give(block->address, block->size);
    it = blocks.erase(it);
    delete block;
  }
}

void CachingModel::reset_peaks() {
  each_stat(stats_, [](MemoryStat& stat) { stat.peak = stat.current; });
}

void CachingModel::reset_accumulated() {
  each_stat(stats_, [](MemoryStat& stat) { stat.allocated = stat.freed = 0; });
  stats_.num_alloc_retries = stats_.num_ooms = 0;
}

}  // namespace core
