#pragma once
// Collectives: what all ranks of a group do together with their tensors. As torch.distributed's functions, in place
// unless said; each returns a Work, which has ended unless `async_op` is set. All ranks call the same, in the same
// order. Tensors on a GPU go from GPU to GPU over
// the backend nccl (whose sums have an order of their own), through host memory over the others. Tensors may have any
// strides. Thread safety: all calls; but which of two threads comes first must be the same on all ranks. Errors:
// Error(value) and Error(runtime) with PyTorch's texts for what does not fit; what goes wrong on the way:
// process_group.h. Use: core::distributed::all_reduce(t); core::distributed::broadcast(t, 0, {.async_op =
// true}).wait();

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libcore/dist/process_group.h"
#include "libcore/dist/reduce_op.h"
#include "libcore/tensor/tensor.h"

namespace core::distributed {

struct CollectiveOptions {
  Group group = {};        ///< the default group
  bool async_op = false;   ///< returns at once
  std::string label = {};  ///< said in errors: "bucket 2 of 4"
};
struct ReduceOptions {
  ReduceOp op = ReduceOp::sum;
  Group group = {};
  bool async_op = false;
  std::string label = {};
  double factor = 1;  ///< of ReduceOp::premul_sum
};

// Ranks such as `src` and `dst` are those of the default group.

/// Every rank gets the sum (or what `op` says) of all. Of sparse tensors (ops/sparse.h) the sum alone, which has each
/// place once; no other collective takes one.
Work all_reduce(const Tensor& tensor, const ReduceOptions& options = {});
/// Rank `dst` gets it; the others' tensors stay as they are.
Work reduce(const Tensor& tensor, int dst, const ReduceOptions& options = {});
Work broadcast(const Tensor& tensor, int src, const CollectiveOptions& options = {});
/// outputs[r] becomes rank r's input. Errors: "ProcessGroupGloo::allgather: invalid output tensor list at index 0
/// (expected length 2, got 1)", "... invalid tensor size at index 0 (expected (4), got (3))".
Work all_gather(const std::vector<Tensor>& outputs, const Tensor& input, const CollectiveOptions& options = {});
/// One after the other along dimension 0 of `output`.
Work all_gather_into_tensor(const Tensor& output, const Tensor& input, const CollectiveOptions& options = {});
/// Only `dst` gives outputs. Error(value) "Argument ``gather_list`` must be specified on destination rank.".
Work gather(const Tensor& input, const std::vector<Tensor>& outputs, int dst, const CollectiveOptions& options = {});
/// Only `src` gives inputs. Error(value) "Argument ``scatter_list`` must NOT be specified on non-source ranks.".
Work scatter(const Tensor& output, const std::vector<Tensor>& inputs, int src, const CollectiveOptions& options = {});
/// Rank r gets the sum of all ranks' inputs[r].
Work reduce_scatter(const Tensor& output, const std::vector<Tensor>& inputs, const ReduceOptions& options = {});
/// Rank r gets part r, along dimension 0, of the sum.
Work reduce_scatter_tensor(const Tensor& output, const Tensor& input, const ReduceOptions& options = {});
/// Rank q gets inputs[q]; outputs[q] comes from rank q.
Work all_to_all(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                const CollectiveOptions& options = {});

struct AllToAllOptions {
  std::vector<std::int64_t> output_split_sizes = {};  ///< rows from each rank; equal ones
  std::vector<std::int64_t> input_split_sizes = {};   ///< rows to each rank
  Group group = {};
  bool async_op = false;
};
/// Parts along dimension 0. Errors: "Split sizes doesn't match total dim 0 size", "Tensor's dim 0 does not divide
/// equally across group size".
Work all_to_all_single(const Tensor& output, const Tensor& input, const AllToAllOptions& options = {});

/// Until all ranks have called it.
Work barrier(const CollectiveOptions& options = {});
struct MonitoredBarrierOptions {
  Group group = {};
  std::optional<Milliseconds> timeout = {};  ///< the group's
  bool wait_all_ranks = false;               ///< name all that did not come, not the first alone
};
/// A barrier whose rank 0 says who did not come: "[Rank 0]: Ranks 1, 2 failed to pass monitoredBarrier in 1000 ms".
void monitored_barrier(const MonitoredBarrierOptions& options = {});

struct MessageOptions {
  Group group = {};
  std::uint32_t tag = 0;  ///< messages with other tags do not meet
};
/// Returns when the other side has received it. Error(value) "Invalid destination rank: destination rank should not be
/// the same as the rank of the current process.".
void send(const Tensor& tensor, int dst, const MessageOptions& options = {});
/// Gives `src`.
int recv(const Tensor& tensor, int src, const MessageOptions& options = {});
/// The tensor must stay as it is until the work has ended.
Work isend(const Tensor& tensor, int dst, const MessageOptions& options = {});
Work irecv(const Tensor& tensor, int src, const MessageOptions& options = {});

/// Every rank gets rank `src`'s text.
std::string broadcast_object(const std::string& text, int src, const Group& group = {});
/// Every rank's text, in order.
std::vector<std::string> all_gather_object(const std::string& text, const Group& group = {});

}  // namespace core::distributed
