// Forward values, strides, node names and gradients of every operation in ops.json, and the promotion table.
#include "tests/libcore/ops/ops_golden.h"

#include <cmath>
#include <cstring>
#include <sstream>

#include "libcore/autograd/autograd.h"
#include "libcore/ops/compare.h"
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

Tensor leaf_of(Json input, const GoldenArrays& arrays) {
  if (is_null(input)) return {};
  return tensor_of(arrays.at(text(member(input, "array")))).requires_grad_(boolean(member(input, "requires_grad")));
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

/// Room for rounding in the dtype, as the golden data's readme states it.
bool close(const Tensor& got, const Tensor& want) {
  bool narrow = want.dtype() == DType::f32;
  double relative = narrow ? 1.3e-6 : 1e-7, absolute = narrow ? 1e-5 : 1e-7;
  if (on_golden_device()) absolute *= 4;  // other kernels sum in other orders, which short rows of a norm show
  return core::allclose(got, want, {.rtol = relative, .atol = absolute, .equal_nan = true});
}

bool same_bits(const Tensor& got, const Tensor& want) {
  Tensor a = got.detach().cpu().contiguous(), b = want.cpu().contiguous();
  if (a.is_floating_point() && core::any(core::isnan(b)).item<bool>())
    return core::allclose(a, b, {.rtol = 0, .atol = 0, .equal_nan = true});
  auto bytes = static_cast<std::size_t>(a.numel() * core::bit_width(a.dtype()) / 8);
  return bytes == 0 || std::memcmp(a.raw_data(), b.raw_data(), bytes) == 0;
}

std::string describe(const Tensor& t) {
  std::ostringstream out;
  out << core::short_name(t.dtype()) << core::to_list(t.sizes()) << "/" << core::to_list(t.strides());
  if (t.numel() <= 12) {
    out << " {";
    for (double value : t.detach().to_vector<double>()) out << value << ' ';
    out << "}";
  }
  return out.str();
}

std::string compare(const Tensor& got, const GoldenArray& array, bool exact) {
  Tensor want = tensor_of(array);
  if (got.sizes() != want.sizes() || got.dtype() != want.dtype())
    return "got " + describe(got) + " want " + describe(want);
  bool whole = exact || !want.is_floating_point();
  if (whole ? same_bits(got, want) : close(got.detach(), want)) return "";
  return "values: got " + describe(got) + " want " + describe(want);
}

std::string check_outputs(Json c, const std::vector<Tensor>& out, const GoldenArrays& arrays, bool exact) {
  auto names = texts(member(c, "outputs"));
  if (names.size() != out.size()) return "number of outputs " + std::to_string(out.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::string wrong = compare(out[i], arrays.at(names[i]), exact);
    if (!wrong.empty()) return "output " + std::to_string(i) + ": " + wrong;
    core::Shape strides = shape(items(member(c, "output_strides")).at(i));
    if (out[i].strides() != strides)
      return "strides " + core::to_list(out[i].strides()) + " want " + core::to_list(strides);
    Json node = items(member(c, "grad_fns")).at(i);
    std::string want = is_null(node) ? "" : text(node);
    if (!test::is_same_node(out[i].grad_fn_name(), want)) return "node " + out[i].grad_fn_name() + " want " + want;
  }
  return "";
}

std::string check_grads(Json c, const OpCase& op_case, const std::vector<Tensor>& out, const GoldenArrays& arrays) {
  if (is_null(member(c, "grad_outputs"))) return "";
  std::vector<Tensor> roots, upstream;
  auto ups = items(member(c, "grad_outputs"));
  for (std::size_t i = 0; i < ups.size(); ++i) {
    if (is_null(ups.at(i))) continue;
    roots.push_back(out[i]);
    upstream.push_back(tensor_of(arrays.at(text(ups.at(i)))));
  }
  if (roots.empty()) return "";
  core::backward(roots, {.grad_outputs = upstream});
  auto grads = items(member(c, "grads"));
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (is_null(grads.at(i))) continue;
    Tensor got = op_case.leaves[i].grad();
    if (!got.defined()) return "no gradient of input " + std::to_string(i);
    std::string wrong = compare(got, arrays.at(text(grads.at(i))), false);
    if (!wrong.empty()) return "gradient " + std::to_string(i) + ": " + wrong;
  }
  if (!has(c, "param_grads")) return "";
  for (const auto field : member(c, "param_grads").get_object()) {
    if (is_null(field.value)) continue;
    const std::string key(field.key);
    std::string wrong = compare(op_case.params.at(key).grad(), arrays.at(text(field.value)), false);
    if (!wrong.empty()) return "gradient of " + key + ": " + wrong;
  }
  return "";
}

void run_case(Json c, const OpCalls& calls, const GoldenArrays& arrays, GoldenRun& run) {
  std::string id = text(member(c, "id"));
  auto found = calls.find(text(member(c, "op")));
  if (found == calls.end()) return run.skip(id, "operation not built yet");
  guarded(run, id, [&] {
    OpCase op_case = read_case(c, arrays);
    auto out = found->second.run(op_case);
    std::string wrong = check_outputs(c, out, arrays, found->second.exact);
    if (wrong.empty()) wrong = check_grads(c, op_case, out, arrays);
    run.check(id, wrong.empty(), wrong);
  });
}

}  // namespace

void run_promotion(Json root, GoldenRun& run);  // ops_golden_promotion.cpp

}  // namespace test

int main() {
  return test::golden_main("ops", "runtime/ops.json", [](test::Json root, test::GoldenRun& run) {
    test::compute_on_golden_device();
    test::GoldenArrays arrays(*test::golden_file("runtime/ops.safetensors"));
    test::OpCalls calls;
    test::add_elementwise_calls(calls);
    test::add_reduction_calls(calls);
    test::add_matmul_calls(calls);
    test::add_shape_calls(calls);
    test::add_in_place_calls(calls);
    test::add_nn_calls(calls);
    test::add_nn_more_calls(calls);
    test::add_more_calls(calls);
    for (test::Json c : test::items(test::member(root, "cases"))) test::run_case(c, calls, arrays, run);
    test::run_promotion(root, run);
  });
}
