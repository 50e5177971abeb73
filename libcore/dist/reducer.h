#pragma once
// Reducer: what DistributedDataParallel does with gradients, without the module's type. When a gradient is ready it
// goes into its bucket, multiplied by 1 / ranks; a full bucket is summed over all ranks, in a thread of the group,
// while backward goes on; with the last gradient the sums are waited for and handed back. Internal to dist. Thread
// safety: one step at a time; backward may run hooks in several threads.
// Use: Reducer reducer(trained, {{0, 1}}, {.group = group}); reducer.prepare_forward();

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libcore/dist/buckets.h"
#include "libcore/dist/collectives.h"
#include "libcore/dist/comm_hooks.h"
#include "libcore/tensor/tensor.h"

namespace core::distributed {

struct ReducerOptions {
  Group group;
  bool find_unused = false;
  bool static_graph = false;
  bool views = false;                         ///< gradients are views of buckets
  std::vector<bool> sparse = {};              ///< of each parameter: its gradient is sparse
  std::vector<std::int64_t> rebuilding = {};  ///< limits of buckets, in bytes
};

/// PyTorch's logging data of the same names, as they were when the last forward began.
struct ReducerStats {
  std::vector<std::int64_t> bucket_sizes = {};  ///< of the first iteration, bytes
  std::optional<std::vector<std::int64_t>> rebuilt_bucket_sizes = {};
  std::vector<std::vector<std::int64_t>> rebuilt_per_bucket_param_indices = {};
  bool has_rebuilt_buckets = false;
  std::int64_t num_buckets_reduced = 0;
  std::int64_t unused_parameter_size = 0;
  std::vector<std::int64_t> prev_iteration_grad_ready_order_indices = {};
};

class Reducer {
 public:
  using Indices = std::vector<std::int64_t>;

  Reducer(std::vector<std::pair<std::string, Tensor>> params, std::vector<Indices> buckets, ReducerOptions options);
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  /// What is done with a bucket in the place of the mean. Errors: a second one.
  void set_hook(CommHook hook);
  /// At the start of a forward whose gradients will be summed.
  void prepare_forward();
  /// Once, after the first backward: buckets in the order in which gradients became ready. False: not now.
  bool rebuild_buckets();
  /// After it; `outputs` are all tensors of the result.
  void prepare_backward(const std::vector<Tensor>& outputs);
  const ReducerStats& stats() const { return stats_; }

  // Under join(): by whom gradients are divided, and what a rank without data does in a backward of the others.

  /// The divisor is what this tensor holds when the work has ended.
  void divide_by_result(const Work& work, const Tensor& result);
  void divide_by_all() { divisor_work_.reset(); }
  void join_backward();

 private:
  struct Bucket {
    Indices params;
    bool is_sparse = false;     // of one parameter, whose gradient is the contents
    Tensor contents;            // none between two steps when it was lent
    std::vector<Tensor> views;  // of each parameter
    bool is_lending = false;
    std::vector<bool> had_gradient;    // each parameter, before this backward pass; where it lends
    std::weak_ptr<const Tensor> lent;  // the contents of the step before
    std::size_t pending = 0;
    Work work;
    std::optional<CommFuture> given;  // by the hook
  };
  struct Place {
    std::size_t bucket = 0;
    std::size_t at = 0;
  };

  void make_buckets(const std::vector<Indices>& buckets);
  void open_bucket(Bucket& bucket);
  std::int64_t bytes_of(const Bucket& bucket) const;
  bool is_sparse(std::size_t index) const { return index < options_.sparse.size() && options_.sparse[index]; }
  Tensor view_for(const Tensor& param, const Tensor& contents, std::int64_t at) const;
  void check_finished();
  void throw_unfinished() const;
  void find_unused(const std::vector<Tensor>& outputs);
  void on_gradient(std::size_t index);
  void count_first(std::size_t index);
  void reduce_all_at_once();
  void mark_ready(std::size_t index);
  void fill_bucket(std::size_t index);
  void fill_sparse_bucket(Bucket& bucket, const Tensor& grad);
  void start_ready_buckets();
  void start_bucket(std::size_t number);
  void start_hook(std::size_t number);
  void take_from_hook(Bucket& bucket) const;
  void start_used_map();
  void start_map_of_none();
  void take_used_map();
  void finish();
  void finish_bucket(Bucket& bucket);
  void lend_bucket(Bucket& bucket);
  void note_gradients(Bucket& bucket) const;
  bool is_unused_everywhere(std::size_t index);
  double divisor();
  void push_rebuilt(std::size_t index);
  bool may_rebuild() const { return (options_.static_graph || !options_.find_unused) && !has_rebuilt_; }
  bool finds_unused() const { return options_.find_unused && !options_.static_graph; }
  bool is_first_of_static() const { return options_.static_graph && iterations_ <= 1; }

  std::vector<std::pair<std::string, Tensor>> params_;
  ReducerOptions options_;
  std::vector<std::int64_t> hooks_;
  CommHook hook_;
  std::vector<Bucket> buckets_;
  std::vector<Place> places_;  // of each parameter
  std::mutex mutex_;

  // One iteration.
  bool expects_hooks_ = false;
  bool must_finish_ = false;
  bool has_marked_unused_ = false;
  std::size_t next_bucket_ = 0;
  std::vector<bool> ready_;
  Indices ready_order_;
  Indices unused_;
  Indices awaited_;  // parameters whose hooks a first iteration of a static graph waits for
  std::optional<double> divisor_;
  std::optional<std::pair<Work, Tensor>> divisor_work_;

  // Which parameters this rank used, and how many ranks did, once that is summed.
  std::vector<bool> used_here_;
  Tensor used_;
  Tensor used_sent_;  // the same where the group exchanges what it says for itself
  Work used_work_;
  bool used_is_summed_ = true;

  Indices hook_counts_;       // of a static graph, in its first iteration
  Indices hook_counts_left_;  // in this one
  Indices rebuilt_;
  bool has_rebuilt_ = false;
  bool may_lend_ = true;
  std::int64_t iterations_ = 0;
  std::int64_t forwards_ = 0;
  std::int64_t reduced_ = 0;
  ReducerStats stats_;
};

namespace detail {
/// to = from * factor, both of one dtype.
void scaled_copy(const Tensor& to, const Tensor& from, double factor);
/// A tensor of its own in the place of a view of `contents`, whose memory it keeps.
Tensor lent_part(const std::shared_ptr<const Tensor>& contents, const Tensor& view);
/// Whether nobody could tell if `grad`, which the caller and the parameter hold, became another tensor.
bool is_replaceable(const Tensor& grad);
}  // namespace detail

}  // namespace core::distributed
