#include "libcore/dist/collectives.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "libcore/autograd/grad_mode.h"
#include "libcore/backend/device_registry.h"
#include "libcore/base/fail.h"
#include "libcore/dist/elements.h"
#include "libcore/dist/flat_block.h"
#include "libcore/dist/init.h"
#include "libcore/dist/sparse_sum.h"
#include "libcore/ops/complex.h"
#include "libcore/tensor/factory.h"

namespace core::distributed {
namespace {

using core::detail::fail;
using core::detail::fail_value;

/// The texts of MPI and NCCL for lists that do not fit are others than Gloo's.
bool is_mpi(const Group& group) {
  return group->host_engine() == "mpi";
}

int root_in(const Group& group, int root, const char* what) {
  const int own = group->rank_of(root);
  if (own < 0 && !group->takes_host_memory()) {
    fail_value("Global rank " + std::to_string(root) + " is not part of group");
  }
  if (own < 0) {
    fail((is_mpi(group) ? "ProcessGroupMPI::" : "ProcessGroupGloo::") + std::string(what) +
         ": invalid root rank: " + std::to_string(root));
  }
  return own;
}

std::string sizes_of(const Tensor& tensor) {
  std::string text = "(";
  for (std::int64_t i = 0; i < tensor.dim(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(tensor.size(i));
  return text + ")";
}

std::string dtype_of_tensor(const Tensor& tensor) {
  return "torch." + std::string(name(tensor.dtype()));
}

void check_same_dtypes(const std::vector<Tensor>& list, const Tensor& single) {
  for (const Tensor& tensor : list) {
    if (tensor.dtype() == single.dtype()) continue;
    fail_value("Invalid usage of tensors with different dtypesFound " + dtype_of_tensor(tensor) + " and  " +
               dtype_of_tensor(single));
  }
}

/// Both in the memory of one GPU where it is exchanged there; through the host each may be anywhere.
void check_same_device(const Tensor& output, const Tensor& input, const Group& group) {
  const bool is_on_gpu = group->exchanges_on(output.device()) || group->exchanges_on(input.device());
  if (!is_on_gpu || resolve(output.device()) == resolve(input.device())) return;
  fail_value("Tensors must be CUDA and dense, on one GPU: the output is on " + resolve(output.device()).str() +
             " and the input on " + resolve(input.device()).str());
}

void check_list_of_mpi(const std::vector<Tensor>& list, const Tensor& single, const Group& group,
                       const std::string& what, const char* side) {
  if (static_cast<int>(list.size()) != group->size()) {
    const std::string name = what == "allgather"        ? "All gather"
                             : what == "reduce_scatter" ? "Reduce scatter"
                             : what == "gather"         ? "Gather"
                                                        : "Scatter";
    fail(name + ": number of " + side + " tensors should equal to the world size");
  }
  check_same_dtypes(list, single);
  for (const Tensor& tensor : list) {
    if (tensor.numel() != single.numel()) fail("Tensors are not equal in size or data type");
  }
}

/// Its length alone: tensors of other sizes end as a mismatch.
void check_list_of_nccl(const std::vector<Tensor>& list, const Tensor& single, const Group& group,
                        const std::string& what) {
  if (static_cast<int>(list.size()) != group->size()) {
    fail_value("Tensor list input to scatter/gather must match number of collective participants");
  }
  check_same_dtypes(list, single);
  for (const Tensor& tensor : list) {
    if (tensor.device().type() != single.device().type()) fail_value("Tensors must be CUDA and dense");
    if (what == "allgather" || tensor.numel() == single.numel()) continue;
    fail_value("All tensor operands to scatter/gather must have the same number of elements");
  }
}

/// Every tensor of the list as large as the single one; errors name `what`.
void check_list(const std::vector<Tensor>& list, const Tensor& single, const Group& group, const std::string& what,
                const char* side) {
  if (is_mpi(group)) return check_list_of_mpi(list, single, group, what, side);
  if (group->exchanges_on(single.device())) return check_list_of_nccl(list, single, group, what);
  if (static_cast<int>(list.size()) != group->size()) {
    fail("ProcessGroupGloo::" + what + ": invalid " + side + " tensor list at index 0 (expected length " +
         std::to_string(group->size()) + ", got " + std::to_string(list.size()) + ")");
  }
  check_same_dtypes(list, single);
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].sizes() == single.sizes()) continue;
    fail("ProcessGroupGloo::" + what + ": invalid tensor size at index " + std::to_string(i) + " (expected " +
         sizes_of(single) + ", got " + sizes_of(list[i]) + ")");
  }
}

void check_reduction(const Tensor& tensor, ReduceOp op, const Group& group) {
  const bool adds = op == ReduceOp::sum || op == ReduceOp::avg || op == ReduceOp::premul_sum;
  const bool is_on_gpu = group->rank() >= 0 && group->exchanges_on(tensor.device());
  if (is_complex(tensor.dtype())) {
    if (adds && (is_on_gpu || op != ReduceOp::premul_sum)) return;
    fail_value("all_reduce does not support RedOpType." + std::string(name(op)) + " on complex tensors");
  }
  if (is_on_gpu) return check_nccl_reduction(tensor.dtype(), op);
  if (op == ReduceOp::avg && !is_floating(tensor.dtype())) {
    const std::string type = tensor.dtype() == DType::i64 ? "Long" : tensor.dtype() == DType::i32 ? "Int" : "";
    fail("result type Float can't be cast to the desired output type " +
         (type.empty() ? std::string(name(tensor.dtype())) : type));
  }
  reduce_function(tensor.dtype(), op);
}

void divide(const Tensor& tensor, ReduceOp op, int size) {
  if (op != ReduceOp::avg) return;
  const NoGradGuard no_grad;
  tensor.div_(static_cast<std::int64_t>(size));
}

/// One flat block of so many elements where the engine wants them.
Tensor flat_block(std::int64_t count, DType dtype, const std::optional<Device>& device) {
  const NoGradGuard no_grad;
  return empty({count}, {.dtype = dtype, .device = device.value_or(DeviceType::cpu)});
}
/// For `count` tensors like this one.
Tensor block_for(const Tensor& like, std::int64_t count, const std::optional<Device>& device) {
  return flat_block(count * like.numel(), like.dtype(), device);
}

/// What is left to do where the sum is wanted.
std::function<void()> finish_reduction(const Elements& out, ReduceOp op, int size) {
  return [out, op, size] {
    if (!out.device()) divide(out.flat(), op, size);  // NCCL takes the mean itself
    out.give_back();
  };
}

}  // namespace

Work all_reduce(const Tensor& tensor, const ReduceOptions& options) {
  const Group group = chosen(options.group);
  if (!tensor.is_sparse()) check_reduction(tensor, options.op, group);
  if (!takes_part(group, "all_reduce")) return {};
  if (tensor.is_sparse() && !group->takes_host_memory()) {
    fail("NCCL does not support all_reduce with sparse tensors. Please use dense tensors instead.");
  }
  if (tensor.is_sparse()) return sum_sparse(tensor, group, options);
  const Elements copy(tensor, group);
  const ReduceOp op = options.op;
  return started(group,
                 {.fingerprint = print_of("ALLREDUCE", {tensor}, std::string(name(op))),
                  .what = "all_reduce",
                  .label = options.label,
                  .run =
                      [copy, op, data = copy.data()](Engine& engine, const Call& call) {
                        engine.all_reduce(data, copy.flat().numel(), copy.flat().dtype(), op, call);
                      },
                  .finish = finish_reduction(copy, op, group->size()),
                  .device = copy.device(),
                  .factor = options.factor},
                 options.async_op);
}

Work reduce(const Tensor& tensor, int dst, const ReduceOptions& options) {
  const Group group = chosen(options.group);
  check_reduction(tensor, options.op, group);
  if (!takes_part(group, "reduce")) return {};
  const int root = root_in(group, dst, "reduce");
  const bool is_root = root == group->rank();
  // The engine uses the memory of every rank; NCCL that of the root alone.
  const bool is_used = is_root || group->exchanges_on(tensor.device());
  const Elements copy(is_used ? tensor : tensor.detach().clone(), group);
  const ReduceOp op = options.op;
  return started(group,
                 {.fingerprint = print_of("REDUCE", {tensor}, std::string(name(op)) + " " + std::to_string(dst)),
                  .what = "reduce",
                  .label = options.label,
                  .run =
                      [copy, op, root, data = copy.data()](Engine& engine, const Call& call) {
                        engine.reduce(data, copy.flat().numel(), copy.flat().dtype(), op, root, call);
                      },
                  .finish = is_root ? finish_reduction(copy, op, group->size()) : nullptr,
                  .device = copy.device(),
                  .factor = options.factor},
                 options.async_op);
}

Work broadcast(const Tensor& tensor, int src, const CollectiveOptions& options) {
  const Group group = chosen(options.group);
  if (!takes_part(group, "broadcast")) return {};
  const int root = root_in(group, src, "broadcast");
  const Elements copy(tensor, group);
  return started(group,
                 {.fingerprint = print_of("BROADCAST", {tensor}, std::to_string(src)),
                  .what = "broadcast",
                  .label = options.label,
                  .run = [copy, root, data = copy.data()](
                             Engine& engine, const Call& call) { engine.broadcast(data, copy.bytes(), root, call); },
                  .finish =
                      [copy, is_root = root == group->rank()] {
                        if (!is_root) copy.give_back();
                      },
                  .device = copy.device()},
                 options.async_op);
}

namespace {

/// NCCL has none: each rank in turn gives its part to all others, as PyTorch does it.
Work all_gather_uneven(const std::vector<Tensor>& outputs, const Tensor& input, const Group& group,
                       const CollectiveOptions& options) {
  const auto own = static_cast<std::size_t>(group->rank());
  if (outputs[own].numel() != input.numel()) {
    fail_value("Output tensor size must match input tensor size on rank " + std::to_string(own));
  }
  std::vector<std::int64_t> bytes;
  std::int64_t total = 0;
  std::int64_t own_place = 0;
  for (const Tensor& output : outputs) {
    if (bytes.size() == own) own_place = total;
    bytes.push_back(output.nbytes());
    total += output.numel();
  }
  const Tensor block = flat_block(total, outputs[0].dtype(), resolve(input.device()));
  {
    const NoGradGuard no_grad;
    block.narrow(0, own_place, outputs[own].numel()).copy_(input.detach().reshape({-1}));
  }
  return started(group,
                 {.fingerprint = print_of("ALLGATHER", outputs),
                  .what = "all_gather",
                  .label = options.label,
                  .run =
                      [block, bytes, data = block.mutable_raw_data()](Engine& engine, const Call& call) {
                        char* part = static_cast<char*>(data);
                        for (std::size_t q = 0; q < bytes.size(); part += bytes[q++]) {
                          engine.broadcast(part, bytes[q], static_cast<int>(q), call);
                        }
                      },
                  .finish = [block, outputs] { take_apart(block, outputs); },
                  .device = block.device()},
                 options.async_op);
}

}  // namespace

Work all_gather(const std::vector<Tensor>& outputs, const Tensor& input, const CollectiveOptions& options) {
  const Group group = chosen(options.group);
  if (!takes_part(group, "all_gather")) return {};
  check_same_dtypes(outputs, input);
  check_list(outputs, input, group, "allgather", "output");
  const Elements in(input, group);
  const auto is_other = [&](const Tensor& output) { return output.numel() != input.numel(); };
  if (std::any_of(outputs.begin(), outputs.end(), is_other)) return all_gather_uneven(outputs, input, group, options);
  const Tensor block = block_for(input, group->size(), in.device());
  return started(group,
                 {.fingerprint = print_of("ALLGATHER", {input}),
                  .what = "all_gather",
                  .label = options.label,
                  .run = [in, block, from = in.data(), to = block.mutable_raw_data()](
                             Engine& engine, const Call& call) { engine.all_gather(from, to, in.bytes(), call); },
                  .finish = [block, outputs] { take_apart(block, outputs); },
                  .device = in.device()},
                 options.async_op);
}

Work all_gather_into_tensor(const Tensor& output, const Tensor& input, const CollectiveOptions& options) {
  const Group group = chosen(options.group);
  if (!takes_part(group, "all_gather_into_tensor")) return {};
  check_same_dtypes({output}, input);
  check_same_device(output, input, group);
  if (output.numel() != input.numel() * group->size()) {
    // PyTorch splits the output into chunks of equal rows, and names the first that does not fit.
    const std::int64_t rows = (output.size(0) + group->size() - 1) / group->size();
    std::int64_t left = output.size(0);
    for (int i = 0; i < group->size(); ++i) {
      const std::int64_t part = std::min(rows, left);
      left -= part;
      if (input.dim() == 1 && part == input.size(0)) continue;
      fail((is_mpi(group) ? "ProcessGroupMPI" : "ProcessGroupGloo") +
           std::string("::allgather: invalid tensor size at index ") + std::to_string(i) + " (expected " +
           sizes_of(input) + ", got (" + std::to_string(part) + "))");
    }
  }
  const Elements in(input, group);
  const Elements out(output, group);
  return started(group,
                 {.fingerprint = print_of("_ALLGATHER_BASE", {input}),
                  .what = "all_gather_into_tensor",
                  .label = options.label,
                  .run = [in, out, from = in.data(), to = out.data()](
                             Engine& engine, const Call& call) { engine.all_gather(from, to, in.bytes(), call); },
                  .finish = [out] { out.give_back(); },
                  .device = in.device()},
                 options.async_op);
}

Work gather(const Tensor& input, const std::vector<Tensor>& outputs, int dst, const CollectiveOptions& options) {
  const Group group = chosen(options.group);
  if (!takes_part(group, "gather")) return {};
  const int root = root_in(group, dst, "gather");
  const bool is_root = root == group->rank();
  if (is_root && outputs.empty()) fail_value("Argument ``gather_list`` must be specified on destination rank.");
  if (!is_root && !outputs.empty())
    fail_value("Argument ``gather_list`` must NOT be specified on non-destination ranks.");
  if (is_root) check_list(outputs, input, group, "gather", "output");
  const Elements in(input, group);
  const Tensor block = block_for(input, is_root ? group->size() : 0, in.device());
  return started(group,
                 {.fingerprint = print_of("GATHER", {input}, std::to_string(dst)),
                  .what = "gather",
                  .label = options.label,
                  .run = [in, block, root, from = in.data(), to = block.mutable_raw_data()](
                             Engine& engine, const Call& call) { engine.gather(from, to, in.bytes(), root, call); },
                  .finish = [block, outputs] { take_apart(block, outputs); },
                  .device = in.device()},
                 options.async_op);
}

Work scatter(const Tensor& output, const std::vector<Tensor>& inputs, int src, const CollectiveOptions& options) {
  const Group group = chosen(options.group);
  if (!takes_part(group, "scatter")) return {};
  const int root = root_in(group, src, "scatter");
  const bool is_root = root == group->rank();
  if (is_root && inputs.empty()) fail_value("Argument ``scatter_list`` must be specified on source rank.");
  if (!is_root && !inputs.empty()) fail_value("Argument ``scatter_list`` must NOT be specified on non-source ranks.");
  if (is_root) check_list(inputs, output, group, "scatter", "input");
  const Elements out(output, group);
  const Tensor block = block_for(output, is_root ? group->size() : 0, out.device());
  put_together(block, inputs);
  return started(group,
                 {.fingerprint = print_of("SCATTER", {output}, std::to_string(src)),
                  .what = "scatter",
                  .label = options.label,
                  .run = [out, block, root, from = block.raw_data(), to = out.data()](
                             Engine& engine, const Call& call) { engine.scatter(from, to, out.bytes(), root, call); },
                  .finish = [out] { out.give_back(); },
                  .device = out.device()},
                 options.async_op);
}

Work reduce_scatter(const Tensor& output, const std::vector<Tensor>& inputs, const ReduceOptions& options) {
  const Group group = chosen(options.group);
  check_reduction(output, options.op, group);
  if (!takes_part(group, "reduce_scatter")) return {};
  check_list(inputs, output, group, "reduce_scatter", "input");
  const Elements out(output, group);
  const Tensor block = block_for(output, group->size(), out.device());
  put_together(block, inputs);
  const ReduceOp op = options.op;
  auto run = [block, out, op, rank = group->rank(), size = group->size(), from = block.mutable_raw_data(),
              to = out.data()](Engine& engine, const Call& call) {
    if (engine.reduce_scatter(from, to, out.flat().numel(), out.flat().dtype(), op, call)) return;
    // One reduction to each rank, as PyTorch does it; that makes the order of addends.
    for (int q = 0; q < size; ++q) {
      void* part = static_cast<char*>(from) + q * out.bytes();
      Call each = call;
      each.tag += static_cast<std::uint32_t>(q);
      engine.reduce(part, out.flat().numel(), out.flat().dtype(), op, q, each);
      if (q == rank && out.bytes() > 0) std::memcpy(to, part, static_cast<std::size_t>(out.bytes()));
    }
  };
  return started(group,
                 {.fingerprint = print_of("REDUCE_SCATTER", {output}, std::string(name(op))),
                  .what = "reduce_scatter",
                  .label = options.label,
                  .run = std::move(run),
                  .finish = finish_reduction(out, op, group->size()),
                  .device = out.device(),
                  .factor = options.factor},
                 options.async_op);
}

Work reduce_scatter_tensor(const Tensor& output, const Tensor& input, const ReduceOptions& options) {
  const Group group = chosen(options.group);
  check_reduction(output, options.op, group);
  if (!takes_part(group, "reduce_scatter_tensor")) return {};
  check_same_dtypes({output}, input);
  check_same_device(output, input, group);
  if (output.numel() * group->size() != input.numel()) {
    fail(std::string(is_mpi(group) ? "[ProcessGroupMPI.cpp]" : "[ProcessGroupGloo.cpp]") +
         " Check failed: outputShape[0] * worldSize == inputShape[0] (" +
         std::to_string(output.size(0) * group->size()) + " vs. " + std::to_string(input.size(0)) + ").");
  }
  const bool is_used_up = !group->exchanges_on(input.device());
  const Elements whole(is_used_up ? input.detach().clone() : input, group);
  const Elements out(output, group);
  const ReduceOp op = options.op;
  auto run = [whole, out, op, rank = group->rank(), data = whole.data(), to = out.data()](Engine& engine,
                                                                                          const Call& call) {
    if (engine.reduce_scatter(data, to, out.flat().numel(), out.flat().dtype(), op, call)) return;
    engine.all_reduce(data, whole.flat().numel(), whole.flat().dtype(), op, call);
    const auto bytes = static_cast<std::size_t>(out.bytes());
    if (bytes > 0) std::memcpy(to, static_cast<const char*>(data) + static_cast<std::size_t>(rank) * bytes, bytes);
  };
  return started(group,
                 {.fingerprint = print_of("_REDUCE_SCATTER_BASE", {input}, std::string(name(op))),
                  .what = "reduce_scatter_tensor",
                  .label = options.label,
                  .run = std::move(run),
                  .finish = finish_reduction(out, op, group->size()),
                  .device = out.device(),
                  .factor = options.factor},
                 options.async_op);
}

namespace {

/// What a rank sends to itself is copied, and must have its place.
void check_own_part(const std::vector<std::int64_t>& in_bytes, const std::vector<std::int64_t>& out_bytes, int rank) {
  const std::int64_t in = in_bytes[static_cast<std::size_t>(rank)];
  const std::int64_t out = out_bytes[static_cast<std::size_t>(rank)];
  if (in == out) return;
  fail("rank " + std::to_string(rank) + " sends itself " + std::to_string(in) + " bytes, and has room for " +
       std::to_string(out) + " of them: inLengthPerRank[myRank] == outLengthPerRank[myRank]");
}

}  // namespace

Work all_to_all(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                const CollectiveOptions& options) {
  const Group group = chosen(options.group);
  if (!takes_part(group, "all_to_all")) return {};
  const auto size = static_cast<std::size_t>(group->size());
  if (is_mpi(group) && inputs.size() != size) fail("Number of input tensors are not equal to group size");
  if (is_mpi(group) && outputs.size() != size) fail("Number of output tensors are not equal to group size");
  if ((outputs.size() != size || inputs.size() != size) && !group->takes_host_memory()) {
    fail_value("Tensor list input to scatter/gather must match number of collective participants");
  }
  if (outputs.size() != size || inputs.size() != size) {
    fail("ProcessGroupGloo::alltoall: invalid tensor list (expected length " + std::to_string(size) + ", got " +
         std::to_string(outputs.size()) + " outputs and " + std::to_string(inputs.size()) + " inputs)");
  }
  check_same_dtypes(outputs, inputs[0]);
  check_same_dtypes(inputs, inputs[0]);
  const auto total = [](const std::vector<Tensor>& list) {
    return std::accumulate(list.begin(), list.end(), std::int64_t{0},
                           [](auto sum, const Tensor& t) { return sum + t.numel(); });
  };
  std::optional<Device> device;
  if (group->exchanges_on(inputs[0].device())) device = resolve(inputs[0].device());
  if (device) check_nccl_dtype(inputs[0].dtype());
  const Tensor from = flat_block(total(inputs), inputs[0].dtype(), device);
  const Tensor to = flat_block(total(outputs), inputs[0].dtype(), device);
  put_together(from, inputs);
  std::vector<std::int64_t> in_bytes;
  std::vector<std::int64_t> out_bytes;
  for (const Tensor& tensor : inputs) in_bytes.push_back(tensor.nbytes());
  for (const Tensor& tensor : outputs) out_bytes.push_back(tensor.nbytes());
  check_own_part(in_bytes, out_bytes, group->rank());
  Fingerprint print{.op = "ALLTOALL"};
  return started(
      group,
      {.fingerprint = print,
       .what = "all_to_all",
       .label = options.label,
       .run = [from, to, in_bytes, out_bytes, in = from.raw_data(), out = to.mutable_raw_data()](
                  Engine& engine, const Call& call) { engine.all_to_all(in, in_bytes, out, out_bytes, call); },
       .finish = [to, outputs] { take_apart(to, outputs); },
       .device = device},
      options.async_op);
}

namespace {

/// Bytes to, or from, each rank: `splits` rows of the tensor, or equal parts.
std::vector<std::int64_t> bytes_of_parts(const Tensor& tensor, const std::vector<std::int64_t>& splits, int size) {
  const std::int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
  std::vector<std::int64_t> parts = splits;
  if (parts.empty()) {
    if (rows % size != 0) fail("Tensor's dim 0 does not divide equally across group size");
    parts.assign(static_cast<std::size_t>(size), rows / size);
  }
  if (static_cast<int>(parts.size()) != size) fail("Number of tensor splits not equal to group size");
  if (std::accumulate(parts.begin(), parts.end(), std::int64_t{0}) != rows) {
    fail("Split sizes doesn't match total dim 0 size");
  }
  for (std::int64_t& part : parts) part *= rows == 0 ? 0 : tensor.nbytes() / rows;
  return parts;
}

}  // namespace

Work all_to_all_single(const Tensor& output, const Tensor& input, const AllToAllOptions& options) {
  const Group group = chosen(options.group);
  if (!takes_part(group, "all_to_all_single")) return {};
  check_same_dtypes({output}, input);
  check_same_device(output, input, group);
  const std::vector<std::int64_t> out_bytes = bytes_of_parts(output, options.output_split_sizes, group->size());
  const std::vector<std::int64_t> in_bytes = bytes_of_parts(input, options.input_split_sizes, group->size());
  check_own_part(in_bytes, out_bytes, group->rank());
  const Elements in(input, group);
  const Elements out(output, group);
  Fingerprint print{.op = "ALLTOALL_BASE"};
  return started(
      group,
      {.fingerprint = print,
       .what = "all_to_all_single",
       .run = [in, out, in_bytes, out_bytes, from = in.data(), to = out.data()](
                  Engine& engine, const Call& call) { engine.all_to_all(from, in_bytes, to, out_bytes, call); },
       .finish = [out] { out.give_back(); },
       .device = in.device()},
      options.async_op);
}

}  // namespace core::distributed
