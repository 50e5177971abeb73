#pragma once
// Running the body of a kernel over elements or over rows. The kernel files (*.cu) use nothing else to get work onto
// the GPU, so that the same files compile twice: by nvcc for the GPU, and by the C++ compiler for the tests, where the
// bodies run in plain loops on host memory and are compared with the CPU's kernels on machines that have no GPU. Thread
// safety: work goes to the current stream of the calling thread. Use: for_each(n, [=] CORE_BODY(std::int64_t i) {
// out[i] = a[i] + b[i]; });

#include <atomic>
#include <cstddef>
#include <cstdint>
#ifndef __CUDACC__
#include <functional>
#endif

#ifdef __CUDACC__
#define CORE_BODY __device__
#define CORE_HD __host__ __device__
#define CORE_KERNELS cuda_kernels
#else
#define CORE_BODY
#define CORE_HD
#define CORE_KERNELS emulated_kernels
#endif

namespace core::CORE_KERNELS {

/// Memory of the current device for as long as a kernel needs it, in the order of the stream: it may be destroyed as
/// soon as the work that uses it was started. Bytes are not set. Error: OutOfMemoryError.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// What is wrong with indices that only the device has seen. A kernel raises it; the next synchronisation throws
/// "CUDA error: device-side assert triggered", and the device stays unusable, as with PyTorch.
struct DeviceFlag {
  int* raised;
  CORE_HD void raise() const {
#ifdef __CUDACC__
    *raised = 1;
#else
    std::atomic_ref<int>(*raised).store(1);
#endif
  }
};
DeviceFlag device_assert_flag();

/// Bytes that the lanes of a team can share at most on the current device: 227 KiB on an H100, 163 on an A100, 99 on
/// smaller ones; what for_each_row() needs for itself is left out.
std::int64_t most_shared_bytes();

#ifdef __CUDACC__

/// The stream that work of this thread goes to: the current one of the current device.
cudaStream_t current_stream();
/// Throws what starting a kernel went wrong with, in PyTorch's words.
void check_launch();

inline constexpr int kThreads = 256;
inline constexpr std::int64_t kMaxBlocks = 132 * 32;

/// The threads of a block that work on one row together. All of them call each member, in the same order.
class Team {
 public:
  __device__ Team(void* shared) : shared_(shared) {}
  __device__ int lane() const { return static_cast<int>(threadIdx.x); }
  __device__ int size() const { return static_cast<int>(blockDim.x); }
  __device__ void sync() const { __syncthreads(); }
  /// The bytes that for_each_row() was asked for.
  template <class T>
  __device__ T* shared() const {
    return static_cast<T*>(shared_);
  }
  /// Every lane's value combined by an associative, commutative operation; every lane gets it. The order is fixed.
  template <class T, class Op>
  __device__ T reduce(T value, Op op) const {
    constexpr int kWarp = 32;
    __shared__ __align__(16) unsigned char slots[kWarp * sizeof(T)];
    T* partial = reinterpret_cast<T*>(slots);
    for (int step = kWarp / 2; step > 0; step /= 2) value = op(value, shuffle_down(value, step));
    const int warps = (size() + kWarp - 1) / kWarp;
    if (lane() % kWarp == 0) partial[lane() / kWarp] = value;
    __syncthreads();
    T all = partial[0];
    for (int i = 1; i < warps; ++i) all = op(all, partial[i]);
    __syncthreads();
    return all;
  }

 private:
  /// Of any type of a multiple of 4 bytes.
  template <class T>
  __device__ static T shuffle_down(const T& value, int step) {
    static_assert(sizeof(T) % 4 == 0, "pad the type to whole words");
    T out;
    const auto* from = reinterpret_cast<const unsigned*>(&value);
    auto* to = reinterpret_cast<unsigned*>(&out);
    for (std::size_t i = 0; i < sizeof(T) / 4; ++i) to[i] = __shfl_down_sync(0xffffffffU, from[i], step);
    return out;
  }
  void* shared_;
};

namespace detail {

template <class Body>
__global__ void run_elements(std::int64_t count, Body body) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) body(i);
}

template <class Body>
__global__ void run_rows(std::int64_t rows, Body body) {
  extern __shared__ __align__(128) unsigned char shared[];
  const Team team(shared);
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    body(team, row);
    __syncthreads();
  }
}

inline constexpr std::size_t kSharedUnasked = 40 << 10;  // bytes a block surely gets without asking

inline constexpr int kMostDevices = 64;  // that are told apart

inline int grid_for(std::int64_t blocks) {
  return static_cast<int>(blocks < kMaxBlocks ? blocks : kMaxBlocks);
}

/// Lets teams of this kernel share all there is, on the current device, once: another thread may be starting it with
/// more.
template <class Body>
void allow_all_shared() {
  static std::atomic<std::uint64_t> allowed{0};
  int device = 0;
  cudaGetDevice(&device);
  const std::uint64_t bit = std::uint64_t{1} << (device % kMostDevices);
  if (device < kMostDevices && (allowed.load(std::memory_order_acquire) & bit) != 0) return;
  cudaFuncSetAttribute(run_rows<Body>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       static_cast<int>(most_shared_bytes()));
  allowed.fetch_or(bit, std::memory_order_release);
}

}  // namespace detail

/// body(i) for every i in [0, count), in no order.
template <class Body>
void for_each(std::int64_t count, const Body& body) {
  if (count == 0) return;
  detail::run_elements<<<detail::grid_for((count + kThreads - 1) / kThreads), kThreads, 0, current_stream()>>>(count,
                                                                                                               body);
  check_launch();
}

/// The lanes of the teams that for_each_row() makes for rows of `length` elements: 32 to 512, a power of two.
inline int team_size(std::int64_t length) {
  int lanes = 32;
  while (lanes < 512 && lanes < length) lanes *= 2;
  return lanes;
}

/// body(team, row) for every row in [0, rows): a team of lanes works on each. `length`, the elements of a row, decides
/// how many lanes there are. At most most_shared_bytes() can be shared.
template <class Body>
void for_each_row(std::int64_t rows, std::int64_t length, std::size_t shared_bytes, const Body& body) {
  if (rows == 0) return;
  if (shared_bytes > detail::kSharedUnasked) detail::allow_all_shared<Body>();
  detail::run_rows<<<detail::grid_for(rows), team_size(length), shared_bytes, current_stream()>>>(rows, body);
  check_launch();
}

/// *at = the smaller of *at and value, of several threads.
__device__ inline void atomic_min(int* at, int value) {
  atomicMin(at, value);
}

#else  // The C++ compiler: plain loops, or teams of a few lanes, as the test that is linked to says.

/// 1: plain loops. More: the lanes of a team run side by side, and wait for each other where they must.
int emulated_lanes();
/// The lanes of a running team.
class LaneGroup;
void wait_for_lanes(LaneGroup& group);
/// Runs lane(group, i) for every i in [0, emulated_lanes()); returns when all are done.
void run_lanes(const std::function<void(LaneGroup& group, int i)>& lane);

class Team {
 public:
  static constexpr std::size_t kSlotBytes = 64;

  /// `slots`: kSlotBytes for each lane.
  Team(void* shared, int lane, int size, LaneGroup* group, unsigned char* slots)
      : shared_(shared), lane_(lane), size_(size), group_(group), slots_(slots) {}
  int lane() const { return lane_; }
  int size() const { return size_; }
  void sync() const {
    if (group_ != nullptr) wait_for_lanes(*group_);
  }
  template <class T>
  T* shared() const {
    return static_cast<T*>(shared_);
  }
  template <class T, class Op>
  T reduce(T value, Op op) const {
    static_assert(sizeof(T) <= kSlotBytes);
    if (group_ == nullptr) return value;
    *reinterpret_cast<T*>(slots_ + lane_ * kSlotBytes) = value;
    sync();
    T all = *reinterpret_cast<const T*>(slots_);
    for (int i = 1; i < size_; ++i) all = op(all, *reinterpret_cast<const T*>(slots_ + i * kSlotBytes));
    sync();
    return all;
  }

 private:
  void* shared_;
  int lane_;
  int size_;
  LaneGroup* group_;
  unsigned char* slots_;
};

template <class Body>
void for_each(std::int64_t count, const Body& body) {
  const int lanes = emulated_lanes();
  if (lanes == 1) {
    for (std::int64_t i = 0; i < count; ++i) body(i);
    return;
  }
  run_lanes([&](LaneGroup&, int lane) {
    for (std::int64_t i = lane; i < count; i += lanes) body(i);
  });
}

inline int team_size(std::int64_t) {
  return emulated_lanes();
}

template <class Body>
void for_each_row(std::int64_t rows, std::int64_t, std::size_t shared_bytes, const Body& body) {
  const int lanes = emulated_lanes();
  const Scratch shared(shared_bytes), slots(Team::kSlotBytes * static_cast<std::size_t>(lanes));
  const auto run = [&](LaneGroup* group, int lane) {
    const Team team(shared.as<void>(), lane, lanes, group, slots.as<unsigned char>());
    for (std::int64_t row = 0; row < rows; ++row) {
      body(team, row);
      team.sync();
    }
  };
  if (lanes == 1) return run(nullptr, 0);
  run_lanes([&](LaneGroup& group, int lane) { run(&group, lane); });
}

inline void atomic_min(int* at, int value) {
  std::atomic_ref<int> shared(*at);
  int now = shared.load();
  while (value < now && !shared.compare_exchange_weak(now, value)) {
  }
}

#endif

/// for_each_row() without shared memory.
template <class Body>
void for_each_row(std::int64_t rows, std::int64_t length, const Body& body) {
  for_each_row(rows, length, 0, body);
}

}  // namespace core::CORE_KERNELS
