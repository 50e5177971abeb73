// Sparse tensors: their parts hang on a storage of a backend that no kernel takes, so that an operation which does not
// know them fails by itself.
#include "libcore/ops/sparse.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "libcore/autograd/grad_mode.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/op_tables.h"
#include "libcore/backend/row_sums.h"
#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/ops/index.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/pinned.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/storage.h"
#include "libcore/tensor/tensor.h"
#include "libcore/tensor/tensor_impl.h"
#include "libcore/tensor/type_promotion.h"

namespace core {
namespace {

using core::detail::fail;

using detail::parts_of;
using detail::SparseParts;

class SparseBackend final : public Backend {
 public:
  explicit SparseBackend(Device device) : Backend(device, kNoKernels) {
    host_memory_ = false;
    has_memory_ = false;
    sparse_ = true;
    counts_launches_ = true;
  }
  void* allocate(std::size_t) override { detail::throw_sparse(); }
  void free(void*, std::size_t) noexcept override {}
  void copy_from_host(void*, const void*, std::size_t) override { detail::throw_sparse(); }
  void copy_to_host(void*, const void*, std::size_t) override { detail::throw_sparse(); }
  void copy_within(void*, const void*, std::size_t) override { detail::throw_sparse(); }
  void fill_zero(void*, std::size_t) override { detail::throw_sparse(); }
  void synchronize() override {}
  void* allocate_pinned(std::size_t) override { detail::throw_sparse(); }
  void free_pinned(void*, std::size_t) noexcept override {}

 private:
  void on_launch() override { detail::throw_sparse(); }
  static constexpr OpTables kNoKernels{};
};

/// Never destroyed, as the devices themselves.
SparseBackend& sparse_backend(Device device) {
  static auto* const mutex = new std::mutex;
  static auto* const made = new std::map<std::string, std::unique_ptr<SparseBackend>>;
  const std::lock_guard lock(*mutex);
  auto& found = (*made)[device.str()];
  if (!found) found = std::make_unique<SparseBackend>(device);
  return *found;
}

void release_parts(void* parts) {
  delete static_cast<SparseParts*>(parts);
}

Tensor make_sparse(const Shape& sizes, SparseParts parts) {
  const DType dtype = parts.values.dtype();
  Backend& backend = sparse_backend(parts.values.device());
  auto* held = new SparseParts(std::move(parts));
  Tensor made = from_storage(Storage::borrow(held, 0, backend, release_parts, held), dtype, sizes,
                             Shape(std::vector<std::int64_t>(sizes.size(), 0)));
  made.impl()->contiguous = false;
  return made;
}

const SparseParts& require_sparse(const Tensor& x, const char* what) {
  if (!x.is_sparse()) fail(std::string(what) + " expected sparse coordinate tensor layout but got Strided");
  return parts_of(x);
}

void check_parts(const Tensor& indices, const Tensor& values, const Shape& sizes) {
  if (indices.dim() != 2) {
    fail("indices must be sparse_dim x nnz, but got: " + to_list(indices.sizes()));
  }
  const std::int64_t count = indices.size(1), sparse = indices.size(0), dense = values.dim() - 1;
  if (values.dim() < 1 || values.size(0) != count) {
    fail("indices and values must have same nnz, but got nnz from indices: " + std::to_string(count) +
         ", nnz from values: " + std::to_string(values.dim() < 1 ? 1 : values.size(0)));
  }
  if (static_cast<std::int64_t>(sizes.size()) != sparse + dense) {
    fail("'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = " + std::to_string(sizes.size()) +
         ", sparse_dim = " + std::to_string(sparse) + ", dense_dim = " + std::to_string(dense));
  }
  Shape wanted{count};
  for (std::size_t d = static_cast<std::size_t>(sparse); d < sizes.size(); ++d) wanted.push_back(sizes[d]);
  if (wanted != values.sizes()) {
    fail("values has incorrect size, expected " + to_list(wanted) + ", got " + to_list(values.sizes()));
  }
}

/// Values must stay inside, as nothing looks at them again.
void check_places(const Tensor& indices, const Shape& sizes) {
  const std::vector<std::int64_t> all = indices.to_vector<std::int64_t>();
  const auto count = static_cast<std::size_t>(indices.size(1));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t d = i / count;
    if (all[i] < 0) fail("found negative index " + std::to_string(all[i]) + " for dim " + std::to_string(d));
    if (all[i] >= sizes[d]) {
      fail("size is inconsistent with indices: for dim " + std::to_string(d) + ", size is " + std::to_string(sizes[d]) +
           " but found index " + std::to_string(all[i]));
    }
  }
}

/// One number for each place: its position among all places, row by row.
std::vector<std::int64_t> flat_places(const Tensor& x) {
  const SparseParts& parts = parts_of(x);
  const std::vector<std::int64_t> all = parts.indices.to_vector<std::int64_t>();
  const auto count = static_cast<std::size_t>(parts.indices.size(1));
  std::vector<std::int64_t> flat(count, 0);
  for (std::size_t d = 0; d * count < all.size(); ++d) {
    for (std::size_t i = 0; i < count; ++i) flat[i] = flat[i] * x.sizes()[d] + all[d * count + i];
  }
  return flat;
}

Tensor index_list(const std::vector<std::int64_t>& values, Device device) {
  return from_values(values, {.device = device});
}

/// Adds the values of `x`, times alpha, to the places of a dense tensor.
void add_into_dense(const Tensor& dense, const Tensor& x, Scalar alpha) {
  if (dense.sizes() != x.sizes()) {
    fail("add: expected 'self' and 'other' to have same size, but self has size " + to_list(dense.sizes()) +
         " while other has size " + to_list(x.sizes()) +
         " (FYI: dense-sparse addition does not currently support broadcasting)");
  }
  const Tensor whole = dense.contiguous();
  const SparseParts& parts = parts_of(x);
  Shape rows{-1};
  for (std::size_t d = 1; d < parts.values.sizes().size(); ++d) rows.push_back(parts.values.sizes()[d]);
  if (parts.values.numel() > 0) {
    whole.view(rows).index_add_(0, index_list(flat_places(x), x.device()), parts.values.to(dense.dtype()), alpha);
  }
  if (!whole.is_same(dense)) dense.copy_(whole);
}

/// How two lists of places become one: for each of the result which element of a and of b goes there, or -1.
struct Merged {
  std::vector<std::int64_t> from_a, from_b;
};

Merged merged(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  Merged result;
  std::size_t i = 0, k = 0;
  while (i < a.size() || k < b.size()) {
    const bool take_a = i < a.size() && (k == b.size() || a[i] <= b[k]);
    const bool take_b = k < b.size() && (i == a.size() || b[k] <= a[i]);
    result.from_a.push_back(take_a ? static_cast<std::int64_t>(i++) : -1);
    result.from_b.push_back(take_b ? static_cast<std::int64_t>(k++) : -1);
  }
  return result;
}

/// The chosen elements in rows of their own, zeros for -1.
Tensor spread_rows(const Tensor& values, const std::vector<std::int64_t>& from) {
  std::vector<std::int64_t> to, chosen;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] < 0) continue;
    to.push_back(static_cast<std::int64_t>(i));
    chosen.push_back(from[i]);
  }
  Shape sizes = values.sizes();
  sizes[0] = static_cast<std::int64_t>(from.size());
  const Tensor rows = zeros(sizes, {.dtype = values.dtype(), .device = values.device()});
  if (to.empty()) return rows;
  return rows.index_add_(0, index_list(to, values.device()),
                         index_select(values, 0, index_list(chosen, values.device())));
}

/// How rows become fewer: row k of the result begins as row first[k]; then row from[i] is added to row to[i].
struct Groups {
  std::vector<std::int64_t> first, to, from;
};

/// Those of equal numbers in `flat`, each in order.
Groups groups_of(const std::vector<std::int64_t>& flat) {
  std::vector<std::pair<std::int64_t, std::int64_t>> order;
  for (const std::int64_t place : flat) order.emplace_back(place, static_cast<std::int64_t>(order.size()));
  std::sort(order.begin(), order.end());
  Groups groups;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || order[i].first != order[i - 1].first) {
      groups.first.push_back(order[i].second);
    } else {
      groups.to.push_back(static_cast<std::int64_t>(groups.first.size()) - 1);
      groups.from.push_back(order[i].second);
    }
  }
  return groups;
}

/// On the CPU each sum in 16 bits is rounded before the next row comes, as PyTorch does it; on a GPU it is kept in f32,
/// as there too.
Tensor summed_groups(const Tensor& rows, const Groups& groups) {
  const Device device = rows.device();
  const Tensor sums = index_select(rows, 0, index_list(groups.first, device));
  if (groups.to.empty() || rows.numel() == 0) return sums;
  if (!device.is_cpu() || !adds_rows(rows.dtype())) {
    return sums.index_add_(0, index_list(groups.to, device), index_select(rows, 0, index_list(groups.from, device)));
  }
  const Tensor dense = rows.contiguous();
  add_rows({.dtype = rows.dtype(),
            .out = sums.mutable_raw_data(),
            .to = groups.to.data(),
            .in = dense.raw_data(),
            .from = groups.from.data(),
            .count = static_cast<std::int64_t>(groups.to.size()),
            .width = rows.numel() / rows.size(0)});
  return sums;
}

Tensor sum_of_sparse(const Tensor& a, const Tensor& b, Scalar alpha) {
  if (a.sizes() != b.sizes()) {
    fail("add: expected sizes of 'self' and 'other' to match, but " + to_list(a.sizes()) + " != " + to_list(b.sizes()));
  }
  const SparseParts &x = parts_of(a), &y = parts_of(b);
  const DType dtype = result_type(a, b);
  const Merged plan = merged(flat_places(a), flat_places(b));
  const Tensor values =
      spread_rows(x.values.to(dtype), plan.from_a) + spread_rows(y.values.to(dtype) * alpha, plan.from_b);
  const Tensor both = cat(std::vector<Tensor>{x.indices, y.indices}, 1);
  std::vector<std::int64_t> columns;
  for (std::size_t i = 0; i < plan.from_a.size(); ++i) {
    columns.push_back(plan.from_a[i] >= 0 ? plan.from_a[i] : x.indices.size(1) + plan.from_b[i]);
  }
  return make_sparse(a.sizes(),
                     {index_select(both, 1, index_list(columns, a.device())), values, x.coalesced && y.coalesced});
}

}  // namespace

namespace detail {

void throw_sparse() {
  throw Error(ErrorCode::not_implemented,
              "Could not run this operation with arguments from the 'SparseCPU' backend; use to_dense()");
}

const SparseParts& parts_of(const Tensor& x) {
  return *static_cast<const SparseParts*>(x.storage().data());
}

void set_parts(const Tensor& x, SparseParts parts) {
  *static_cast<SparseParts*>(x.storage().data()) = std::move(parts);
  x.impl()->bump_version();
}

Tensor sparse_add(const Tensor& a, const Tensor& b, Scalar alpha) {
  const NoGradGuard no_history;
  if (a.is_sparse() && b.is_sparse()) return sum_of_sparse(a, b, alpha);
  if (a.is_sparse()) fail("add(sparse, dense) is not supported. Use add(dense, sparse) instead.");
  const Tensor sum = a.detach().to({.device = {}, .dtype = result_type(a, b), .copy = true});
  add_into_dense(sum, b, alpha);
  return sum;
}

void sparse_add_into(const Tensor& a, const Tensor& b, Scalar alpha) {
  const NoGradGuard no_history;
  if (!a.is_sparse()) return add_into_dense(a.detach(), b, alpha);
  const Tensor sum = sparse_add(a, b, alpha);
  set_parts(a, parts_of(sum));
}

Tensor rows_at(const Tensor& dense, const Tensor& indices) {
  std::vector<TensorIndex> items;
  for (std::int64_t d = 0; d < indices.size(0); ++d) items.emplace_back(indices.select(0, d));
  return index(dense.detach(), items);
}

Tensor sparse_mul(const Tensor& x, const Tensor& b) {
  const NoGradGuard no_history;
  if (!x.is_sparse() || b.is_sparse() || b.numel() != 1) throw_sparse();
  const SparseParts& parts = parts_of(x);
  return make_sparse(x.sizes(), {parts.indices, parts.values * b.reshape({}), parts.coalesced});
}

Tensor sparse_binary(BinaryOp op, const Tensor& a, const Tensor& b, Scalar alpha) {
  if (op == BinaryOp::add) return sparse_add(a, b, alpha);
  if (op == BinaryOp::sub) return sparse_add(a, b, -alpha.to_double());
  if (op != BinaryOp::mul) throw_sparse();
  return a.is_sparse() ? sparse_mul(a, b) : sparse_mul(b, a);
}

Tensor sparse_clone(const Tensor& x) {
  const SparseParts& parts = parts_of(x);
  return make_sparse(x.sizes(), {parts.indices.clone(), parts.values.clone(), parts.coalesced});
}

Tensor sparse_to(const Tensor& x, const ToOptions& options) {
  const SparseParts& parts = parts_of(x);
  ToOptions places = options;
  places.dtype = {};
  Tensor values = parts.values.to(options), indices = parts.indices.to(places);
  if (values.is_same(parts.values) && indices.is_same(parts.indices)) return x;
  return make_sparse(x.sizes(), {indices, values, parts.coalesced});
}

}  // namespace detail

Layout layout(const Tensor& x) {
  return x.is_sparse() ? Layout::sparse_coo : Layout::strided;
}

std::string to_string(Layout layout) {
  return layout == Layout::sparse_coo ? "torch.sparse_coo" : "torch.strided";
}

std::ostream& operator<<(std::ostream& out, Layout layout) {
  return out << to_string(layout);
}

Tensor sparse_coo_tensor(const Tensor& indices, const Tensor& values, const Shape& sizes) {
  const NoGradGuard no_history;
  check_parts(indices, values, sizes);
  const Tensor places = indices.to(DType::i64);
  check_places(places, sizes);
  return make_sparse(sizes, {places, values.detach(), indices.size(1) < 2});
}

Tensor to_sparse(const Tensor& x, std::optional<std::int64_t> sparse_dim) {
  if (x.is_sparse()) return x;
  const std::int64_t count = sparse_dim.value_or(x.dim());
  if (x.dim() > 0 && count == 0) fail("dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0");
  if (count < 0 || count > x.dim()) {
    fail("dense_to_sparse: sparse_dim argument must be in [0," + std::to_string(x.dim()) + "] range, but " +
         std::to_string(count) + " is given");
  }
  const NoGradGuard no_history;
  Tensor held = x.detach() != 0;
  for (std::int64_t d = x.dim(); d > count; --d) held = held.any(Shape{d - 1});
  const Tensor indices = nonzero(held).t().contiguous();
  const Tensor values =
      count == 0 ? x.detach().reshape({1}).narrow(0, 0, indices.size(1)) : detail::rows_at(x, indices);
  return make_sparse(x.sizes(), {indices, values.clone(), true});
}

Tensor sparse_mask(const Tensor& x, const Tensor& mask) {
  const SparseParts& places = require_sparse(mask, "sparse_mask");
  if (x.is_sparse()) detail::throw_sparse();
  if (x.sizes() != mask.sizes()) {
    fail("sparse_mask(): operands have incompatible sizes; self has size " + to_list(x.sizes()) +
         " but mask has size " + to_list(mask.sizes()));
  }
  const NoGradGuard no_history;
  return make_sparse(x.sizes(), {places.indices, detail::rows_at(x, places.indices), places.coalesced});
}

Tensor to_dense(const Tensor& x) {
  if (!x.is_sparse()) return x;
  const Tensor dense = zeros(x.sizes(), {.dtype = x.dtype(), .device = x.device()});
  detail::sparse_add_into(dense, x, 1);
  return dense;
}

Tensor coalesce(const Tensor& x) {
  const SparseParts& parts = require_sparse(x, "coalesce");
  if (parts.coalesced) return x;
  const NoGradGuard no_history;
  const Groups groups = groups_of(flat_places(x));
  const Tensor values = summed_groups(parts.values, groups);
  return make_sparse(x.sizes(), {index_select(parts.indices, 1, index_list(groups.first, x.device())), values, true});
}

bool is_coalesced(const Tensor& x) {
  return require_sparse(x, "is_coalesced").coalesced;
}

Tensor sparse_indices(const Tensor& x) {
  const SparseParts& parts = require_sparse(x, "indices");
  if (!parts.coalesced) fail("Cannot get indices on an uncoalesced tensor, please call .coalesce() first");
  return parts.indices;
}

Tensor sparse_values(const Tensor& x) {
  const SparseParts& parts = require_sparse(x, "values");
  if (!parts.coalesced) fail("Cannot get values on an uncoalesced tensor, please call .coalesce() first");
  return parts.values;
}

std::int64_t nnz(const Tensor& x) {
  return require_sparse(x, "nnz").indices.size(1);
}

std::int64_t sparse_dim(const Tensor& x) {
  return x.is_sparse() ? parts_of(x).indices.size(0) : 0;
}

std::int64_t dense_dim(const Tensor& x) {
  return x.dim() - sparse_dim(x);
}

}  // namespace core
