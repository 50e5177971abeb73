#include "libcore/core.h"
#include "libcore/tensor/random.h"
#include "tests/libcore/module/error_cases.h"

namespace test {
namespace {

using namespace core;  // a long list of calls
using P = ErrorProgram;

const TensorOptions kMeta{.device = Device("meta")};
const TensorOptions kLong{.dtype = DType::i64};
const TensorOptions kDouble{.dtype = DType::f64};

Tensor bools(std::initializer_list<std::int64_t> sizes) {
  return ones(Shape(sizes), {.dtype = DType::boolean});
}

/// (n0, n1) on the CPU and (n2, n3) on the meta device, the CPU's first.
Tensor on_cpu(const P& p) {
  return ones({p.n(0), p.n(1)});
}
Tensor on_meta(const P& p) {
  return ones({p.n(2), p.n(3)}, kMeta);
}

void add_device_cases(ErrorCases& c) {
  for (const char* id : {"empty", "cuda:01", "cuda:", "cuda:-1", "cuda:a", "cuda:1:2", "gpu", "CUDA", "gpu:2",
                         "cpu:0x1", "cuda 0", ":0", "cuda:0 ", "cuda:+1", "cuda:00", "cuda:99999999999"}) {
    c[std::string("device_string/") + id] = [](const P& p) { Device{p.s(0)}; };
  }
  c["device/negative_index"] = [](const P& p) { Device(DeviceType::cuda, static_cast<int>(p.n(0))); };
  c["default_type/dtype"] = [](const P&) { set_default_dtype(DType::i64); };
  c["mixed/add"] = [](const P& p) { on_cpu(p) + on_meta(p); };
  c["mixed/add_rev"] = [](const P& p) { on_meta(p) + on_cpu(p); };
  c["mixed/mul"] = [](const P& p) { on_cpu(p) * on_meta(p); };
  c["mixed/mul_rev"] = [](const P& p) { on_meta(p) * on_cpu(p); };
  c["mixed/sub"] = [](const P& p) { on_cpu(p) - on_meta(p); };
  c["mixed/sub_rev"] = [](const P& p) { on_meta(p) - on_cpu(p); };
  c["mixed/div"] = [](const P& p) { on_cpu(p) / on_meta(p); };
  c["mixed/div_rev"] = [](const P& p) { on_meta(p) / on_cpu(p); };
  c["mixed/gt"] = [](const P& p) { gt(on_cpu(p), on_meta(p)); };
  c["mixed/gt_rev"] = [](const P& p) { gt(on_meta(p), on_cpu(p)); };
  c["mixed/cat"] = [](const P& p) { cat({on_cpu(p), on_meta(p)}); };
  c["mixed/stack"] = [](const P& p) { stack({on_cpu(p), on_meta(p)}); };
  c["meta/item"] = [](const P&) { ones({}, kMeta).item(); };
  c["meta/to_cpu"] = [](const P& p) { ones({p.n(0), p.n(1)}, kMeta).to("cpu"); };
}

void add_product_cases(ErrorCases& c) {
  c["shape/mm"] = [](const P& p) { mm(ones({p.n(0), p.n(1)}), ones({p.n(2), p.n(3)})); };
  c["shape/matmul"] = [](const P& p) { matmul(ones({p.n(0), p.n(1)}), ones({p.n(2), p.n(3)})); };
  c["shape/matmul_batch"] = [](const P& p) { matmul(ones({p.n(0), p.n(1), p.n(2)}), ones({p.n(3), p.n(4), p.n(5)})); };
  c["shape/matmul_inner"] = c["shape/matmul_batch"];
  c["shape/matmul_scalar"] = [](const P& p) { matmul(tensor(p.x(0)), ones({p.n(1)})); };
  c["shape/mv"] = [](const P& p) { matmul(ones({p.n(0), p.n(1)}), ones({p.n(2)})); };
  c["shape/dot"] = [](const P& p) { dot(ones({p.n(0)}), ones({p.n(1)})); };
  c["shape/mm_3d"] = [](const P& p) { mm(ones({p.n(0), p.n(1), p.n(2)}), ones({p.n(3), p.n(4)})); };
  c["shape/bmm_2d"] = [](const P& p) { bmm(ones({p.n(0), p.n(1)}), ones({p.n(2), p.n(3), p.n(4)})); };
  c["shape/bmm_batch"] = [](const P& p) { bmm(ones({p.n(0), p.n(1), p.n(2)}), ones({p.n(3), p.n(4), p.n(5)})); };
  c["shape/addmm"] = [](const P& p) { addmm(ones({p.n(0)}), ones({p.n(1), p.n(2)}), ones({p.n(3), p.n(4)})); };
  c["dtype/mm"] = [](const P& p) { mm(ones({p.n(0), p.n(1)}), ones({p.n(2), p.n(3)}, kDouble)); };
  c["dtype/mm_rev"] = [](const P& p) { mm(ones({p.n(0), p.n(1)}, kDouble), ones({p.n(2), p.n(3)})); };
  c["dtype/bmm"] = [](const P& p) {
    bmm(ones({p.n(0), p.n(1), p.n(2)}), ones({p.n(3), p.n(4), p.n(5)}, {.dtype = DType::f16}));
  };
  c["dtype/dot"] = [](const P& p) { dot(ones({p.n(0)}), ones({p.n(1)}, kLong)); };
}

void add_shape_cases(ErrorCases& c) {
  c["shape/add"] = [](const P& p) { ones({p.n(0), p.n(1)}) + ones({p.n(2), p.n(3)}); };
  c["shape/add_dim0"] = c["shape/add"];
  c["shape/inplace_broadcast"] = [](const P& p) { ones({p.n(0)}).add_(ones({p.n(1), p.n(2)})); };
  c["shape/view"] = [](const P& p) { ones({p.n(0), p.n(1)}).view({p.n(2)}); };
  c["shape/view_r"] = [](const P& p) { ones({p.n(0), p.n(1)}).view({p.n(2), p.n(3)}); };
  c["shape/view_infer"] = [](const P& p) { ones({p.n(0)}).view({p.n(1), p.n(2)}); };
  c["shape/view_two_infer"] = c["shape/view_infer"];
  c["shape/view_strided"] = [](const P& p) { ones({p.n(0), p.n(1)}).t().view({p.n(2)}); };
  c["shape/reshape_infer_zero"] = [](const P& p) { ones({p.n(0), p.n(1)}).reshape({p.n(2), p.n(3)}); };
  c["shape/expand"] = [](const P& p) { ones({p.n(0), p.n(1)}).expand({p.n(2), p.n(3)}); };
  c["shape/expand_r"] = c["shape/expand"];
  c["shape/expand_fewer"] = [](const P& p) { ones({p.n(0), p.n(1)}).expand({p.n(2)}); };
  c["shape/cat"] = [](const P& p) { cat({ones({p.n(0), p.n(1)}), ones({p.n(2), p.n(3)})}); };
  c["shape/cat_dims"] = [](const P& p) { cat({ones({p.n(0), p.n(1)}), ones({p.n(2)})}); };
  c["shape/cat_empty_list"] = [](const P&) { cat({}); };
  c["shape/stack"] = [](const P& p) { stack({ones({p.n(0)}), ones({p.n(1)})}); };
  c["shape/stack_empty"] = [](const P&) { stack({}); };
  c["shape/split_sizes"] = [](const P& p) { ones({p.n(0)}).split(Shape{p.n(1), p.n(2)}); };
  c["shape/split_sizes_r"] = c["shape/split_sizes"];
  c["shape/split_negative"] = [](const P& p) { ones({p.n(0)}).split(p.n(1)); };
  c["shape/chunk_zero"] = [](const P& p) { ones({p.n(0)}).chunk(p.n(1)); };
  c["shape/chunk_scalar"] = [](const P& p) { tensor(p.x(0)).chunk(p.n(1)); };
  c["shape/permute"] = [](const P& p) { ones({p.n(0), p.n(1)}).permute({p.n(2)}); };
  c["shape/permute_twice"] = [](const P& p) { ones({p.n(0), p.n(1)}).permute({p.n(2), p.n(3)}); };
  c["shape/transpose"] = [](const P& p) { ones({p.n(0), p.n(1)}).transpose(p.n(2), p.n(3)); };
  c["shape/t_3d"] = [](const P& p) { ones({p.n(0), p.n(1), p.n(2)}).t(); };
  c["shape/negative_size"] = [](const P& p) { empty({p.n(0)}); };
  c["shape/repeat"] = [](const P& p) { repeat(ones({p.n(0), p.n(1)}), {p.n(2)}); };
  c["shape/unflatten"] = [](const P& p) { ones({p.n(0), p.n(1)}).unflatten(p.n(2), {p.n(3), p.n(4)}); };
  c["shape/tensor_ragged"] = [](const P&) { tensor({{1, 2}, {3}}); };
  c["shape/masked_fill"] = [](const P& p) { masked_fill(ones({p.n(0), p.n(1)}), bools({p.n(2), p.n(3)}), p.n(4)); };
}

void add_index_cases(ErrorCases& c) {
  c["index/dim_sum"] = [](const P& p) { sum(ones({p.n(0)}), {.dims = {p.n(1)}}); };
  c["index/dim_negative"] = [](const P& p) { sum(ones({p.n(0), p.n(1)}), {.dims = {p.n(2)}}); };
  c["index/dim_scalar"] = [](const P& p) { sum(tensor(p.x(0)), {.dims = {p.n(1)}}); };
  c["index/dim_repeat"] = [](const P& p) { sum(ones({p.n(0), p.n(1)}), {.dims = {p.n(2), p.n(3)}}); };
  c["index/unsqueeze"] = [](const P& p) { ones({p.n(0)}).unsqueeze(p.n(1)); };
  c["index/int"] = [](const P& p) { ones({p.n(0)})[p.n(1)]; };
  c["index/int_negative"] = c["index/int"];
  c["index/scalar"] = [](const P& p) { tensor(p.x(0))[p.n(1)]; };
  c["index/select"] = [](const P& p) { ones({p.n(0)}).select(p.n(1), p.n(2)); };
  c["index/narrow"] = [](const P& p) { ones({p.n(0)}).narrow(p.n(1), p.n(2), p.n(3)); };
  c["index/gather"] = [](const P& p) { gather(ones({p.n(0), p.n(1)}), p.n(2), tensor({{p.n(3)}, {p.n(4)}})); };
  c["index/gather_dtype"] = [](const P& p) { gather(ones({p.n(0), p.n(1)}), p.n(2), tensor({{p.x(3)}, {p.x(4)}})); };
  c["index/gather_dims"] = [](const P& p) { gather(ones({p.n(0), p.n(1)}), p.n(2), tensor({p.n(3)})); };
  c["index/index_select"] = [](const P& p) { index_select(ones({p.n(0)}), p.n(1), tensor({p.n(2)})); };
  c["index/index_select_2d"] = [](const P& p) { index_select(ones({p.n(0)}), p.n(1), tensor({{p.n(2)}})); };
  c["index/argmax_empty"] = [](const P& p) { argmax(ones({p.n(0)})); };
  c["index/max_empty"] = [](const P& p) { max(ones({p.n(0)})); };
  c["index/max_empty_dim"] = [](const P& p) { max(ones({p.n(0), p.n(1)}), p.n(2)); };
}

void add_dtype_cases(ErrorCases& c) {
  c["dtype/inplace_int"] = [](const P& p) { ones({p.n(0)}, kLong).add_(p.x(1)); };
  c["dtype/inplace_div"] = [](const P& p) { ones({p.n(0)}, {.dtype = DType::i32}).div_(p.n(1)); };
  c["dtype/mean_int"] = [](const P& p) { mean(ones({p.n(0)}, kLong)); };
  c["dtype/std_int"] = [](const P& p) { core::std(ones({p.n(0)}, kLong)); };
  c["dtype/sub_bool"] = [](const P&) { tensor({true}) - tensor({true}); };
  c["dtype/neg_bool"] = [](const P&) { -tensor({true}); };
  c["dtype/pow_negative_int"] = [](const P& p) { pow(tensor({p.n(0)}), p.n(1)); };
  c["dtype/requires_grad_int"] = [](const P& p) { ones({p.n(0)}, {.dtype = DType::i64, .requires_grad = true}); };
  c["dtype/requires_grad_int_method"] = [](const P& p) { ones({p.n(0)}, kLong).requires_grad_(); };
  c["dtype/bitwise_float"] = [](const P& p) { bitwise_and(ones({p.n(0)}), ones({p.n(1)})); };
  c["dtype/int_div_zero"] = [](const P& p) { floor_divide(tensor({p.n(0)}), tensor({p.n(1)})); };
  c["dtype/int_mod_zero"] = [](const P& p) { remainder(tensor({p.n(0)}), tensor({p.n(1)})); };
  c["scalar/item"] = [](const P& p) { ones({p.n(0)}).item(); };
  c["scalar/item_empty"] = c["scalar/item"];
  c["scalar/bool"] = [](const P& p) { static_cast<void>(static_cast<bool>(ones({p.n(0)}))); };
  c["scalar/bool_empty"] = c["scalar/bool"];
  c["factory/arange"] = [](const P& p) { arange(p.n(0), p.n(1), p.n(2)); };
  c["factory/arange_zero"] = c["factory/arange"];
  c["factory/linspace"] = [](const P& p) { linspace(p.x(0), p.x(1), p.n(2)); };
}

void add_random_cases(ErrorCases& c) {
  c["rng/randint_empty"] = [](const P& p) { randint(p.n(0), p.n(1), {p.n(2)}); };
  c["rng/random_range"] = [](const P& p) { random_(empty({p.n(0)}), p.n(1), p.n(2)); };
  c["rng/uniform"] = [](const P& p) { uniform_(empty({p.n(0)}), p.x(1), p.x(2)); };
  c["rng/normal_std"] = [](const P& p) { normal_(empty({p.n(0)}), p.x(1), p.x(2)); };
  c["rng/bernoulli"] = [](const P& p) { bernoulli_(empty({p.n(0)}), p.x(1)); };
  c["rng/bernoulli_tensor"] = [](const P& p) { bernoulli(tensor({p.x(0)})); };
  c["rng/exponential"] = [](const P& p) { exponential_(empty({p.n(0)}), p.x(1)); };
  c["rng/geometric"] = [](const P& p) { geometric_(empty({p.n(0)}), p.x(1)); };
  c["rng/cauchy"] = [](const P& p) { cauchy_(empty({p.n(0)}), p.x(1), p.x(2)); };
  c["rng/randperm"] = [](const P& p) { randperm(p.n(0)); };
  c["rng/randint_dtype"] = [](const P& p) { randint(p.n(0), p.n(1), {p.n(2)}, {.dtype = DType::u8}); };
  c["rng/randn_int"] = [](const P& p) { randn({p.n(0)}, {.dtype = DType::i64}); };
  c["rng/multinomial_many"] = [](const P& p) { multinomial(ones({p.n(0)}), {.num_samples = p.n(1)}); };
  c["rng/multinomial_zero"] = [](const P& p) { multinomial(zeros({p.n(0)}), {.num_samples = p.n(1)}); };
  c["rng/multinomial_samples"] = c["rng/multinomial_many"];
  c["rng/multinomial_rank"] = [](const P& p) { multinomial(ones({p.n(0), p.n(1), p.n(2)}), {.num_samples = p.n(3)}); };
}

}  // namespace

void add_tensor_error_cases(ErrorCases& cases) {
  add_device_cases(cases);
  add_product_cases(cases);
  add_shape_cases(cases);
  add_index_cases(cases);
  add_dtype_cases(cases);
  add_random_cases(cases);
}

void add_autograd_error_cases(ErrorCases& c) {
  static const auto leaf = [](Shape sizes) { return ones(sizes, {.requires_grad = true}); };
  c["autograd/no_grad_leaf"] = [](const P& p) { sum(ones({p.n(0)})).backward(); };
  c["autograd/non_scalar"] = [](const P& p) { (leaf({p.n(0)}) * p.n(1)).backward(); };
  c["autograd/twice"] = [](const P& p) {
    const Tensor x = leaf({p.n(0)}), y = sum(x * x);
    y.backward();
    y.backward();
  };
  c["autograd/leaf_inplace"] = [](const P& p) { leaf({p.n(0)}).add_(p.n(1)); };
  c["autograd/leaf_view_inplace"] = [](const P& p) { leaf({p.n(0)})[p.n(1)].fill_(p.n(2)); };
  c["autograd/modified"] = [](const P& p) {
    const Tensor y = exp(leaf({p.n(0)}));
    y.add_(p.n(1));
    sum(y).backward();
  };
  c["autograd/modified_mul"] = [](const P& p) {
    const Tensor w = leaf({p.n(0), p.n(1)}) * p.n(2), y = w * w;
    w.add_(p.n(3));
    sum(y).backward();
  };
  c["autograd/modified_mm"] = [](const P& p) {
    const Tensor x = leaf({p.n(0), p.n(1)}), w = ones({p.n(2), p.n(3)}), y = matmul(x, w);
    w.add_(p.n(4));
    sum(y).backward();
  };
  c["autograd/unused"] = [](const P& p) {
    const Tensor x = leaf({p.n(0)}), z = leaf({p.n(1)});
    grad({sum(x * p.n(2))}, {x, z});
  };
  c["autograd/grad_not_required"] = [](const P& p) {
    const Tensor x = leaf({p.n(0)}), z = ones({p.n(1)});
    grad({sum(x * p.n(2))}, {z});
  };
  c["autograd/shape"] = [](const P& p) { (leaf({p.n(0)}) * p.n(1)).backward(ones({p.n(2)})); };
  c["autograd/assign_grad_shape"] = [](const P& p) { leaf({p.n(0)}).set_grad(ones({p.n(1)})); };
  c["autograd/detach_requires"] = [](const P& p) {
    Tensor y = leaf({p.n(0)}) * p.n(1);
    y.requires_grad_(false);
  };
  c["autograd/inference"] = [](const P& p) {
    const Tensor x = leaf({p.n(0)});
    Tensor y;
    {
      const InferenceModeGuard inference;
      y = ones({p.n(1)});
    }
    sum(x * y);
  };
  c["autograd/expanded_inplace"] = [](const P& p) { ones({p.n(0), p.n(1)}).expand({p.n(2), p.n(3)}).add_(p.n(4)); };
  c["autograd/assign_grad_dtype"] = [](const P& p) { leaf({p.n(0)}).set_grad(ones({p.n(1)}, {.dtype = DType::f64})); };
  c["autograd/deepcopy"] = [](const P& p) { (leaf({p.n(0)}) * p.n(1)).deepcopy(); };
  c["warn/leaf_grad_fn_hook"] = [](const P& p) { ones({p.n(0)}).register_hook([](const Tensor& g) { return g; }); };
  c["warn/grad_nonleaf"] = [](const P& p) { (leaf({p.n(0)}) * p.n(1)).grad(); };
}

}  // namespace test
