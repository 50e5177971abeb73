#include "libcore/tensor/random_on_device.h"

#include <algorithm>
#include <numeric>

#include "libcore/autograd/grad_mode.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/graph_random.h"
#include "libcore/backend/nn_table.h"
#include "libcore/backend/op_tables.h"
#include "libcore/backend/random_stream.h"
#include "libcore/base/error.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_batch.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/tensor.h"

namespace core::detail {
namespace {

Shape inverse(const Shape& order) {
  Shape back(order.size(), 0);
  for (std::size_t i = 0; i < order.size(); ++i)
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  return back;
}

/// REQUIRES: x is contiguous. `width`: how many neighbours a thread makes.
DroppedOut dropped_out(const Tensor& x, double p, int width) {
  const OpScope scope("native_dropout", x);
  DroppedOut result{empty(x.sizes(), {.dtype = x.dtype(), .device = x.device()}),
                    empty(x.sizes(), {.dtype = DType::boolean, .device = x.device()})};
  Generator generator = default_generator(x.device());
  const RandomTable* table = backend_for(x.device()).ops().random;
  const auto kernel = table == nullptr ? nullptr : table->fill.at(RandomOp::dropout, x.dtype());
  if (kernel == nullptr) {
    throw Error(ErrorCode::not_implemented,
                std::string("\"fused_dropout\" not implemented for '") + scalar_type_name(x.dtype()) + "'");
  }
  draw_on_device(x.device(), generator, random_offset_step(x.numel(), 4), [&](RandomParams params) {
    params.out = result.out.mutable_raw_data();
    params.in = x.raw_data();
    params.kept = static_cast<bool*>(result.kept.mutable_raw_data());
    params.count = x.numel();
    params.a = 1 - p;
    params.size = static_cast<std::uint64_t>(width);
    kernel(params);
  });
  return result;
}

}  // namespace

void draw_on_device(Device device, const Generator& generator, std::uint64_t used,
                    const std::function<void(const RandomParams&)>& run) {
  RandomParams params{};
  note_random_draw();
  RandomStream& stream = generator.stream();
  if (GraphRandom* graph = capturing_random(device)) {
    const GraphRandom::Place place = graph->draw(stream.shared_from_this(), take_numbers, used);
    params.state = place.state;
    params.offset = place.offset;
    return run(params);
  }
  const std::scoped_lock lock(stream.mutex);
  params.seed = stream.seed;
  params.offset = stream.offset;
  params.stream = &stream;
  run(params);
  stream.offset += used;
}

Shape memory_order(const Tensor& x) {
  Shape dims(static_cast<std::size_t>(x.dim()), 0);
  std::iota(dims.begin(), dims.end(), 0);
  std::stable_sort(dims.begin(), dims.end(), [&](auto a, auto b) { return x.stride(a) > x.stride(b); });
  return dims;
}

DroppedOut cuda_dropped_out(const Tensor& x, double p) {
  const NoGradGuard no_history;
  const Shape order = memory_order(x);
  const Tensor in_memory_order = x.detach().permute(order);
  const int width = in_memory_order.is_contiguous() ? dropout_width(reinterpret_cast<std::uintptr_t>(x.raw_data()),
                                                                    x.numel(), bit_width(x.dtype()) / 8)
                                                    : 1;
  if (width == 1) return dropped_out(x.detach().contiguous(), p, 1);
  DroppedOut result = dropped_out(in_memory_order, p, width);
  const Shape back = inverse(order);
  return {result.out.permute(back), result.kept.permute(back)};
}

Tensor cuda_dropout_grad(const Tensor& output_grad, const Tensor& kept, double scale) {
  const NoGradGuard no_history;
  const NnTable* table = raw::backend_of(output_grad).ops().nn;
  const auto kernel = table == nullptr ? nullptr : table->masked_scale[static_cast<std::size_t>(output_grad.dtype())];
  if (kernel == nullptr || !kept.permute(memory_order(kept)).is_contiguous()) return {};
  Tensor grad = output_grad, out = raw::make_like(kept, output_grad.dtype());
  if (grad.strides() != kept.strides()) {
    grad = raw::make_like(kept, output_grad.dtype());
    raw::copy_into(grad, output_grad);
  }
  kernel({kept.numel(), scale, grad.raw_data(), static_cast<const bool*>(kept.raw_data()), out.mutable_raw_data()});
  return out;
}

}  // namespace core::detail
