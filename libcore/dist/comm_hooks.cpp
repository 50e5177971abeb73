#include "libcore/dist/comm_hooks.h"

#include "libcore/autograd/grad_mode.h"
#include "libcore/dist/init.h"
#include "libcore/dist/sparse_sum.h"

namespace core::distributed {
namespace {

Group or_default(const Group& group) {
  return group ? group : default_group();
}

/// The sum over the ranks of a tensor that holds this rank's part of the mean.
CommFuture mean_of(const Tensor& tensor, const Group& group) {
  divide_by(tensor, static_cast<double>(group->size()));
  return {all_reduce(tensor, {.group = group, .async_op = true, .label = "hook"}), tensor};
}

/// Back into the buffer, whatever its type.
std::function<Tensor(const Tensor&)> written_to(const Tensor& buffer) {
  return [buffer](const Tensor& value) {
    if (buffer.is_sparse()) return value.to(buffer.dtype());
    buffer.copy_(value);
    return buffer;
  };
}

CommHook compress(DType dtype, Group group) {
  return [dtype, group = std::move(group)](GradBucket& bucket) {
    return mean_of(bucket.buffer().to(dtype), or_default(group)).then(written_to(bucket.buffer()));
  };
}

CommHook compress_for(DType dtype, CommHook hook) {
  return [dtype, hook = std::move(hook)](GradBucket& bucket) {
    const Tensor buffer = bucket.buffer();
    bucket.set_buffer(buffer.to(dtype));
    return hook(bucket).then(written_to(buffer));
  };
}

}  // namespace

void GradBucket::set_buffer(Tensor buffer) {
  const NoGradGuard no_grad;
  for (Tensor& gradient : gradients_) {
    const std::int64_t at = gradient.storage_offset() - buffer_.storage_offset();
    gradient = buffer.as_strided(gradient.sizes(), gradient.strides(), buffer.storage_offset() + at);
  }
  buffer_ = std::move(buffer);
}

CommHook allreduce_hook(Group group) {
  return [group = std::move(group)](GradBucket& bucket) { return mean_of(bucket.buffer(), or_default(group)); };
}

CommHook fp16_compress_hook(Group group) {
  return compress(DType::f16, std::move(group));
}
CommHook bf16_compress_hook(Group group) {
  return compress(DType::bf16, std::move(group));
}
CommHook fp16_compress_wrapper(CommHook hook) {
  return compress_for(DType::f16, std::move(hook));
}
CommHook bf16_compress_wrapper(CommHook hook) {
  return compress_for(DType::bf16, std::move(hook));
}

CommHook noop_hook() {
  return [](GradBucket& bucket) { return CommFuture(bucket.buffer()); };
}

}  // namespace core::distributed
