// Forward values, strides, node names and gradients of every operation in ops.json, and the promotion table. With an
// argument, of another file of the same form: half/ops.json.
#include "tests/libcore/ops/ops_golden.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

#include "libcore/autograd/autocast.h"
#include "libcore/autograd/autograd.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/complex.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/sparse.h"
#include "libcore/optim/options.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/memory_format.h"
#include "libcore/tensor/print.h"
#include "tests/support/golden_device.h"

namespace test {
namespace {

using core::DType;
using core::Tensor;

Tensor tensor_of(const GoldenArray& array) {
  return core::from_bytes(array.bytes, array.shape, array.dtype);
}

/// Complex numbers are pairs of real ones under a name that ends in ~.
Tensor tensor_named(const GoldenArrays& arrays, const std::string& name) {
  const Tensor values = tensor_of(arrays.at(name));
  return name.ends_with('~') ? core::view_as_complex(values) : values;
}

Tensor leaf_of(Json input, const GoldenArrays& arrays) {
  if (is_null(input)) return {};
  return tensor_named(arrays, text(member(input, "array"))).requires_grad_(boolean(member(input, "requires_grad")));
}

OpCase read_case(Json c, const GoldenArrays& arrays) {
  OpCase result;
  for (Json input : items(member(c, "inputs"))) {
    Tensor leaf = leaf_of(input, arrays);
    bool swap = leaf.defined() && boolean(member(input, "swap_last_two_dims"));
    result.leaves.push_back(leaf);
    result.in.push_back(swap ? leaf.transpose(-2, -1) : leaf);
  }
  result.args = items(member(c, "args"));
  result.kwargs = member(c, "kwargs");
  if (!has(c, "params")) return result;
  for (const auto field : member(c, "params").get_object()) {
    result.params[std::string(field.key)] = tensor_of(arrays.at(text(field.value)));
  }
  return result;
}

/// Numbers of 16 bits as integers in their order, both zeros as 0.
std::vector<std::int64_t> places(const Tensor& t) {
  const Tensor dense = t.detach().cpu().contiguous();
  std::vector<std::int64_t> result(static_cast<std::size_t>(dense.numel()));
  const auto* bytes = static_cast<const unsigned char*>(dense.raw_data());
  for (std::size_t i = 0; i < result.size(); ++i) {
    const int bits = bytes[2 * i] | (bytes[2 * i + 1] << 8), size = bits & 0x7fff;
    result[i] = bits == size ? size : -size;
  }
  return result;
}

bool is_half(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16;
}

/// Numbers of 16 bits: one unit in the last place, or the rounding of a sum whose terms are the size of the largest.
bool close_halves(const Tensor& got, const Tensor& want) {
  const auto a = places(got), b = places(want);
  const std::vector<double> value = got.detach().to_vector<double>(), wanted = want.to_vector<double>();
  double largest = 0;
  for (const double x : wanted) largest = std::isfinite(x) ? std::max(largest, std::abs(x)) : largest;
  const double room = largest * (want.dtype() == DType::f16 ? 0x1p-12 : 0x1p-9);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(value[i]) && std::isnan(wanted[i])) continue;
    if (std::abs(a[i] - b[i]) > 1 && !(std::abs(value[i] - wanted[i]) <= room)) return false;
  }
  return true;
}

/// Room for rounding in the dtype, as the golden data's readme states it.
bool close(const Tensor& got, const Tensor& want) {
  if (is_half(want.dtype())) return close_halves(got, want);
  bool narrow = want.dtype() == DType::f32 || want.dtype() == DType::c64;
  double relative = narrow ? 1.3e-6 : 1e-7, absolute = narrow ? 1e-5 : 1e-7;
  if (on_golden_device()) absolute *= 4;  // other kernels sum in other orders, which short rows of a norm show
  return core::allclose(got, want, {.rtol = relative, .atol = absolute, .equal_nan = true});
}

bool same_bits(const Tensor& got, const Tensor& want) {
  Tensor a = got.detach().cpu().contiguous(), b = want.cpu().contiguous();
  if (core::is_inexact(a.dtype()) && core::any(core::isnan(b)).item<bool>())
    return core::allclose(a, b, {.rtol = 0, .atol = 0, .equal_nan = true});
  auto bytes = static_cast<std::size_t>(a.numel() * core::bit_width(a.dtype()) / 8);
  return bytes == 0 || std::memcmp(a.raw_data(), b.raw_data(), bytes) == 0;
}

std::string describe(const Tensor& t) {
  std::ostringstream out;
  out << core::short_name(t.dtype()) << core::to_list(t.sizes()) << "/" << core::to_list(t.strides());
  if (t.numel() <= 12) {
    out << " {";
    const Tensor numbers = core::is_complex(t) ? core::view_as_real(t.detach()) : t.detach();
    for (double value : numbers.to_vector<double>()) out << value << ' ';
    out << "}";
  }
  return out.str();
}

/// Where numbers of 16 bits differ most, and by how many units in the last place of theirs.
std::string worst_place(const Tensor& got, const Tensor& want) {
  if (!is_half(want.dtype())) return "";
  const auto a = places(got), b = places(want);
  const std::vector<double> value = got.detach().to_vector<double>(), wanted = want.to_vector<double>();
  std::size_t worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::abs(value[i] - wanted[i]) > std::abs(value[worst] - wanted[worst])) worst = i;
  }
  std::ostringstream text;
  text << " (place " << worst << ": " << value[worst] << ", not " << wanted[worst] << ", "
       << std::abs(a[worst] - b[worst]) << " units)";
  return text.str();
}

/// How near numbers must be: the same bits, what rounding in their type gives, or, of f32 that mixed precision made,
/// what rounding in bf16 gives.
enum class Exactness { bits, rounded, mixed };

/// Both are about `room` from the exact numbers: twice that, and a unit in the last place, from each other.
bool both_near(const Tensor& got, const Tensor& want, double room) {
  const double unit = want.dtype() == DType::f16 ? 0x1p-10 : 0x1p-7;
  return room > 0 && is_half(want.dtype()) &&
         core::allclose(got.to(DType::f64), want.to(DType::f64), {.rtol = unit, .atol = 2 * room, .equal_nan = true});
}

/// `room`: how far PyTorch's numbers are from the exact ones, or 0.
std::string compare(const Tensor& got, const Tensor& want, Exactness exactness, double room = 0) {
  if (got.sizes() != want.sizes() || got.dtype() != want.dtype())
    return "got " + describe(got) + " want " + describe(want);
  if (exactness == Exactness::mixed && want.is_floating_point()) {
    const Tensor wide = want.to(DType::f32);
    const double of_largest = 0x1p-7 * (wide.numel() == 0 ? 1 : std::max(1.0, core::abs(wide).max().item<double>()));
    if (core::allclose(got.detach().to(DType::f32), wide, {.rtol = 0x1p-7, .atol = of_largest, .equal_nan = true}))
      return "";
  } else if (!core::is_complex(want) && (exactness == Exactness::bits || !want.is_floating_point())) {
    if (same_bits(got, want)) return "";
    // The CPU rounds a number before it adds it, GPUs do not.
    if (on_golden_device() && both_near(got.detach(), want, room)) return "";
  } else if (close(got.detach(), want) || both_near(got.detach(), want, room)) {
    return "";
  }
  return "values" + worst_place(got, want) + ": got " + describe(got) + " want " + describe(want);
}

double room_of(Json c, const std::string& array) {
  return has(c, "rooms") && has(member(c, "rooms"), array) ? number(member(member(c, "rooms"), array)) : 0;
}

/// PyTorch's one kernel for an LSTM of bf16 shows as such; here it is steps.
bool is_node(const std::string& ours, const std::string& wanted, DType dtype) {
  return is_same_node(ours, wanted) || (dtype == DType::bf16 && wanted == "MkldnnRnnLayerBackward0");
}

std::string check_outputs(Json c, const std::vector<Tensor>& out, const GoldenArrays& arrays, Exactness exactness) {
  auto names = texts(member(c, "outputs"));
  if (names.size() != out.size()) return "number of outputs " + std::to_string(out.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::string wrong = compare(out[i], tensor_named(arrays, names[i]), exactness, room_of(c, names[i]));
    if (!wrong.empty()) return "output " + std::to_string(i) + ": " + wrong;
    if (has(c, "output_strides") && exactness != Exactness::mixed) {
      const core::Shape strides = shape(items(member(c, "output_strides")).at(i));
      if (out[i].strides() != strides)
        return "strides " + core::to_list(out[i].strides()) + " want " + core::to_list(strides);
    }
    if (!has(c, "grad_fns")) continue;
    Json node = items(member(c, "grad_fns")).at(i);
    std::string want = is_null(node) ? "" : text(node);
    if (exactness != Exactness::mixed && !is_node(out[i].grad_fn_name(), want, out[i].dtype()))
      return "node " + out[i].grad_fn_name() + " want " + want;
  }
  return "";
}

std::string check_grads(Json c, const OpCase& op_case, const std::vector<Tensor>& out, const GoldenArrays& arrays,
                        Exactness exactness) {
  if (is_null(member(c, "grad_outputs"))) return "";
  std::vector<Tensor> roots, upstream;
  auto ups = items(member(c, "grad_outputs"));
  for (std::size_t i = 0; i < ups.size(); ++i) {
    if (is_null(ups.at(i))) continue;
    roots.push_back(out[i]);
    upstream.push_back(tensor_named(arrays, text(ups.at(i))));
  }
  if (roots.empty()) return "";
  core::backward(roots, {.grad_outputs = upstream});
  auto grads = items(member(c, "grads"));
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (is_null(grads.at(i))) continue;
    Tensor got = op_case.leaves[i].grad();
    if (!got.defined()) return "no gradient of input " + std::to_string(i);
    const std::string key = text(grads.at(i));
    std::string wrong = compare(got, tensor_named(arrays, key), exactness, room_of(c, key));
    if (!wrong.empty()) return "gradient " + std::to_string(i) + ": " + wrong;
  }
  if (!has(c, "param_grads")) return "";
  for (const auto field : member(c, "param_grads").get_object()) {
    if (is_null(field.value)) continue;
    const std::string key(field.key);
    std::string wrong = compare(op_case.params.at(key).grad(), tensor_named(arrays, text(field.value)), exactness,
                                room_of(c, text(field.value)));
    if (!wrong.empty()) return "gradient of " + key + ": " + wrong;
  }
  return "";
}

/// A sum with a factor is two operations, which others fuse, as products of complex numbers are several.
bool is_exact(Json c, const OpCase& op_case, const OpCall& call) {
  const bool of_complex = std::any_of(op_case.in.begin(), op_case.in.end(),
                                      [](const Tensor& x) { return x.defined() && core::is_complex(x); });
  return call.exact && !of_complex && !has(member(c, "kwargs"), "alpha");
}

std::vector<Tensor> in_mixed_precision(DType lower, const OpCall& call, const OpCase& op_case) {
  const core::autocast on_cpu("cpu", {.dtype = lower}),
      on_device("cuda", {.dtype = lower, .enabled = on_golden_device()});
  return call.run(op_case);
}

/// Where PyTorch's numbers are those of full precision, ours must be: a type of 16 bits on the way is a cast too many.
std::string check_casts(Json c, const OpCall& call, const std::vector<Tensor>& out, const GoldenArrays& arrays) {
  const std::vector<Tensor> full = call.run(read_case(c, arrays));
  const std::vector<std::string> names = texts(member(c, "outputs"));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Tensor want = tensor_of(arrays.at(names[i]));
    const bool is_cast = want.dtype() != DType::f32 || !close(full[i].detach(), want);
    if (!is_cast && !close(out[i].detach(), want)) return "output " + std::to_string(i) + " is not in full precision";
  }
  return "";
}

bool has_types(const std::vector<Tensor>& tensors, const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < std::min(tensors.size(), names.size()); ++i) {
    if (core::short_name(tensors[i].dtype()) != names[i]) return false;
  }
  return true;
}

/// What PyTorch refuses: its text, or a result, which nothing here can check.
void check_refused(Json c, const OpCase& op_case, const OpCall& call, GoldenRun& run) {
  const std::string id = text(member(c, "id"));
  const std::string wanted = text(member(c, "error"));
  try {
    for (const Tensor& out : call.run(op_case)) {
      if (out.requires_grad()) core::backward({core::real(out).sum()});
    }
  } catch (const std::exception& error) {
    const std::string ours = std::string(error.what()).substr(0, std::string(error.what()).find('\n'));
    return run.check(id, is_same_error(ours, wanted), "error: got " + ours + " want " + wanted);
  }
  run.skip(id, "PyTorch refuses it, and it works here");
}

void run_case(Json c, const OpCalls& calls, const GoldenArrays& arrays, GoldenRun& run) {
  std::string id = text(member(c, "id"));
  auto found = calls.find(text(member(c, "op")));
  if (found == calls.end()) return run.skip(id, "operation not built yet");
  guarded(run, id, [&] {
    OpCase op_case = read_case(c, arrays);
    if (has(c, "error")) return check_refused(c, op_case, found->second, run);
    const bool mixed = has(c, "autocast");
    auto out =
        mixed ? in_mixed_precision(dtype(member(c, "autocast")), found->second, op_case) : found->second.run(op_case);
    if (mixed && on_golden_device() && !has_types(out, texts(member(c, "output_dtypes")))) {
      return run.skip(id, "CUDA's list has another type");
    }
    const Exactness exactness = mixed                                 ? Exactness::mixed
                                : is_exact(c, op_case, found->second) ? Exactness::bits
                                                                      : Exactness::rounded;
    std::string wrong = check_outputs(c, out, arrays, exactness);
    if (wrong.empty() && mixed) wrong = check_casts(c, found->second, out, arrays);
    if (wrong.empty()) wrong = check_grads(c, op_case, out, arrays, mixed ? exactness : Exactness::rounded);
    run.check(id, wrong.empty(), wrong);
  });
}

/// What only moves, chooses or compares numbers, or rounds once.
void mark_exact(OpCalls& calls) {
  for (const char* name : {"torch.add",
                           "torch.sub",
                           "torch.rsub",
                           "torch.clamp",
                           "torch.amax",
                           "torch.amin",
                           "torch.median",
                           "torch.outer",
                           "torch.diag",
                           "torch.repeat_interleave",
                           "list.torch.broadcast_tensors*",
                           "list.torch.meshgrid*",
                           "F.pad",
                           "F.unfold",
                           "F.max_pool1d",
                           "F.max_pool2d",
                           "F.max_pool3d",
                           "F.adaptive_max_pool2d",
                           "F.pixel_shuffle",
                           "F.pixel_unshuffle",
                           "F.hardtanh",
                           "F.relu6",
                           "F.hardshrink",
                           "F.prelu",
                           "embedding",
                           "inplace.add_",
                           "inplace.sub_",
                           "inplace.mul_",
                           "inplace.div_",
                           "inplace.relu_",
                           "inplace.zero_",
                           "inplace.neg_",
                           "inplace.abs_",
                           "inplace.clamp_",
                           "inplace.fill_",
                           "inplace.copy_",
                           "inplace.masked_fill_"}) {
    calls.at(name).exact = true;
  }
}

}  // namespace

void run_promotion(Json root, GoldenRun& run);  // ops_golden_promotion.cpp
/// float8.json and scaler.json beside half/ops.json.
void run_half_parts(const std::string& folder, GoldenRun& run);  // ops_golden_half.cpp

}  // namespace test

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "runtime";
  return test::golden_main("ops", folder + "/ops.json", [&](test::Json root, test::GoldenRun& run) {
    test::compute_on_golden_device();
    test::GoldenArrays arrays(*test::golden_file(folder + "/ops.safetensors"));
    test::OpCalls calls;
    test::add_elementwise_calls(calls);
    test::add_reduction_calls(calls);
    test::add_matmul_calls(calls);
    test::add_shape_calls(calls);
    test::add_in_place_calls(calls);
    test::add_nn_calls(calls);
    test::add_nn_more_calls(calls);
    test::add_more_calls(calls);
    test::add_half_calls(calls);
    test::add_complex_calls(calls);
    test::add_inventory_calls(calls);
    test::mark_exact(calls);
    for (test::Json c : test::items(test::member(root, "cases"))) test::run_case(c, calls, arrays, run);
    if (folder == "half") test::run_half_parts(folder, run);
    if (test::has(root, "promotion")) test::run_promotion(root, run);
  });
}
