#include "libcore/backend/cuda/nccl.h"

#include "libcore/backend/cuda/free_mutex.h"
#include "libcore/backend/cuda/shared_library.h"
#include "libcore/base/error.h"
#include "libcore/base/warning.h"

namespace core::gpu {
namespace {

constexpr int kBytes = 1;  // ncclUint8
constexpr int kSum = 0;    // ncclSum

}  // namespace

int Nccl::type_of(DType dtype) {
  switch (dtype) {
    case DType::i8:
      return 0;
    case DType::u8:
      return 1;
    case DType::i32:
      return 2;
    case DType::u32:
      return 3;
    case DType::i64:
      return 4;
    case DType::u64:
      return 5;
    case DType::f16:
      return 6;
    case DType::f32:
      return 7;
    case DType::f64:
      return 8;
    case DType::bf16:
      return 9;
    default:
      return -1;
  }
}

Nccl::~Nccl() {
  for (const auto& [gpus, communicators] : communicators_) {
    for (void* communicator : communicators) api_.destroy(communicator);
  }
}

int Nccl::version() const {
  int version = 0;
  check(api_.version(&version));
  return version;
}

void Nccl::check(int error) const {
  if (error == 0) return;
  throw Error(ErrorCode::runtime, "NCCL Error " + std::to_string(error) + ": " + api_.error_text(error));
}

bool Nccl::connect(std::span<const int> gpus) {
  const std::vector<int> list(gpus.begin(), gpus.end());
  const std::lock_guard lock(mutex_);
  if (const auto known = communicators_.find(list); known != communicators_.end()) return !known->second.empty();
  const std::lock_guard turn(free_mutex());
  Communicators made(list.size());
  const int error = api_.init_all(made.data(), static_cast<int>(list.size()), list.data());
  if (error != 0) {
    made.clear();
    warn(std::string("NCCL cannot connect the devices, which exchange data by plain copies instead: ") +
         api_.error_text(error));
  }
  return !communicators_.emplace(list, std::move(made)).first->second.empty();
}

const Nccl::Communicators& Nccl::of(std::span<const Rank> ranks) const {
  std::vector<int> gpus;
  for (const Rank& rank : ranks) gpus.push_back(rank.gpu);
  return communicators_.at(gpus);
}

/// start(rank's number, its communicator) for all ranks at once: one would wait for the others for ever.
template <class Start>
void Nccl::run(std::span<const Rank> ranks, Start start) {
  const std::lock_guard lock(mutex_);
  const Communicators& communicators = of(ranks);
  const std::lock_guard turn(free_mutex());
  check(api_.group_start());
  int error = 0;
  for (std::size_t i = 0; i < ranks.size() && error == 0; ++i) error = start(ranks[i], communicators[i]);
  const int at_end = api_.group_end();
  check(error != 0 ? error : at_end);
}

void Nccl::broadcast(std::span<const Rank> ranks, std::size_t bytes) {
  run(ranks, [&](const Rank& rank, void* communicator) {
    return api_.broadcast(rank.in, rank.out, bytes, kBytes, 0, communicator, rank.stream);
  });
}

void Nccl::reduce(std::span<const Rank> ranks, std::size_t root, std::size_t count, DType dtype) {
  run(ranks, [&](const Rank& rank, void* communicator) {
    return api_.reduce(rank.in, rank.out, count, type_of(dtype), kSum, static_cast<int>(root), communicator,
                       rank.stream);
  });
}

namespace {

void load_ranks(const SharedLibrary& library, NcclApi& api) {
  const bool is_whole =
      library.find("ncclGetUniqueId", api.unique_id) && library.find("ncclCommGetAsyncError", api.async_error) &&
      library.find("ncclCommFinalize", api.finalize) && library.find("ncclCommAbort", api.abort) &&
      library.find("ncclGetLastError", api.last_error) && library.find("ncclAllReduce", api.all_reduce) &&
      library.find("ncclAllGather", api.all_gather) && library.find("ncclReduceScatter", api.reduce_scatter) &&
      library.find("ncclSend", api.send) && library.find("ncclRecv", api.receive) &&
      library.find("ncclRedOpCreatePreMulSum", api.make_premul) && library.find("ncclRedOpDestroy", api.destroy_op) &&
      library.find("ncclCommInitRankConfig", api.init_rank);
  if (!is_whole) api.init_rank = nullptr;
}

bool load(NcclApi& api) {
  const SharedLibrary* library = SharedLibrary::open({"libnccl.so.2"});
  if (library != nullptr) load_ranks(*library, api);
  return library != nullptr && library->find("ncclGetVersion", api.version) &&
         library->find("ncclCommInitAll", api.init_all) && library->find("ncclCommDestroy", api.destroy) &&
         library->find("ncclGroupStart", api.group_start) && library->find("ncclGroupEnd", api.group_end) &&
         library->find("ncclBroadcast", api.broadcast) && library->find("ncclReduce", api.reduce) &&
         library->find("ncclGetErrorString", api.error_text);
}

}  // namespace

Nccl* loaded_nccl() {
  static Nccl* const loaded = []() -> Nccl* {
    NcclApi api{};
    return load(api) ? new Nccl(api) : nullptr;  // stays for good: the driver may be gone when the program ends
  }();
  return loaded;
}

}  // namespace core::gpu
