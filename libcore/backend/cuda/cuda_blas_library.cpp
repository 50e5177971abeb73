// cuBLAS and cuBLASLt as they are found while the program runs.
#include "libcore/backend/cuda/cuda_blas.h"
#include "libcore/backend/cuda/shared_library.h"

namespace core::gpu {
namespace {

bool find_blas(const SharedLibrary& library, BlasApi& api) {
  return library.find("cublasCreate_v2", api.create) && library.find("cublasDestroy_v2", api.destroy) &&
         library.find("cublasSetStream_v2", api.set_stream) &&
         library.find("cublasSetWorkspace_v2", api.set_workspace) &&
         library.find("cublasGemmStridedBatchedEx", api.gemm) && library.find("cublasGetStatusString", api.status_text);
}

bool find_lt(const SharedLibrary& library, BlasApi& api) {
  return library.find("cublasLtMatmulDescCreate", api.lt_operation) &&
         library.find("cublasLtMatmulDescSetAttribute", api.lt_set) &&
         library.find("cublasLtMatmulDescDestroy", api.lt_destroy_operation) &&
         library.find("cublasLtMatrixLayoutCreate", api.lt_layout) &&
         library.find("cublasLtMatrixLayoutDestroy", api.lt_destroy_layout) &&
         library.find("cublasLtMatmulPreferenceCreate", api.lt_preference) &&
         library.find("cublasLtMatmulPreferenceSetAttribute", api.lt_set_preference) &&
         library.find("cublasLtMatmulPreferenceDestroy", api.lt_destroy_preference) &&
         library.find("cublasLtMatmulAlgoGetHeuristic", api.lt_choose) &&
         library.find("cublasLtMatmul", api.lt_product);
}

}  // namespace

const BlasApi* load_blas() {
  static BlasApi api{};
  const SharedLibrary* blas = SharedLibrary::open({"libcublas.so.13", "libcublas.so.12", "libcublas.so"});
  if (blas == nullptr || !find_blas(*blas, api)) return nullptr;
  const SharedLibrary* lt = SharedLibrary::open({"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"});
  if (lt == nullptr || !find_lt(*lt, api)) api.lt_product = nullptr;
  return &api;
}

}  // namespace core::gpu
