#include "libcore/tensor/random_fill.h"

#include <cstddef>
#include <string>

#include "libcore/backend/device_registry.h"
#include "libcore/backend/logical_backend.h"
#include "libcore/backend/op_tables.h"
#include "libcore/backend/random_table.h"
#include "libcore/base/error.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/random_on_device.h"
#include "libcore/tensor/scalar.h"

namespace core::detail {
namespace {

using RandomKernel = KernelGrid<RandomOp, RandomParams>::Kernel;

RandomKernel kernel_for(const OpTables& tables, RandomOp op, DType dtype) {
  return tables.random == nullptr ? nullptr : tables.random->fill.at(op, dtype);
}

/// PyTorch's name of the kernel, for its message about other dtypes.
const char* kernel_name(RandomOp op, bool is_cuda) {
  switch (op) {
    case RandomOp::uniform:
      return "check_uniform_bounds";
    case RandomOp::normal:
    case RandomOp::normal_serial:
      return "normal_kernel_cpu";
    case RandomOp::log_normal:
      return "log_normal_cpu";
    case RandomOp::bernoulli:
      return is_cuda ? "uniform_and_transform" : "bernoulli_scalar_cpu_";
    case RandomOp::exponential:
      return is_cuda ? "uniform_and_transform" : "exponential_";
    case RandomOp::geometric:
      return is_cuda ? "uniform_and_transform" : "geometric_cpu";
    case RandomOp::cauchy:
      return is_cuda ? "uniform_and_transform" : "cauchy";
    case RandomOp::integers:
      return "random_from_to";
    case RandomOp::any_integer:
      return "random";
    case RandomOp::bernoulli_each:
      return "bernoulli_tensor_cpu_p_";
    case RandomOp::permutation:
      return "randperm";
    default:
      return "fused_dropout";
  }
}

/// The kernels of CPU generators count nothing, and fill whatever its size at once.
RandomLaunches launches_of(const Generator& generator, RandomOut out, const RandomFill& how) {
  if (generator.device().is_cpu()) return {{{0, out.count, 0}}};
  return random_launches(how.op, out.dtype, out.count, how.size);
}

/// What PyTorch calls the tensor's method.
const char* method_name(RandomOp op) {
  switch (op) {
    case RandomOp::uniform:
      return "uniform_";
    case RandomOp::normal:
    case RandomOp::normal_serial:
      return "normal_";
    case RandomOp::log_normal:
      return "log_normal_";
    case RandomOp::bernoulli:
    case RandomOp::bernoulli_each:
      return "bernoulli_";
    case RandomOp::exponential:
      return "exponential_";
    case RandomOp::geometric:
      return "geometric_";
    case RandomOp::cauchy:
      return "cauchy_";
    case RandomOp::permutation:
      return "randperm";
    case RandomOp::samples:
      return "multinomial";
    default:
      return "random_";
  }
}

void run(RandomKernel kernel, Device device, const Generator& generator, RandomOut out, const RandomFill& how) {
  const OpScope scope(method_name(how.op));
  const RandomLaunches launches = launches_of(generator, out, how);
  const auto element_size = static_cast<std::int64_t>(element_bytes(out.dtype));
  draw_on_device(device, generator, launches.used, [&](const RandomParams& where) {
    for (const RandomLaunch& launch : launches.parts) {
      RandomParams params = where;
      params.out = static_cast<std::byte*>(out.data) + launch.first * element_size;
      params.count = launch.count;
      params.offset += launch.offset;
      params.a = how.a, params.b = how.b, params.from = how.from, params.size = how.size, params.in = how.in;
      kernel(params);
    }
  });
}

}  // namespace

void fill_buffer(const Generator& generator, RandomOut out, const RandomFill& how) {
  const bool is_cuda = generator.device().is_cuda();
  const RandomKernel kernel = kernel_for(is_cuda ? logical_op_tables() : cpu_op_tables(), how.op, out.dtype);
  if (kernel == nullptr) {
    throw Error(ErrorCode::not_implemented, std::string("\"") + kernel_name(how.op, is_cuda) +
                                                "\" not implemented for '" + scalar_type_name(out.dtype) + "'");
  }
  run(kernel, Device(), generator, out, how);
}

bool fill_on_device(Device device, const Generator& generator, RandomOut out, const RandomFill& how) {
  const RandomKernel kernel = kernel_for(backend_for(device).ops(), how.op, out.dtype);
  if (kernel == nullptr) return false;
  run(kernel, device, generator, out, how);
  return true;
}

std::int64_t draw_seed(const Generator& generator) {
  std::int64_t seed = 0;
  fill_buffer(generator, {&seed, DType::i64, 1}, {RandomOp::any_integer});
  return seed;
}

}  // namespace core::detail
