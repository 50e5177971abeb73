// Gradients of every differentiable operation against finite differences, twice; and that none is missing.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "libcore/autograd/autograd.h"
#include "libcore/autograd/node.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/index.h"
#include "libcore/ops/join.h"
#include "libcore/ops/scan.h"
#include "libcore/ops/softmax.h"
#include "libcore/ops/sort.h"
#include "libcore/ops/sparse.h"
#include "libcore/optim/options.h"
#include "libcore/tensor/iterate.h"
#include "libcore/tensor/memory_format.h"
#include "libcore/tensor/print.h"
#include "tests/libcore/autograd/gradcheck_cases.h"

namespace {

using test::GradCase;
using test::GradCases;
using Add = void (*)(GradCases&);

constexpr Add kGroups[] = {test::add_elementwise_cases, test::add_activation_cases, test::add_reduction_cases,
                           test::add_order_cases,       test::add_product_cases,    test::add_view_cases,
                           test::add_joining_cases,     test::add_picking_cases,    test::add_in_place_cases,
                           test::add_layer_cases,       test::add_pool_cases,       test::add_loss_cases,
                           test::add_linalg_cases,      test::add_complex_cases};

std::string failure_of(const std::function<void()>& check) {
  try {
    check();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

class GradcheckTable : public testing::TestWithParam<Add> {};

TEST_P(GradcheckTable, FirstDerivatives) {
  GradCases cases;
  GetParam()(cases);
  for (const GradCase& row : cases.rows()) {
    EXPECT_EQ(failure_of([&] { core::gradcheck(row.function, row.inputs); }), "") << row.name;
  }
}

TEST_P(GradcheckTable, SecondDerivatives) {
  GradCases cases;
  GetParam()(cases);
  for (const GradCase& row : cases.rows()) {
    if (!row.twice) continue;
    EXPECT_EQ(failure_of([&] { core::gradgradcheck(row.function, row.inputs); }), "") << row.name;
  }
}

/// Gradients of all outputs at once, each element with a weight of its own.
std::vector<core::Tensor> weighted_gradients(const GradCase& row, const std::vector<core::Tensor>& inputs) {
  core::Tensor total;
  for (const core::Tensor& output : row.function(inputs)) {
    if (!output.requires_grad()) continue;
    const core::Tensor part = (output * test::fixed(output.sizes(), -1, 1.3).to(output.dtype())).sum();
    total = total.defined() ? total + part : part;
  }
  return core::grad({total}, inputs, {.materialize_grads = true});
}

/// Kernels of f32 are others than those of f64: what was proved for these must hold there.
TEST_P(GradcheckTable, FloatGradientsAreThoseOfDouble) {
  GradCases cases;
  GetParam()(cases);
  std::size_t refused = 0;
  for (const GradCase& row : cases.rows()) {
    if (row.name.find("dropout") != std::string::npos || row.name == "rrelu/training") continue;  // other draws
    std::vector<core::Tensor> inputs;
    for (const core::Tensor& x : row.inputs) inputs.push_back(x.detach().to(core::DType::f32).requires_grad_());
    const auto expected = weighted_gradients(row, row.inputs);
    std::vector<core::Tensor> found;
    // Rows that also hold f64 tensors of their own may refuse the mixture.
    const std::string refusal = failure_of([&] { found = weighted_gradients(row, inputs); });
    EXPECT_TRUE(refusal.empty() || refusal.find("type") != std::string::npos) << row.name << ": " << refusal;
    refused += refusal.empty() ? 0 : 1;
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_TRUE(core::allclose(found[i].to(core::DType::f64), expected[i], {.rtol = 2e-3, .atol = 2e-4}))
          << row.name << ": input " << i << ": " << found[i] << "\ninstead of " << expected[i];
    }
  }
  EXPECT_LE(refused * 8, cases.rows().size()) << "rows that were not compared";
}

INSTANTIATE_TEST_SUITE_P(All, GradcheckTable, testing::ValuesIn(kGroups),
                         [](const auto& of) { return std::to_string(of.index); });

std::string text_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::set<std::string> matches(const std::string& text, const std::regex& pattern) {
  std::set<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at) found.insert((*at)[1]);
  return found;
}

void collect_nodes(const core::Node* node, std::set<const core::Node*>& seen, std::set<std::string>& names) {
  if (node == nullptr || !seen.insert(node).second) return;
  names.insert(std::string(node->name()));
  for (const core::Edge& edge : node->next_edges()) collect_nodes(edge.node.get(), seen, names);
}

/// Names of all nodes that the table's rows record.
std::set<std::string> recorded_names() {
  std::set<std::string> names;
  for (const Add add : kGroups) {
    GradCases cases;
    add(cases);
    for (const GradCase& row : cases.rows()) {
      std::set<const core::Node*> seen;
      for (const core::Tensor& output : row.function(row.inputs)) {
        if (!output.requires_grad()) continue;
        collect_nodes(output.grad_fn().get(), seen, names);
        // Nodes of the gradients too.
        const core::Tensor up = core::ones_like(output).requires_grad_();
        for (const core::Tensor& slope :
             core::grad({output}, row.inputs, {.grad_outputs = {up}, .create_graph = true, .allow_unused = true})) {
          if (slope.defined() && slope.requires_grad()) collect_nodes(slope.grad_fn().get(), seen, names);
        }
      }
    }
  }
  return names;
}

/// Nodes that no row of f64 inputs on one device records, each with where it is tested.
const std::set<std::string> kNodesElsewhere = {
    "ToCopyBackward0",                 // casts: autograd_test
    "torch::autograd::CopyBackwards",  // inside CopySlices where a view is copied into
    "TransposeBackward1",              // what batch_first ends with: the modules' tests
    "MkldnnRnnLayerBackward0",         // the f32 name of the LSTM layer's node
    "CudnnRnnBackward0",               // layers by cuDNN: cudnn_recurrent_test
    "NativeDropoutBackward0",          // dropout on CUDA devices: random_golden_test
};

TEST(GradcheckTable, HoldsEveryNodeOfTheLibrary) {
  std::set<std::string> missing;
  const std::set<std::string> recorded = recorded_names();
  const std::regex literal("\"((?:torch::autograd::)?\\w+Backward[s0-9]*)\"");
  for (const auto& entry : std::filesystem::directory_iterator(CORE_SOURCE_DIR "/autograd")) {
    if (entry.path().extension() != ".cpp") continue;
    for (const std::string& name : matches(text_of(entry.path()), literal)) {
      if (!recorded.contains(name) && !kNodesElsewhere.contains(name)) missing.insert(name);
    }
  }
  EXPECT_EQ(missing, std::set<std::string>()) << "operations without a row in the table of gradients";
}

/// Functions of the headers whose results have no gradient, or that are no operations; grouped_mm() takes no f64, and
/// the gradient of rounding to steps is not that of its values (golden_inventory compares both with PyTorch's).
const std::set<std::string> kWithoutGradient = {"airy_ai",
                                                "detach_copy",
                                                "fake_quantize_per_channel_affine",
                                                "fake_quantize_per_tensor_affine",
                                                "grouped_mm",
                                                "hash_tensor",
                                                "unravel_index",
                                                "all",
                                                "any",
                                                "argmax",
                                                "argmin",
                                                "argsort",
                                                "argwhere",
                                                "bartlett_window",
                                                "bincount",
                                                "bitwise_and",
                                                "bitwise_left_shift",
                                                "bitwise_not",
                                                "bitwise_or",
                                                "bitwise_right_shift",
                                                "bitwise_xor",
                                                "blackman_window",
                                                "bucketize",
                                                "complex_number",
                                                "count_nonzero",
                                                "eq",
                                                "fftfreq",
                                                "floor_divide",
                                                "gcd",
                                                "ge",
                                                "gt",
                                                "heaviside",
                                                "gumbel_softmax",
                                                "hamming_window",
                                                "hann_window",
                                                "histc",
                                                "isclose",
                                                "isfinite",
                                                "isin",
                                                "isinf",
                                                "isnan",
                                                "isneginf",
                                                "isreal",
                                                "isposinf",
                                                "kaiser_window",
                                                "lcm",
                                                "le",
                                                "logical_and",
                                                "logical_not",
                                                "logical_or",
                                                "logical_xor",
                                                "lt",
                                                "ne",
                                                "nextafter",
                                                "nonzero",
                                                "nonzero_static",
                                                "one_hot",
                                                "packed_recurrent_layer",
                                                "resolve_conj",
                                                "rfftfreq",
                                                "scaled_modified_bessel_k0",
                                                "scaled_modified_bessel_k1",
                                                "searchsorted",
                                                "signbit",
                                                "spherical_bessel_j0",
                                                "tril_indices",
                                                "triu_indices",
                                                "unique",
                                                "unique_consecutive",
                                                "unique_with"};

TEST(GradcheckTable, HoldsEveryFunctionOfTheHeaders) {
  std::set<std::string> covered = kWithoutGradient;
  for (const Add add : kGroups) {
    GradCases cases;
    add(cases);
    for (const GradCase& row : cases.rows()) covered.insert(row.name.substr(0, row.name.find('/')));
  }
  std::set<std::string> missing;
  const std::regex declared(
      "\\n(?:Tensor|ValuesIndices|VarMean|StdMean|MinMax|Unique|RecurrentState|RecurrentLayer|std::vector<Tensor>) "
      "(\\w+)\\(");
  for (const auto& entry : std::filesystem::directory_iterator(CORE_SOURCE_DIR "/ops")) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() != ".h" || name == "synonyms.h" || name == "sparse.h") continue;
    for (const std::string& function : matches(text_of(entry.path()), declared)) {
      if (!covered.contains(function)) missing.insert(function);
    }
  }
  EXPECT_EQ(missing, std::set<std::string>()) << "functions without a row in the table of gradients";
}

TEST(GradcheckTable, EmptyInputsGiveEmptyGradients) {
  using core::Tensor;
  const std::function<Tensor(const Tensor&)> functions[] = {
      [](const Tensor& x) { return core::exp(x); },
      [](const Tensor& x) { return x * x + x.sum(core::Shape{0}); },
      [](const Tensor& x) { return core::mean(x, {.dims = {1}}); },
      [](const Tensor& x) { return core::prod(x); },
      [](const Tensor& x) { return core::cumsum(x, 0); },
      [](const Tensor& x) {
        return core::matmul(x, core::ones({3, 2}, {.dtype = core::DType::f64}));
      },
      [](const Tensor& x) { return core::softmax(x, 1); },
      [](const Tensor& x) {
        return core::cat({x, x});
      },
      [](const Tensor& x) { return x.transpose(0, 1).reshape({-1}); },
      [](const Tensor& x) {
        return core::index_select(x, 1, core::tensor({0, 2}));
      },
      [](const Tensor& x) { return core::sort(x, 1).values; }};
  for (const auto& function : functions) {
    const Tensor x = core::zeros({0, 3}, {.dtype = core::DType::f64, .requires_grad = true});
    function(x).sum().backward();
    EXPECT_EQ(x.grad().sizes(), (core::Shape{0, 3}));
  }
}

}  // namespace
