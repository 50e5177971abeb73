#include "libcore/backend/cuda/cuda_blas.h"

#include <limits>
#include <memory>
#include <string>

#include "libcore/backend/cuda/capture_mode.h"
#include "libcore/backend/cuda/cuda_blas_plan.h"
#include "libcore/backend/cuda_math.h"
#include "libcore/backend/op_tables.h"
#include "libcore/base/error.h"

namespace core::gpu {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

int as_int(std::int64_t size) {
  if (size > std::numeric_limits<int>::max()) {
    throw Error(ErrorCode::runtime, "matmul: a size of " + std::to_string(size) + " where cuBLAS takes 2147483647");
  }
  return static_cast<int>(size);
}

BlasType type_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return BlasType::f64;
    case DType::f16:
      return BlasType::f16;
    case DType::bf16:
      return BlasType::bf16;
    default:
      return BlasType::f32;
  }
}

/// Puts the bias into every row of C, for a product to be added to.
void start_with_bias(CudaBackend& backend, DType dtype, const GemmParams& p) {
  const std::size_t bytes = static_cast<std::size_t>(bit_width(dtype)) / 8;
  const auto copy = backend.ops().copy->move[bytes];
  if (copy == nullptr) throw Error(ErrorCode::unsupported, "matmul: no kernel to start with a bias");
  CopyParams params{p.c, p.bias, {}};
  params.loop = {.ndim = 3,
                 .numel = p.batch * p.m * p.n,
                 .sizes = {p.n, p.m, p.batch},
                 .strides = {{1, p.ldc, p.batch_stride_c}, {1, 0, 0}}};
  copy(params);
}

/// A factor in the type that cuBLAS wants it in.
class Factor {
 public:
  Factor(double value, BlasCompute compute) : single_(static_cast<float>(value)), double_(value), compute_(compute) {}
  const void* data() const { return compute_ == BlasCompute::f64 ? static_cast<const void*>(&double_) : &single_; }

 private:
  float single_;
  double double_;
  BlasCompute compute_;
};

}  // namespace

BlasProduct column_major(DType dtype, const GemmParams& p, BlasCompute compute) {
  auto operation = [](bool transpose) { return transpose ? BlasOperation::transpose : BlasOperation::none; };
  return {.operation_a = operation(p.transpose_b),
          .operation_b = operation(p.transpose_a),
          .m = as_int(p.n),
          .n = as_int(p.m),
          .k = as_int(p.k),
          .batch = as_int(p.batch),
          .a = {p.b, as_int(p.ldb), p.batch_stride_b},
          .b = {p.a, as_int(p.lda), p.batch_stride_a},
          .c = p.c,
          .ldc = as_int(p.ldc),
          .batch_stride_c = p.batch_stride_c,
          .type = type_of(dtype),
          .compute = compute,
          .alpha = p.alpha,
          .beta = p.beta};
}

Blas::Blas(const BlasApi& api, CudaBackend& backend)
    : api_(api),
      backend_(backend),
      // PyTorch's sizes: 32 MiB from Hopper on, before that 4 MiB twice and 16 KiB eight times.
      workspace_bytes_(backend.info().major >= 9 ? 32 * kMiB : 8 * kMiB + 128 * 1024) {
  const CudaBackend::Current here(backend_);
  const RelaxedCapture relaxed(backend_.api());  // the first product may be part of a graph
  check(api_.create(&handle_), "cublasCreate");
}

void Blas::check(int status, const char* call) const {
  if (status == 0) return;
  backend_.check(backend_.api().last_error());  // what is wrong with the device says more
  throw Error(ErrorCode::device,
              std::string("CUDA error: ") + api_.status_text(status) + " when calling `" + call + "`");
}

void* Blas::workspace(StreamHandle stream) {
  auto [found, is_new] = workspaces_.try_emplace(stream);
  if (is_new) {
    try {
      found->second = backend_.allocate(workspace_bytes_);
    } catch (...) {
      workspaces_.erase(found);
      throw;
    }
  }
  return found->second;
}

void Blas::product(DType dtype, const GemmParams& params) {
  const CudaBackend::Current here(backend_);
  const BlasCompute compute = dtype == DType::f64                              ? BlasCompute::f64
                              : dtype == DType::f32 && cuda::is_tf32_allowed() ? BlasCompute::tf32
                                                                               : BlasCompute::f32;
  BlasProduct p = column_major(dtype, params, compute);
  const StreamHandle stream = backend_.current_stream();
  std::lock_guard lock(mutex_);
  if (params.bias == nullptr) return plain_product(p, stream);
  if (params.batch == 1 && product_with_bias(p, params.bias, stream)) return;
  start_with_bias(backend_, dtype, params);
  p.beta = 1;
  plain_product(p, stream);
}

void Blas::plain_product(const BlasProduct& p, StreamHandle stream) {
  constexpr int kDefaultAlgorithm = -1;
  if (!is_bound_ || bound_stream_ != stream) {
    void* data = workspace(stream);
    check(api_.set_stream(handle_, stream), "cublasSetStream");  // forgets the workspace
    check(api_.set_workspace(handle_, data, workspace_bytes_), "cublasSetWorkspace");
    bound_stream_ = stream;
    is_bound_ = true;
  }
  const Factor alpha(p.alpha, p.compute), beta(p.beta, p.compute);
  check(api_.gemm(handle_, p.operation_a, p.operation_b, p.m, p.n, p.k, alpha.data(), p.a.data, p.type, p.a.leading,
                  p.a.batch_stride, p.b.data, p.type, p.b.leading, p.b.batch_stride, beta.data(), p.c, p.type, p.ldc,
                  p.batch_stride_c, p.batch, p.compute, kDefaultAlgorithm),
        "cublasGemmStridedBatchedEx");
}

namespace {

/// cuBLAS on each device, for as long as the process lives.
Blas& blas_of(CudaBackend& backend) {
  static std::mutex mutex;
  static auto* made = new std::map<CudaBackend*, std::unique_ptr<Blas>>;
  std::lock_guard lock(mutex);
  std::unique_ptr<Blas>& blas = (*made)[&backend];
  if (blas == nullptr) {
    static const BlasApi* api = load_blas();
    if (api == nullptr) {
      throw Error(ErrorCode::device,
                  "matmul: the library libcublas.so could not be loaded; install cuBLAS of CUDA 12 or 13, or name its "
                  "folder in LD_LIBRARY_PATH");
    }
    blas = std::make_unique<Blas>(*api, backend);
  }
  return *blas;
}

template <DType dtype>
void product_slot(const GemmParams& params) {
  CudaBackend& backend = CudaBackend::active();
  blas_of(backend).product(dtype, params);
}

}  // namespace

void fill_matmul(MatmulTable& table) {
  table.gemm[static_cast<std::size_t>(DType::f32)] = product_slot<DType::f32>;
  table.gemm[static_cast<std::size_t>(DType::f64)] = product_slot<DType::f64>;
  table.gemm[static_cast<std::size_t>(DType::f16)] = product_slot<DType::f16>;
  table.gemm[static_cast<std::size_t>(DType::bf16)] = product_slot<DType::bf16>;
}

}  // namespace core::gpu
