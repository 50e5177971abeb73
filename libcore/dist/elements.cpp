#include "libcore/dist/elements.h"

#include <utility>

#include "libcore/autograd/grad_mode.h"
#include "libcore/backend/device_registry.h"
#include "libcore/base/warning.h"
#include "libcore/dist/init.h"
#include "libcore/ops/complex.h"

namespace core::distributed {

Group chosen(const Group& group) {
  return group ? group : default_group();
}

bool takes_part(const Group& group, const char* what) {
  if (group->rank() >= 0) return true;
  warn("Running " + std::string(what) + " on global rank " + std::to_string(get_rank()) +
       " which does not belong to the given group.");
  return false;
}

Fingerprint print_of(const char* op, const std::vector<Tensor>& tensors, std::string detail) {
  Fingerprint print{.op = op, .detail = std::move(detail)};
  for (const Tensor& tensor : tensors) {
    print.shapes.push_back(tensor.sizes());
    print.dtypes.push_back(tensor.dtype());
    print.devices.push_back(std::string(tensor.device().is_cpu() ? "cpu" : "cuda"));
  }
  return print;
}

Work started(const Group& group, Request request, bool async_op) {
  Work work = group->start(std::move(request));
  if (!async_op) work.wait();
  return work;
}

Elements::Elements(const Tensor& tensor, const Group& group) : original_(tensor) {
  const NoGradGuard no_grad;
  if (group->exchanges_on(tensor.device())) device_ = resolve(tensor.device());
  flat_ = device_ ? tensor.detach() : tensor.detach().cpu();
  flat_ = flat_.contiguous();
  if (is_complex(flat_.dtype())) flat_ = view_as_real(flat_);
  if (device_) check_nccl_dtype(flat_.dtype());
}

void Elements::give_back() const {
  const NoGradGuard no_grad;
  const Tensor target = original_.detach();
  if (target.device() == flat_.device() && target.storage().id() == flat_.storage().id()) {
    original_.impl()->bump_version();
  } else {
    target.copy_(is_complex(target.dtype()) ? view_as_complex(flat_) : flat_);
  }
}

}  // namespace core::distributed
