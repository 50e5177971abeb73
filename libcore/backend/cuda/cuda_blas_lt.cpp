// Products with a bias, by cuBLASLt.
#include <algorithm>
#include <bit>
#include <string>

#include "libcore/backend/cuda/cuda_blas.h"
#include "libcore/backend/cuda/cuda_blas_plan.h"

namespace core::gpu {
namespace {

// Numbers of cublasLtMatmulDescAttributes_t, cublasLtMatmulPreferenceAttributes_t and cublasLtEpilogue_t.
constexpr int kOperationA = 3, kOperationB = 4, kEpilogue = 7, kBiasPointer = 8;
constexpr int kWorkspaceBytes = 1, kAlignmentA = 5, kAlignmentB = 6, kAlignmentC = 7, kAlignmentD = 8;
constexpr int kAddBias = 4;

/// The power of two that the address is a multiple of, up to 256.
std::uint32_t alignment(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data) | 256;
  return 1U << std::countr_zero(address);
}

/// All that a choice depends on.
std::string key_of(const BlasProduct& p, const void* bias) {
  const std::int64_t parts[] = {static_cast<int>(p.operation_a),
                                static_cast<int>(p.operation_b),
                                p.m,
                                p.n,
                                p.k,
                                p.a.leading,
                                p.b.leading,
                                p.ldc,
                                static_cast<int>(p.type),
                                static_cast<int>(p.compute),
                                alignment(p.a.data),
                                alignment(p.b.data),
                                alignment(p.c),
                                alignment(bias)};
  return {reinterpret_cast<const char*>(parts), sizeof parts};
}

}  // namespace

Blas::~Blas() {
  const CudaBackend::Current here(backend_);
  for (auto& [key, plan] : plans_) {
    if (plan.operation != nullptr) api_.lt_destroy_operation(plan.operation);
    for (void* layout : {plan.a, plan.b, plan.c}) {
      if (layout != nullptr) api_.lt_destroy_layout(layout);
    }
  }
  for (auto& [stream, data] : workspaces_) backend_.free(data, workspace_bytes_);
  api_.destroy(handle_);
}

/// False when cuBLASLt is missing, knows no way, or gives up: on the way that it chose, or before.
bool Blas::product_with_bias(const BlasProduct& p, const void* bias, StreamHandle stream) {
  // Its kernels read the bias in pieces of 16 bytes and cannot be told that it starts between two of them.
  constexpr std::uint32_t kBiasAlignment = 16;
  if (api_.lt_product == nullptr || alignment(bias) < kBiasAlignment) return false;
  Plan* found = plan_for(p, bias);
  if (found == nullptr || !found->is_usable) return false;
  Plan& plan = *found;
  void* scratch = plan.choice.workspace_bytes > 0 ? workspace(stream) : nullptr;
  if (!goes_on(plan, api_.lt_set(plan.operation, kBiasPointer, &bias, sizeof bias))) return false;
  const float single_alpha = static_cast<float>(p.alpha), single_beta = 0;
  const double double_beta = 0;
  const bool is_double = p.compute == BlasCompute::f64;
  const void* alpha = is_double ? static_cast<const void*>(&p.alpha) : &single_alpha;
  const void* beta = is_double ? static_cast<const void*>(&double_beta) : &single_beta;
  const int status =
      api_.lt_product(handle_, plan.operation, alpha, p.a.data, plan.a, p.b.data, plan.b, beta, p.c, plan.c, p.c,
                      plan.c, plan.choice.algorithm, scratch, plan.choice.workspace_bytes, stream);
  return goes_on(plan, status);
}

/// Whether a call of cuBLASLt did what it was to do. If not, other ways are gone from now on.
bool Blas::goes_on(Plan& plan, int status) const {
  if (status == 0) return true;
  plan.is_usable = false;
  backend_.check(backend_.api().last_error());  // a device that is in trouble helps no other way either
  return false;
}

Blas::Plan* Blas::plan_for(const BlasProduct& p, const void* bias) {
  constexpr std::size_t kMaxPlans = 4096;
  const std::string key = key_of(p, bias);
  const auto known = plans_.find(key);
  if (known != plans_.end()) return &known->second;
  if (plans_.size() >= kMaxPlans) return nullptr;
  Plan& plan = plans_[key];
  plan.is_usable = goes_on(plan, describe(plan, p, bias)) && goes_on(plan, choose(plan, p));
  return &plan;
}

/// What is to be computed. Gives the first status of cuBLASLt that is not success; nothing is asked after it.
int Blas::describe(Plan& plan, const BlasProduct& p, const void* bias) const {
  const BlasType scale = p.compute == BlasCompute::f64 ? BlasType::f64 : BlasType::f32;
  int status = api_.lt_operation(&plan.operation, p.compute, scale);
  auto set = [&](int attribute, const auto& value) {
    if (status == 0) status = api_.lt_set(plan.operation, attribute, &value, sizeof value);
  };
  set(kOperationA, p.operation_a);
  set(kOperationB, p.operation_b);
  set(kEpilogue, kAddBias);
  set(kBiasPointer, bias);
  auto layout = [&](void*& made, BlasOperation operation, int rows, int columns, int leading) {
    if (operation == BlasOperation::transpose) std::swap(rows, columns);
    const auto height = static_cast<std::uint64_t>(rows), width = static_cast<std::uint64_t>(columns);
    if (status == 0) status = api_.lt_layout(&made, p.type, height, width, leading);
  };
  layout(plan.a, p.operation_a, p.m, p.k, p.a.leading);
  layout(plan.b, p.operation_b, p.k, p.n, p.b.leading);
  layout(plan.c, BlasOperation::none, p.m, p.n, p.ldc);
  return status;
}

/// The way to compute it. As describe(); that no way is known is a status too.
int Blas::choose(Plan& plan, const BlasProduct& p) const {
  constexpr int kNotSupported = 15;
  void* preference = nullptr;
  if (const int status = api_.lt_preference(&preference); status != 0) return status;
  int status = 0;
  auto prefer = [&](int attribute, const auto& value) {
    if (status == 0) status = api_.lt_set_preference(preference, attribute, &value, sizeof value);
  };
  prefer(kWorkspaceBytes, workspace_bytes_);
  prefer(kAlignmentA, alignment(p.a.data));
  prefer(kAlignmentB, alignment(p.b.data));
  prefer(kAlignmentC, alignment(p.c));
  prefer(kAlignmentD, alignment(p.c));
  int found = 0;
  if (status == 0) {
    status =
        api_.lt_choose(handle_, plan.operation, plan.a, plan.b, plan.c, plan.c, preference, 1, &plan.choice, &found);
  }
  api_.lt_destroy_preference(preference);
  if (status != 0) return status;
  return found == 1 ? plan.choice.status : kNotSupported;
}

}  // namespace core::gpu
