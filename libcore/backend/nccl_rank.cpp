#include "libcore/backend/nccl_rank.h"

#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "libcore/backend/collectives.h"
#include "libcore/backend/cuda/capture_mode.h"
#include "libcore/backend/cuda/cuda_device.h"
#include "libcore/backend/cuda/cuda_error.h"
#include "libcore/backend/cuda/cuda_event.h"
#include "libcore/backend/cuda/free_mutex.h"
#include "libcore/backend/cuda/nccl.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/stream_values.h"
#include "libcore/base/error.h"
#include "libcore/base/half.h"

namespace core {
namespace {

constexpr int kByteType = 1;         // ncclUint8
constexpr int kHostImmediate = 1;    // ncclScalarHostImmediate
constexpr int kFloat8e4m3 = 10;      // ncclFloat8e4m3
constexpr int kFloat8e5m2 = 11;      // ncclFloat8e5m2
constexpr int kFirstFloat8 = 22400;  // the version that has them
/// How long a rank that leaves waits for the others, which may have ended.
constexpr std::chrono::seconds kFarewell(5);

CudaBackend* gpu_or_null(Device device) {
  return dynamic_cast<CudaBackend*>(&backend_for(device));
}

gpu::Nccl* nccl_of(Device device) {
  CudaBackend* gpu = gpu_or_null(device);
  return gpu == nullptr ? nullptr : gpu->api().collectives();
}

/// The factor of a scaled sum as NCCL wants it: one element.
std::vector<char> element_of(double factor, DType dtype) {
  std::vector<char> bytes(8);
  const auto put = [&](auto value) { std::memcpy(bytes.data(), &value, sizeof value); };
  switch (dtype) {
    case DType::f64:
      put(factor);
      break;
    case DType::f32:
      put(static_cast<float>(factor));
      break;
    case DType::f16:
      put(f64_to_f16(factor));
      break;
    case DType::bf16:
      put(f32_to_bf16(static_cast<float>(factor)));
      break;
    default:
      throw Error(ErrorCode::runtime, "PreMulSum Data type must be half, float, bfloat16 or double");
  }
  return bytes;
}

}  // namespace

namespace nccl {

std::string why_no_ranks() {
  if (!cuda::is_available()) {
    return cuda::is_built() ? "ProcessGroupNCCL is only supported with GPUs, no GPUs found!"
                            : "Distributed package doesn't have NCCL built in: libckpt was built without CUDA; install "
                              "nvidia-cuda-toolkit, then configure and build again";
  }
  if (gpu_or_null(Device(DeviceType::cuda, 0)) == nullptr) {
    return "ProcessGroupNCCL is only supported with GPUs, no GPUs found! cuda:0 is a logical device in host memory";
  }
  const gpu::Nccl* nccl = nccl_of(Device(DeviceType::cuda, 0));
  if (nccl == nullptr) {
    return "Distributed package doesn't have NCCL built in: libnccl.so.2 cannot be loaded; install the package "
           "libnccl2";
  }
  if (!nccl->has_ranks()) {
    return "Distributed package doesn't have NCCL built in: libnccl.so.2 is version " + version() +
           ", where 2.14 is the first that will do; install a newer package libnccl2";
  }
  return {};
}

int reduction_type(DType dtype) {
  if (dtype != DType::f8_e4m3fn && dtype != DType::f8_e5m2) return gpu::Nccl::type_of(dtype);
  const gpu::Nccl* nccl = nccl_of(Device(DeviceType::cuda, 0));
  if (nccl == nullptr || nccl->version() < kFirstFloat8) return -1;
  return dtype == DType::f8_e4m3fn ? kFloat8e4m3 : kFloat8e5m2;
}

}  // namespace nccl

namespace detail {

struct NcclRank::Inside {
  Inside(Device device, int its_rank, int its_size)
      : backend(*gpu_or_null(device)), nccl(*backend.api().collectives()), rank(its_rank), size(its_size) {}
  const gpu::NcclApi& api() const { return nccl.api(); }
  std::size_t block_bytes() const { return (static_cast<std::size_t>(size) + 1) * sizeof(std::uint64_t); }
  std::uint64_t* device_numbers() const { return static_cast<std::uint64_t*>(device_block); }
  std::uint64_t* host_numbers() const { return static_cast<std::uint64_t*>(host_block); }

  void check(int error) const {
    if (error == 0 || error == gpu::kNcclInProgress) return;
    const char* more = communicator == nullptr ? nullptr : api().last_error(communicator);
    std::string text = "NCCL Error " + std::to_string(error) + ": " + api().error_text(error);
    if (more != nullptr && *more != '\0') text += ": " + std::string(more);
    if (text.find("Duplicate GPU") != std::string::npos) {
      text +=
          "; every rank needs a GPU of its own: start no more ranks than there are GPUs, and let each use "
          "cuda:LOCAL_RANK";
    }
    throw Error(ErrorCode::runtime, text);
  }
  /// ncclRedOp_t; one of its own for a scaled sum, which lives until the call is started.
  template <class Start>
  void with_op(const Reduction& what, Start start) const {
    const int type = nccl::reduction_type(what.dtype);
    if (what.op != Op::scaled_sum) return check(start(type, static_cast<int>(what.op)));
    std::vector<char> factor = element_of(what.factor, what.dtype);
    int op = 0;
    check(api().make_premul(&op, factor.data(), type, kHostImmediate, communicator));
    const int error = start(type, op);
    check(api().destroy_op(op, communicator));
    check(error);
  }

  CudaBackend& backend;
  gpu::Nccl& nccl;
  int rank;
  int size;
  void* communicator = nullptr;
  gpu::StreamHandle stream = nullptr;
  std::optional<gpu::ScopedEvent> end;
  void* device_block = nullptr;  // the number of this rank, then those of all
  void* host_block = nullptr;
  bool is_broken = false;
};

std::string NcclRank::make_id() {
  const gpu::Nccl* nccl = nccl_of(Device(DeviceType::cuda, 0));
  gpu::NcclId id{};
  const int error = nccl->api().unique_id(&id);
  if (error != 0) {
    throw Error(ErrorCode::runtime, "NCCL Error " + std::to_string(error) + ": " + nccl->api().error_text(error));
  }
  return std::string(id.bytes, sizeof id.bytes);
}

NcclRank::NcclRank(Device device, int rank, int size, const std::string& id)
    : in_(std::make_unique<Inside>(device, rank, size)) {
  gpu::NcclId given{};
  if (id.size() != sizeof given.bytes) throw Error(ErrorCode::corrupt, "the store's id of a communicator is no id");
  std::memcpy(given.bytes, id.data(), id.size());
  CudaBackend& backend = in_->backend;
  backend.check_alive();
  const CudaBackend::Current here(backend);
  const gpu::RelaxedCapture relaxed(backend.api());
  backend.check(backend.api().stream_create(&in_->stream, 0));
  in_->end.emplace(backend);
  in_->device_block = backend.allocate(in_->block_bytes());
  in_->host_block = backend.allocate_pinned(in_->block_bytes());
  // Whoever had this memory before may still use it.
  gpu::make_wait(backend, in_->stream, backend, backend.current_stream());
  gpu::NcclConfig config;
  in_->check(in_->api().init_rank(&in_->communicator, size, given, rank, &config));
}

NcclRank::~NcclRank() {
  if (in_->is_broken) {
    // The GPU may still use its stream and its memory.
    static_cast<void>(in_.release());
    return;
  }
  const CudaBackend::Current here(in_->backend);
  const gpu::RelaxedCapture relaxed(in_->backend.api());
  in_->backend.api().stream_synchronize(in_->stream);
  in_->api().finalize(in_->communicator);
  int state = gpu::kNcclInProgress;
  const auto until = std::chrono::steady_clock::now() + kFarewell;
  while (in_->api().async_error(in_->communicator, &state) == 0 && state == gpu::kNcclInProgress &&
         std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (state == 0) {
    in_->api().destroy(in_->communicator);
  } else {
    in_->api().abort(in_->communicator);
  }
  in_->backend.free(in_->device_block, in_->block_bytes());
  in_->backend.free_pinned(in_->host_block, in_->block_bytes());
  in_->backend.api().stream_destroy(in_->stream);
}

bool NcclRank::is_settled() {
  int state = 0;
  in_->check(in_->api().async_error(in_->communicator, &state));
  in_->check(state);
  return state != gpu::kNcclInProgress;
}

void NcclRank::start(const cuda::Event* after, const std::function<void()>& calls) {
  CudaBackend& backend = in_->backend;
  backend.check_alive();
  const CudaBackend::Current here(backend);
  const gpu::RelaxedCapture relaxed(backend.api());
  if (after != nullptr) after->wait(stream_of(backend.device(), reinterpret_cast<std::uint64_t>(in_->stream)));
  const std::lock_guard turn(gpu::free_mutex());
  in_->check(in_->api().group_start());
  std::exception_ptr error;
  try {
    calls();
  } catch (...) {
    error = std::current_exception();
  }
  const int at_end = in_->api().group_end();  // also after an error: the thread's group would stay open
  if (error) std::rethrow_exception(error);
  in_->check(at_end);
}

void NcclRank::mark() {
  const CudaBackend::Current here(in_->backend);
  in_->end->record(in_->stream);
}

bool NcclRank::is_done() {
  if (!is_settled()) return false;
  CudaBackend& backend = in_->backend;
  backend.check_alive();
  const CudaBackend::Current here(backend);
  const gpu::RelaxedCapture relaxed(backend.api());
  const int state = backend.api().event_query(in_->end->handle());
  if (gpu::is_pending(backend.api(), state)) return false;
  backend.check(state);
  return true;
}

void NcclRank::abort() {
  if (std::exchange(in_->is_broken, true) || in_->communicator == nullptr) return;
  const CudaBackend::Current here(in_->backend);
  in_->api().abort(in_->communicator);
}

void NcclRank::all_reduce(const void* in, void* out, const Reduction& what) {
  in_->with_op(what, [&](int type, int op) {
    return in_->api().all_reduce(in, out, what.count, type, op, in_->communicator, in_->stream);
  });
}

void NcclRank::reduce(const void* in, void* out, const Reduction& what, int root) {
  in_->with_op(what, [&](int type, int op) {
    return in_->api().reduce(in, out, what.count, type, op, root, in_->communicator, in_->stream);
  });
}

void NcclRank::reduce_scatter(const void* in, void* out, const Reduction& what) {
  in_->with_op(what, [&](int type, int op) {
    return in_->api().reduce_scatter(in, out, what.count, type, op, in_->communicator, in_->stream);
  });
}

void NcclRank::broadcast(void* data, std::size_t bytes, int root) {
  in_->check(in_->api().broadcast(data, data, bytes, kByteType, root, in_->communicator, in_->stream));
}

void NcclRank::all_gather(const void* in, void* out, std::size_t bytes) {
  in_->check(in_->api().all_gather(in, out, bytes, kByteType, in_->communicator, in_->stream));
}

void NcclRank::send(const void* data, std::size_t bytes, int to) {
  in_->check(in_->api().send(data, bytes, kByteType, to, in_->communicator, in_->stream));
}

void NcclRank::receive(void* data, std::size_t bytes, int from) {
  in_->check(in_->api().receive(data, bytes, kByteType, from, in_->communicator, in_->stream));
}

void NcclRank::copy(void* to, const void* from, std::size_t bytes) {
  const CudaBackend::Current here(in_->backend);
  in_->backend.check(in_->backend.api().copy(to, from, bytes, in_->stream));
}

void NcclRank::share(std::uint64_t number) {
  *in_->host_numbers() = number;
  copy(in_->device_numbers(), in_->host_numbers(), sizeof number);
  all_gather(in_->device_numbers(), in_->device_numbers() + 1, sizeof number);
}

void NcclRank::fetch_shared() {
  copy(in_->host_numbers() + 1, in_->device_numbers() + 1, static_cast<std::size_t>(in_->size) * sizeof(std::uint64_t));
}

std::uint64_t NcclRank::shared(int rank) const {
  return in_->host_numbers()[1 + rank];
}

}  // namespace detail
}  // namespace core
