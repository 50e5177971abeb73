#include "libcore/dist/collectives.h"

#include <cstring>
#include <numeric>
#include <utility>

#include "libcore/autograd/grad_mode.h"
#include "libcore/base/fail.h"
#include "libcore/base/warning.h"
#include "libcore/dist/flat_block.h"
#include "libcore/dist/init.h"
#include "libcore/dist/sparse_sum.h"
#include "libcore/ops/complex.h"
#include "libcore/tensor/factory.h"

namespace core::distributed {
namespace {

using core::detail::fail;
using core::detail::fail_value;

Group chosen(const Group& group) {
  return group ? group : default_group();
}

/// False, with PyTorch's warning, for a rank that has no part in the group.
bool takes_part(const Group& group, const char* what) {
  if (group->rank() >= 0) return true;
  warn("Running " + std::string(what) + " on global rank " + std::to_string(get_rank()) +
       " which does not belong to the given group.");
  return false;
}

/// A tensor's elements in host memory, one after the other: its own, or a copy.
class HostCopy {
 public:
  explicit HostCopy(const Tensor& tensor) : original_(tensor) {
    const NoGradGuard no_grad;
    host_ = tensor.detach().cpu().contiguous();
    if (is_complex(host_.dtype())) host_ = view_as_real(host_);
  }
  const Tensor& host() const { return host_; }
  void* data() const { return host_.mutable_raw_data(); }
  std::int64_t bytes() const { return host_.nbytes(); }
  /// Brings the elements back where they are a copy.
  void give_back() const {
    const NoGradGuard no_grad;
    const Tensor target = original_.detach();
    if (target.device().is_cpu() && target.storage().id() == host_.storage().id()) {
      original_.impl()->bump_version();
    } else {
      target.copy_(is_complex(target.dtype()) ? view_as_complex(host_) : host_);
    }
  }

 private:
  Tensor original_;
  Tensor host_;
};

Fingerprint print_of(const char* op, const std::vector<Tensor>& tensors, std::string detail = {}) {
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

/// Its texts for lists that do not fit are others than Gloo's.
bool is_mpi(const Group& group) {
  return group->backend() == "mpi";
}

int root_in(const Group& group, int root, const char* what) {
  const int own = group->rank_of(root);
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

/// Every tensor of the list as large as the single one; errors name `what`.
void check_list(const std::vector<Tensor>& list, const Tensor& single, const Group& group, const std::string& what,
                const char* side) {
  if (is_mpi(group)) return check_list_of_mpi(list, single, group, what, side);
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

void check_reduction(const Tensor& tensor, ReduceOp op) {
  const bool adds = op == ReduceOp::sum || op == ReduceOp::avg;
  if (is_complex(tensor.dtype())) {
    if (adds) return;
    fail_value("all_reduce does not support RedOpType." + std::string(name(op)) + " on complex tensors");
  }
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

/// One flat block in host memory for `count` tensors like this one.
Tensor block_for(const Tensor& like, std::int64_t count) {
  const NoGradGuard no_grad;
  return empty({count * like.numel()}, {.dtype = like.dtype()});
}

/// What is left to do where the sum is wanted.
std::function<void()> finish_reduction(const HostCopy& out, ReduceOp op, int size) {
  return [out, op, size] {
    divide(out.host(), op, size);
    out.give_back();
  };
}

}  // namespace

Work all_reduce(const Tensor& tensor, const ReduceOptions& options) {
  const Group group = chosen(options.group);
  if (!tensor.is_sparse()) check_reduction(tensor, options.op);
  if (!takes_part(group, "all_reduce")) return {};
  if (tensor.is_sparse()) return sum_sparse(tensor, group, options);
  const HostCopy copy(tensor);
  const ReduceOp op = options.op;
  return started(group,
                 {.fingerprint = print_of("ALLREDUCE", {tensor}, std::string(name(op))),
                  .what = "all_reduce",
                  .label = options.label,
                  .run =
                      [copy, op, data = copy.data()](Engine& engine, const Call& call) {
                        engine.all_reduce(data, copy.host().numel(), copy.host().dtype(), op, call);
                      },
                  .finish = finish_reduction(copy, op, group->size())},
                 options.async_op);
}

Work reduce(const Tensor& tensor, int dst, const ReduceOptions& options) {
  const Group group = chosen(options.group);
  check_reduction(tensor, options.op);
  if (!takes_part(group, "reduce")) return {};
  const int root = root_in(group, dst, "reduce");
  const bool is_root = root == group->rank();
  // The engine uses the memory of every rank.
  const HostCopy copy(is_root ? tensor : tensor.detach().clone());
  const ReduceOp op = options.op;
  return started(group,
                 {.fingerprint = print_of("REDUCE", {tensor}, std::string(name(op)) + " " + std::to_string(dst)),
                  .what = "reduce",
                  .label = options.label,
                  .run =
                      [copy, op, root, data = copy.data()](Engine& engine, const Call& call) {
                        engine.reduce(data, copy.host().numel(), copy.host().dtype(), op, root, call);
                      },
                  .finish = is_root ? finish_reduction(copy, op, group->size()) : nullptr},
                 options.async_op);
}

Work broadcast(const Tensor& tensor, int src, const CollectiveOptions& options) {
  const Group group = chosen(options.group);
  if (!takes_part(group, "broadcast")) return {};
  const int root = root_in(group, src, "broadcast");
  const HostCopy copy(tensor);
  return started(group,
                 {.fingerprint = print_of("BROADCAST", {tensor}, std::to_string(src)),
                  .what = "broadcast",
                  .label = options.label,
                  .run = [copy, root, data = copy.data()](
                             Engine& engine, const Call& call) { engine.broadcast(data, copy.bytes(), root, call); },
                  .finish =
                      [copy, is_root = root == group->rank()] {
                        if (!is_root) copy.give_back();
                      }},
                 options.async_op);
}

Work all_gather(const std::vector<Tensor>& outputs, const Tensor& input, const CollectiveOptions& options) {
  const Group group = chosen(options.group);
  if (!takes_part(group, "all_gather")) return {};
  check_same_dtypes(outputs, input);
  check_list(outputs, input, group, "allgather", "output");
  const HostCopy in(input);
  const Tensor block = block_for(input, group->size());
  return started(group,
                 {.fingerprint = print_of("ALLGATHER", {input}),
                  .what = "all_gather",
                  .label = options.label,
                  .run = [in, block, from = in.data(), to = block.mutable_raw_data()](
                             Engine& engine, const Call& call) { engine.all_gather(from, to, in.bytes(), call); },
                  .finish = [block, outputs] { take_apart(block, outputs); }},
                 options.async_op);
}

Work all_gather_into_tensor(const Tensor& output, const Tensor& input, const CollectiveOptions& options) {
  const Group group = chosen(options.group);
  if (!takes_part(group, "all_gather_into_tensor")) return {};
  check_same_dtypes({output}, input);
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
  const HostCopy in(input);
  const HostCopy out(output);
  return started(group,
                 {.fingerprint = print_of("_ALLGATHER_BASE", {input}),
                  .what = "all_gather_into_tensor",
                  .label = options.label,
                  .run = [in, out, from = in.data(), to = out.data()](
                             Engine& engine, const Call& call) { engine.all_gather(from, to, in.bytes(), call); },
                  .finish = [out] { out.give_back(); }},
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
  const HostCopy in(input);
  const Tensor block = block_for(input, is_root ? group->size() : 0);
  return started(group,
                 {.fingerprint = print_of("GATHER", {input}, std::to_string(dst)),
                  .what = "gather",
                  .label = options.label,
                  .run = [in, block, root, from = in.data(), to = block.mutable_raw_data()](
                             Engine& engine, const Call& call) { engine.gather(from, to, in.bytes(), root, call); },
                  .finish = [block, outputs] { take_apart(block, outputs); }},
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
  const HostCopy out(output);
  const Tensor block = block_for(output, is_root ? group->size() : 0);
  put_together(block, inputs);
  return started(group,
                 {.fingerprint = print_of("SCATTER", {output}, std::to_string(src)),
                  .what = "scatter",
                  .label = options.label,
                  .run = [out, block, root, from = block.raw_data(), to = out.data()](
                             Engine& engine, const Call& call) { engine.scatter(from, to, out.bytes(), root, call); },
                  .finish = [out] { out.give_back(); }},
                 options.async_op);
}

Work reduce_scatter(const Tensor& output, const std::vector<Tensor>& inputs, const ReduceOptions& options) {
  const Group group = chosen(options.group);
  check_reduction(output, options.op);
  if (!takes_part(group, "reduce_scatter")) return {};
  check_list(inputs, output, group, "reduce_scatter", "input");
  const HostCopy out(output);
  const Tensor block = block_for(output, group->size());
  put_together(block, inputs);
  const ReduceOp op = options.op;
  auto run = [block, out, op, rank = group->rank(), size = group->size(), from = block.mutable_raw_data(),
              to = out.data()](Engine& engine, const Call& call) {
    // One reduction to each rank, as PyTorch does it; that makes the order of addends.
    for (int q = 0; q < size; ++q) {
      void* part = static_cast<char*>(from) + q * out.bytes();
      Call each = call;
      each.tag += static_cast<std::uint32_t>(q);
      engine.reduce(part, out.host().numel(), out.host().dtype(), op, q, each);
      if (q == rank && out.bytes() > 0) std::memcpy(to, part, static_cast<std::size_t>(out.bytes()));
    }
  };
  return started(group,
                 {.fingerprint = print_of("REDUCE_SCATTER", {output}, std::string(name(op))),
                  .what = "reduce_scatter",
                  .label = options.label,
                  .run = std::move(run),
                  .finish = finish_reduction(out, op, group->size())},
                 options.async_op);
}

Work reduce_scatter_tensor(const Tensor& output, const Tensor& input, const ReduceOptions& options) {
  const Group group = chosen(options.group);
  check_reduction(output, options.op);
  if (!takes_part(group, "reduce_scatter_tensor")) return {};
  check_same_dtypes({output}, input);
  if (output.numel() * group->size() != input.numel()) {
    fail(std::string(is_mpi(group) ? "[ProcessGroupMPI.cpp]" : "[ProcessGroupGloo.cpp]") +
         " Check failed: outputShape[0] * worldSize == inputShape[0] (" +
         std::to_string(output.size(0) * group->size()) + " vs. " + std::to_string(input.size(0)) + ").");
  }
  const HostCopy whole(input.detach().clone());
  const HostCopy out(output);
  const ReduceOp op = options.op;
  auto run = [whole, out, op, rank = group->rank(), data = whole.data(), to = out.data()](Engine& engine,
                                                                                          const Call& call) {
    engine.all_reduce(data, whole.host().numel(), whole.host().dtype(), op, call);
    const auto bytes = static_cast<std::size_t>(out.bytes());
    if (bytes > 0) std::memcpy(to, static_cast<const char*>(data) + static_cast<std::size_t>(rank) * bytes, bytes);
  };
  return started(group,
                 {.fingerprint = print_of("_REDUCE_SCATTER_BASE", {input}, std::string(name(op))),
                  .what = "reduce_scatter_tensor",
                  .label = options.label,
                  .run = std::move(run),
                  .finish = finish_reduction(out, op, group->size())},
                 options.async_op);
}

Work all_to_all(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                const CollectiveOptions& options) {
  const Group group = chosen(options.group);
  if (!takes_part(group, "all_to_all")) return {};
  const auto size = static_cast<std::size_t>(group->size());
  if (is_mpi(group) && inputs.size() != size) fail("Number of input tensors are not equal to group size");
  if (is_mpi(group) && outputs.size() != size) fail("Number of output tensors are not equal to group size");
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
  const Tensor from = empty({total(inputs)}, {.dtype = inputs[0].dtype()});
  const Tensor to = empty({total(outputs)}, {.dtype = inputs[0].dtype()});
  put_together(from, inputs);
  std::vector<std::int64_t> in_bytes;
  std::vector<std::int64_t> out_bytes;
  for (const Tensor& tensor : inputs) in_bytes.push_back(tensor.nbytes());
  for (const Tensor& tensor : outputs) out_bytes.push_back(tensor.nbytes());
  Fingerprint print{.op = "ALLTOALL"};
  return started(
      group,
      {.fingerprint = print,
       .what = "all_to_all",
       .label = options.label,
       .run = [from, to, in_bytes, out_bytes, in = from.raw_data(), out = to.mutable_raw_data()](
                  Engine& engine, const Call& call) { engine.all_to_all(in, in_bytes, out, out_bytes, call); },
       .finish = [to, outputs] { take_apart(to, outputs); }},
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
  const std::vector<std::int64_t> out_bytes = bytes_of_parts(output, options.output_split_sizes, group->size());
  const std::vector<std::int64_t> in_bytes = bytes_of_parts(input, options.input_split_sizes, group->size());
  const HostCopy in(input);
  const HostCopy out(output);
  Fingerprint print{.op = "ALLTOALL_BASE"};
  return started(
      group,
      {.fingerprint = print,
       .what = "all_to_all_single",
       .run = [in, out, in_bytes, out_bytes, from = in.data(), to = out.data()](
                  Engine& engine, const Call& call) { engine.all_to_all(from, in_bytes, to, out_bytes, call); },
       .finish = [out] { out.give_back(); }},
      options.async_op);
}

Work barrier(const CollectiveOptions& options) {
  const Group group = chosen(options.group);
  if (!takes_part(group, "barrier")) return {};
  return started(group,
                 {.fingerprint = {.op = "BARRIER"},
                  .what = "barrier",
                  .label = options.label,
                  .run = [](Engine& engine, const Call& call) { engine.barrier(call); }},
                 options.async_op);
}

void monitored_barrier(const MonitoredBarrierOptions& options) {
  const Group group = chosen(options.group);
  if (!takes_part(group, "monitored_barrier")) return;
  const Milliseconds timeout = options.timeout.value_or(group->timeout());
  Store& store = group->store();
  const std::string name =
      "monitored_barrier/" + std::to_string(store.add("monitored_barrier/calls/" + std::to_string(group->rank()), 1));
  if (group->rank() != 0) {
    store.set(name + "/" + std::to_string(group->rank()), "");
    try {
      store.wait({name}, timeout);
    } catch (const Error&) {
      fail(
          "Rank " + std::to_string(group->rank()) +
          " successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0. Please "
          "check rank 0 logs for faulty rank.");
    }
    return;
  }
  const Deadline deadline = deadline_after(timeout);
  std::string missing;
  int count = 0;
  for (int rank = 1; rank < group->size(); ++rank) {
    const auto left = std::chrono::duration_cast<Milliseconds>(deadline - std::chrono::steady_clock::now());
    try {
      store.wait({name + "/" + std::to_string(rank)}, std::max(left, Milliseconds(1)));
      continue;
    } catch (const Error&) {
      missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
      ++count;
    }
    if (!options.wait_all_ranks) break;
  }
  if (count > 0) {
    fail("[Rank 0]: Ranks " + missing + " failed to pass monitoredBarrier in " + std::to_string(timeout.count()) +
         " ms");
  }
  store.set(name, "");
}

namespace {

Work message(const Tensor& tensor, int peer, const MessageOptions& options, bool is_send) {
  const Group group = chosen(options.group);
  const std::string what = is_send ? "send" : "recv";
  if (!takes_part(group, what.c_str())) return {};
  if (peer == get_rank()) {
    fail_value(
        is_send
            ? "Invalid destination rank: destination rank should not be the same as the rank of the current process."
            : "Invalid source rank: source rank should not be the same as the rank of the current process.");
  }
  const int other = group->rank_of(peer);
  if (other < 0) fail_value("Global rank " + std::to_string(peer) + " is not part of group");
  if (is_mpi(group) && options.tag > kLargestMpiTag) {
    fail_value("tag " + std::to_string(options.tag) +
               " is larger than the backend mpi allows: " + std::to_string(kLargestMpiTag));
  }
  const HostCopy copy(tensor);
  Request request{.fingerprint = print_of("MESSAGE", {tensor}),
                  .what = what + (is_send ? " to rank " : " from rank ") + std::to_string(peer),
                  .is_message = true,
                  .message_tag = options.tag};
  request.run = [copy, other, is_send, data = copy.data()](Engine& engine, const Call& call) {
    if (is_send) {
      engine.send(data, copy.bytes(), other, call);
    } else {
      engine.receive(data, copy.bytes(), other, call);
    }
  };
  if (!is_send) request.finish = [copy] { copy.give_back(); };
  return group->start(std::move(request));
}

}  // namespace

Work isend(const Tensor& tensor, int dst, const MessageOptions& options) {
  return message(tensor, dst, options, true);
}
Work irecv(const Tensor& tensor, int src, const MessageOptions& options) {
  return message(tensor, src, options, false);
}
void send(const Tensor& tensor, int dst, const MessageOptions& options) {
  isend(tensor, dst, options).wait();
}
int recv(const Tensor& tensor, int src, const MessageOptions& options) {
  irecv(tensor, src, options).wait();
  return src;
}

namespace {

Tensor text_tensor(const std::string& text, std::int64_t size) {
  const Tensor bytes = zeros({size}, {.dtype = DType::u8});
  if (!text.empty()) std::memcpy(bytes.mutable_raw_data(), text.data(), text.size());
  return bytes;
}
std::string text_in(const Tensor& bytes, std::int64_t size) {
  return std::string(static_cast<const char*>(bytes.raw_data()), static_cast<std::size_t>(size));
}

}  // namespace

std::string broadcast_object(const std::string& text, int src, const Group& given) {
  const Group group = chosen(given);
  const Tensor size = zeros({1}, {.dtype = DType::i64});
  const bool is_source = group->rank_of(src) == group->rank();
  if (is_source) size.fill_(static_cast<std::int64_t>(text.size()));
  broadcast(size, src, {.group = group, .label = "size of an object"});
  const auto count = size.item<std::int64_t>();
  const Tensor bytes = text_tensor(is_source ? text : "", count);
  broadcast(bytes, src, {.group = group, .label = "object"});
  return text_in(bytes, count);
}

std::vector<std::string> all_gather_object(const std::string& text, const Group& given) {
  const Group group = chosen(given);
  const Tensor own = zeros({1}, {.dtype = DType::i64});
  own.fill_(static_cast<std::int64_t>(text.size()));
  const Tensor sizes = zeros({group->size()}, {.dtype = DType::i64});
  all_gather_into_tensor(sizes, own, {.group = group, .label = "sizes of objects"});
  const std::vector<std::int64_t> counts = sizes.to_vector<std::int64_t>();
  const std::int64_t most = *std::max_element(counts.begin(), counts.end());
  const Tensor all = zeros({group->size() * most}, {.dtype = DType::u8});
  all_gather_into_tensor(all, text_tensor(text, most), {.group = group, .label = "objects"});
  std::vector<std::string> texts;
  for (int rank = 0; rank < group->size(); ++rank) {
    texts.push_back(text_in(all.narrow(0, rank * most, most), counts[static_cast<std::size_t>(rank)]));
  }
  return texts;
}

}  // namespace core::distributed
