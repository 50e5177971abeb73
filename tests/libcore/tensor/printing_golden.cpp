// Golden data set golden_runtime_printing: text of tensors, devices, sizes and dtypes, character for character.
#include <functional>
#include <map>
#include <sstream>

#include "libcore/backend/op_tables.h"
#include "libcore/base/text.h"
#include "libcore/module/parameter.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/index.h"
#include "libcore/ops/join.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/sparse.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/memory_format.h"
#include "libcore/tensor/print.h"
#include "libcore/tensor/print_format.h"
#include "libcore/tensor/tensor.h"
#include "tests/support/golden_device.h"
#include "tests/support/golden_json.h"

namespace {

using core::DType;
using core::Shape;
using core::Tensor;
using test::Json;
using test::member;

Shape reversed_dims(const Tensor& x) {
  Shape dims;
  for (std::int64_t i = x.dim() - 1; i >= 0; --i) dims.push_back(i);
  return dims;
}

Shape with_front(std::int64_t first, const Shape& rest) {
  Shape sizes{first};
  for (std::int64_t size : rest) sizes.push_back(size);
  return sizes;
}

Tensor repeated(const Tensor& x) {
  Shape times(static_cast<std::size_t>(x.dim()), 1);
  times[0] = 2;
  return x.repeat(times);
}

using Op = std::function<Tensor(const Tensor&)>;

const std::map<std::string, Op>& ops() {
  static const Tensor zero_index = core::from_values(std::vector<std::int64_t>{0});
  static const std::map<std::string, Op> kOps = {
      {"mul2", [](const Tensor& x) { return x * 2; }},
      {"add1", [](const Tensor& x) { return x + 1; }},
      {"neg", [](const Tensor& x) { return -x; }},
      {"clone", [](const Tensor& x) { return x.clone(); }},
      {"sub1", [](const Tensor& x) { return x - 1; }},
      {"rsub1", [](const Tensor& x) { return 1 - x; }},
      {"div2", [](const Tensor& x) { return x / 2; }},
      {"abs", [](const Tensor& x) { return x.abs(); }},
      {"relu", [](const Tensor& x) { return x.relu(); }},
      {"view_flat", [](const Tensor& x) { return x.view({-1}); }},
      {"reshape_flat", [](const Tensor& x) { return x.reshape({-1}); }},
      {"unsqueeze0", [](const Tensor& x) { return x.unsqueeze(0); }},
      {"transpose", [](const Tensor& x) { return x.transpose(0, -1); }},
      {"select0", [](const Tensor& x) { return x[0]; }},
      {"slice1", [](const Tensor& x) { return x.slice(0, 1); }},
      {"double", [](const Tensor& x) { return x.to_double(); }},
      {"sum", [](const Tensor& x) { return x.sum(); }},
      {"cat",
       [](const Tensor& x) {
         return core::cat({x, x});
       }},
      {"stack",
       [](const Tensor& x) {
         return core::stack({x, x});
       }},
      {"flatten", [](const Tensor& x) { return x.flatten(); }},
      {"flip", [](const Tensor& x) { return x.flip({0}); }},
      {"where", [](const Tensor& x) { return core::where(core::gt(x, 0), x, x); }},
      {"pow2", [](const Tensor& x) { return x.pow(2); }},
      {"cumsum", [](const Tensor& x) { return x.cumsum(0); }},
      {"detach", [](const Tensor& x) { return x.detach(); }},
      {"mean_dim0", [](const Tensor& x) { return x.mean(Shape{0}); }},
      {"max_all", [](const Tensor& x) { return x.max(); }},
      {"sum_dim_keep", [](const Tensor& x) { return x.sum(Shape{-1}, true); }},
      {"expand", [](const Tensor& x) { return x.unsqueeze(0).expand(with_front(2, x.sizes())); }},
      {"t", [](const Tensor& x) { return x.t(); }},
      {"permute", [](const Tensor& x) { return x.permute(reversed_dims(x)); }},
      {"masked_fill", [](const Tensor& x) { return x.masked_fill(core::gt(x, 0), 0.5); }},
      {"clamp", [](const Tensor& x) { return x.clamp(-1, 1); }},
      {"squeeze", [](const Tensor& x) { return x.squeeze(); }},
      {"index_select", [](const Tensor& x) { return x.index_select(0, zero_index); }},
      {"index", [](const Tensor& x) { return core::index(x, {zero_index}); }},
      {"leaky_relu", [](const Tensor& x) { return core::leaky_relu(x, 0.5); }},
      {"max_pool_id", [](const Tensor& x) { return x.max(0).values; }},
      {"unbind", [](const Tensor& x) { return x.unbind(0)[0]; }},
      {"split", [](const Tensor& x) { return x.split(1)[0]; }},
      {"repeat", repeated},
      {"roll", [](const Tensor& x) { return core::roll(x, {1}, {0}); }},
      {"tril", [](const Tensor& x) { return core::tril(x); }},
      {"diagonal", [](const Tensor& x) { return x.diagonal(); }},
  };
  return kOps;
}

core::PrintOptions options_of(Json json) {
  core::PrintOptions options;
  if (test::is_null(json)) return options;
  if (test::has(json, "profile")) {
    std::string profile = test::text(member(json, "profile"));
    if (profile == "short") options = core::PrintOptions::short_profile();
    if (profile == "full") options = core::PrintOptions::full_profile();
  }
  if (test::has(json, "precision")) options.precision = static_cast<int>(test::integer(member(json, "precision")));
  if (test::has(json, "threshold")) options.threshold = test::integer(member(json, "threshold"));
  if (test::has(json, "edgeitems")) options.edgeitems = test::integer(member(json, "edgeitems"));
  if (test::has(json, "linewidth")) options.linewidth = static_cast<int>(test::integer(member(json, "linewidth")));
  if (test::has(json, "sci_mode") && !test::is_null(member(json, "sci_mode"))) {
    options.sci_mode = test::boolean(member(json, "sci_mode"));
  }
  return options;
}

Tensor leaf_of(Json json) {
  Shape sizes = test::shape(member(json, "shape"));
  DType dtype = test::dtype(member(json, "dtype"));
  if (test::is_null(member(json, "data"))) return core::empty(sizes, {.dtype = dtype, .device = "meta"});
  return core::from_bytes(test::bytes_from_base64(test::text(member(json, "data"))), sizes, dtype);
}

std::string printed(Json json, const Op& op) {
  Tensor leaf = leaf_of(json);
  bool learns = test::boolean(member(json, "requires_grad"));
  std::ostringstream out;
  if (test::boolean(member(json, "parameter"))) {
    out << core::Parameter(leaf, learns);
  } else {
    if (learns) leaf.requires_grad_();
    out << (op ? op(leaf) : leaf);
  }
  return out.str();
}

void run_case(Json json, test::GoldenRun& run) {
  std::string id = test::text(member(json, "id"));
  Json op_name = member(json, "op");
  Op op;
  if (!test::is_null(op_name)) {
    auto found = ops().find(test::text(op_name));
    if (found == ops().end()) return run.skip(id, test::text(op_name));
    op = found->second;
  }
  Json default_dtype = member(json, "default_dtype");
  core::set_print_options(options_of(member(json, "printoptions")));
  if (!test::is_null(default_dtype)) core::set_default_dtype(test::dtype(default_dtype));
  std::string text;
  test::guarded(run, id, [&] { text = printed(json, op); });
  core::set_default_dtype(DType::f32);
  core::set_print_options({});
  std::string wanted = test::text(member(json, "expected"));
  run.check(id, text == wanted, "\n" + text + "\n--- where\n" + wanted);
}

void run_device_case(Json json, test::GoldenRun& run) {
  Tensor x = leaf_of(json);
  DType dtype = x.dtype();
  bool hides = dtype == DType::f32 || (x.numel() > 0 && (dtype == DType::i64 || dtype == DType::boolean));
  core::detail::Suffixes suffixes{.device = test::text(member(json, "device")),
                                  .show_dtype = !hides,
                                  .grad_fn = {},
                                  .requires_grad = test::boolean(member(json, "requires_grad"))};
  if (!test::is_null(member(json, "grad_fn"))) suffixes.grad_fn = test::text(member(json, "grad_fn"));
  static constexpr std::byte kNothing{};
  const auto* data = x.numel() == 0 ? &kNothing : static_cast<const std::byte*>(x.raw_data());
  std::string text = core::detail::format_tensor({dtype, x.sizes(), x.strides(), data}, suffixes, {});
  std::string wanted = test::text(member(json, "expected"));
  run.check(test::text(member(json, "id")), text == wanted, "\n" + text + "\n--- where\n" + wanted);
}

template <class T>
std::string streamed(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

/// "9.999999747378752e-06": item() as Python prints it, of the f32, integer or bool tensor that prints as recorded.
void run_item(Json json, const std::string& id, test::GoldenRun& run) {
  const std::string wanted = test::text(member(json, "item"));
  const bool is_bool = wanted == "True" || wanted == "False";
  const bool is_float = wanted.find_first_of(".einf") != std::string::npos && !is_bool;
  const double value = is_bool ? 1 : std::stod(wanted);
  const Tensor x = core::full({}, value, {.dtype = is_bool ? DType::boolean : is_float ? DType::f32 : DType::i64});
  const std::string item = is_bool    ? "True"
                           : is_float ? core::python_float(x.item<double>())
                                      : std::to_string(x.item<std::int64_t>());
  run.check(id, streamed(x) == test::text(member(json, "tensor")) && item == wanted, streamed(x) + " " + item);
}

/// Why a case of `misc` has no equivalent here.
std::string reason_to_skip(const std::string& what) {
  if (what == "repr_same_as_str") return "only Python has two texts of an object";
  if (what == "item_format_spec") return "only Python formats by a text";
  if (what == "tuple" || what == "device_tuple") return "only Python prints tuples";
  return what;
}

void run_misc(Json json, int number, test::GoldenRun& run) {
  std::string what = test::text(member(json, "what"));
  std::string id = "misc/" + std::to_string(number) + "/" + what;
  if (what == "device") {
    core::Device device(test::text(member(json, "input")));
    bool ok = device.str() == test::text(member(json, "str")) && device.repr() == test::text(member(json, "repr"));
    run.check(id, ok, device.repr());
  } else if (what == "device_equal") {
    bool equal = core::Device(test::text(member(json, "a"))) == core::Device(test::text(member(json, "b")));
    run.check(id, equal == test::boolean(member(json, "equal")), "");
  } else if (what == "size") {
    run.check(id, streamed(test::shape(member(json, "input"))) == test::text(member(json, "str")), "");
  } else if (what == "dtype") {
    DType dtype = test::dtype(member(json, "input"));
    bool ok = streamed(dtype) == test::text(member(json, "str")) &&
              core::bit_width(dtype) / 8 == test::integer(member(json, "itemsize")) &&
              core::is_floating(dtype) == test::boolean(member(json, "is_floating_point"));
    run.check(id, ok, streamed(dtype));
  } else if (what == "layout") {
    run.check(id, streamed(core::layout(core::ones({1}))) == test::text(member(json, "text")), "");
  } else if (what == "memory_format") {
    run.check(id, streamed(core::MemoryFormat::channels_last) == test::text(member(json, "text")), "");
  } else if (what == "item") {
    run_item(json, id, run);
  } else {
    run.skip(id, reason_to_skip(what));
  }
}

}  // namespace

int main() {
  return test::golden_main("printing", "runtime/printing.json", [](Json root, test::GoldenRun& run) {
    for (Json json : simdjson::dom::array(member(root, "device_cases"))) run_device_case(json, run);
    test::compute_on_golden_device();
    for (Json json : simdjson::dom::array(member(root, "cases"))) run_case(json, run);
    int number = 0;
    for (Json json : simdjson::dom::array(member(root, "misc"))) run_misc(json, number++, run);
  });
}
