#pragma once
// Matrix products by cuBLAS, and by cuBLASLt where a bias is added on the way. Both are loaded when the first product
// is computed, so that a machine without them runs everything else. f32 is computed in f32 (in TF32 where
// core::cuda::set_allow_tf32 said so), f16 and bf16 on tensor cores with sums in f32.
// Thread safety: all functions. Use: gpu::fill_matmul(table); or, in tests: gpu::Blas(api, backend).product(dtype,
// params).

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

#include "libcore/backend/cuda/cuda_device.h"
#include "libcore/backend/op_tables.h"

namespace core::gpu {

// What cuBLAS calls an element type, what it computes in, and a transposition.
enum class BlasType : int { f32 = 0, f64 = 1, f16 = 2, bf16 = 14 };
enum class BlasCompute : int { f32 = 68, f64 = 70, tf32 = 77 };
enum class BlasOperation : int { none = 0, transpose = 1 };

/// One column-major operand.
struct BlasMatrix {
  const void* data;
  int leading;
  std::int64_t batch_stride;  ///< elements
};

/// Column-major C (m x n) = alpha * op(A) (m x k) * op(B) (k x n) + beta * C, `batch` of them.
struct BlasProduct {
  BlasOperation operation_a, operation_b;
  int m, n, k, batch;
  BlasMatrix a, b;
  void* c;
  int ldc;
  std::int64_t batch_stride_c;
  BlasType type;
  BlasCompute compute;
  double alpha, beta;
};

/// The column-major product that leaves in memory what the row-major one is to. A row-major matrix, read column by
/// column, is its transpose, and C^T = op(B)^T * op(A)^T: the operands change places. Error(runtime) for sizes beyond
/// int.
BlasProduct column_major(DType dtype, const GemmParams& params, BlasCompute compute);

/// The calls of cuBLAS and cuBLASLt; numbers of cublasStatus_t, 0 is success.
struct BlasApi {
  int (*create)(void** handle);
  int (*destroy)(void* handle);
  int (*set_stream)(void* handle, StreamHandle stream);
  int (*set_workspace)(void* handle, void* data, std::size_t bytes);
  /// cublasGemmStridedBatchedEx
  int (*gemm)(void* handle, BlasOperation operation_a, BlasOperation operation_b, int m, int n, int k,
              const void* alpha, const void* a, BlasType type_a, int lda, long long stride_a, const void* b,
              BlasType type_b, int ldb, long long stride_b, const void* beta, void* c, BlasType type_c, int ldc,
              long long stride_c, int batch, BlasCompute compute, int algorithm);
  const char* (*status_text)(int status);

  // cuBLASLt; null where it is missing.
  int (*lt_operation)(void** operation, BlasCompute compute, BlasType scale);
  int (*lt_set)(void* operation, int attribute, const void* value, std::size_t bytes);
  int (*lt_layout)(void** layout, BlasType type, std::uint64_t rows, std::uint64_t columns, std::int64_t leading);
  int (*lt_preference)(void** preference);
  int (*lt_set_preference)(void* preference, int attribute, const void* value, std::size_t bytes);
  int (*lt_destroy_preference)(void* preference);
  int (*lt_destroy_operation)(void* operation);
  int (*lt_destroy_layout)(void* layout);
  int (*lt_choose)(void* handle, void* operation, void* a, void* b, void* c, void* d, void* preference, int wanted,
                   void* results, int* found);
  int (*lt_product)(void* handle, void* operation, const void* alpha, const void* a, void* layout_a, const void* b,
                    void* layout_b, const void* beta, const void* c, void* layout_c, void* d, void* layout_d,
                    const void* algorithm, void* workspace, std::size_t workspace_bytes, StreamHandle stream);
};

/// cuBLAS for one device. REQUIRES: destroyed before the backend.
class Blas {
 public:
  Blas(const BlasApi& api, CudaBackend& backend);
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  /// Error(device) "CUDA error: CUBLAS_STATUS_... when calling `cublasGemmStridedBatchedEx`".
  void product(DType dtype, const GemmParams& params);

 private:
  struct Plan;
  void check(int status, const char* call) const;
  void* workspace(StreamHandle stream);
  void plain_product(const BlasProduct& p, StreamHandle stream);
  bool product_with_bias(const BlasProduct& p, const void* bias, StreamHandle stream);
  /// Null when too many are known.
  Plan* plan_for(const BlasProduct& p, const void* bias);
  int describe(Plan& plan, const BlasProduct& p, const void* bias) const;
  int choose(Plan& plan, const BlasProduct& p) const;
  bool goes_on(Plan& plan, int status) const;

  const BlasApi& api_;
  CudaBackend& backend_;
  std::size_t workspace_bytes_;
  std::mutex mutex_;
  void* handle_ = nullptr;
  StreamHandle bound_stream_ = nullptr;
  bool is_bound_ = false;
  std::map<StreamHandle, void*> workspaces_;
  std::unordered_map<std::string, Plan> plans_;
};

/// Null when cuBLAS cannot be loaded.
const BlasApi* load_blas();
/// The slots of f32, f64, f16 and bf16, computed on CudaBackend::active(). A product without cuBLAS is Error(device).
void fill_matmul(MatmulTable& table);

}  // namespace core::gpu
