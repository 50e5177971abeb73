// Modules as ONNX files: what is in them, and what is refused before anything is written.
#include "libckpt/onnx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "libckpt/bridge.h"
#include "libckpt/io/file_source.h"
#include "libckpt/io/proto_reader.h"
#include "libcore/core.h"
#include "libcore/tensor/op_trace.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_dir.h"

namespace {

using ckpt::detail::ProtoField;
using ckpt::detail::ProtoRange;
using ckpt::detail::ProtoReader;
using ckpt::onnx::export_model;
using core::Tensor;
using testing::ElementsAre;
using testing::HasSubstr;

/// What a test looks at in a file.
struct Model {
  std::vector<std::string> ops, nodes, initializers, inputs, outputs;  ///< values: "input:batch,3"
  std::uint64_t opset = 0;
};

class Reading {
 public:
  explicit Reading(const std::filesystem::path& path) : file_(ckpt::open_file(path)), in_(*file_) {}

  Model model() {
    Model model;
    each(in_.all(), [&](const ProtoField& field) {
      if (field.number == 8)
        each(field.content, [&](const ProtoField& f) { model.opset = f.number == 2 ? f.value : model.opset; });
      if (field.number == 7) graph(field, model);
    });
    return model;
  }

 private:
  template <class Visit>
  void each(ProtoRange range, Visit visit) {
    while (auto field = in_.next(range)) visit(*field);
  }
  std::string text(const ProtoField& field) { return in_.text(field, 1000); }

  void graph(const ProtoField& graph, Model& model) {
    each(graph.content, [&](const ProtoField& field) {
      if (field.number == 11) model.inputs.push_back(value(field));
      if (field.number == 12) model.outputs.push_back(value(field));
      each_named(field, model);
    });
  }
  void each_named(const ProtoField& field, Model& model) {
    if (field.number != 1 && field.number != 5) return;
    each(field.content, [&](const ProtoField& f) {
      if (field.number == 1 && f.number == 4) model.ops.push_back(text(f));
      if (field.number == 1 && f.number == 3) model.nodes.push_back(text(f));
      if (field.number == 5 && f.number == 8) model.initializers.push_back(text(f));
    });
  }
  std::string value(const ProtoField& info) {
    std::string name, sizes;
    each(info.content, [&](const ProtoField& f) {
      if (f.number == 1) name = text(f);
      if (f.number == 2) each(f.content, [&](const ProtoField& type) { sizes = tensor_type(type); });
    });
    return name + ":" + sizes;
  }
  std::string tensor_type(const ProtoField& type) {
    std::string sizes;
    each(type.content, [&](const ProtoField& f) {
      if (f.number != 2) return;
      each(f.content, [&](const ProtoField& dim) {
        each(dim.content, [&](const ProtoField& d) {
          sizes += (sizes.empty() ? "" : ",") + (d.number == 1 ? std::to_string(d.value) : text(d));
        });
      });
    });
    return sizes;
  }

  std::shared_ptr<const ckpt::ByteSource> file_;
  ProtoReader in_;
};

Model read(const std::filesystem::path& path) {
  return Reading(path).model();
}

struct Net : core::ModuleOf<Net> {
  core::Conv2d conv = core::Conv2d(3, 4, 3, {.padding = 1});
  core::BatchNorm2d bn = core::BatchNorm2d(4);
  core::Dropout dropout = core::Dropout(0.5);
  core::Linear fc = core::Linear(4 * 6 * 6, 5);
  void members(core::Members& m) override {
    m.child("conv", conv).child("bn", bn).child("dropout", dropout).child("fc", fc);
  }
  Tensor forward(const Tensor& x) { return fc(dropout(core::relu(bn(conv(x)))).flatten(1)); }
};

/// One whose forward is a function.
struct Calls : core::ModuleOf<Calls> {
  std::function<Tensor(const Tensor&)> function;
  explicit Calls(std::function<Tensor(const Tensor&)> f) : function(std::move(f)) {}
  void members(core::Members&) override {}
  Tensor forward(const Tensor& x) { return function(x); }
};
struct Outer : core::ModuleOf<Outer> {
  Calls inner;
  explicit Outer(std::function<Tensor(const Tensor&)> f) : inner(std::move(f)) {}
  void members(core::Members& m) override { m.child("inner", inner); }
  Tensor forward(const Tensor& x) { return inner(x); }
};

class OnnxExport : public testing::Test {
 protected:
  test::TempDir dir_;
  std::filesystem::path path_ = dir_.path() / "net.onnx";

  /// What is said of a function that cannot be exported; nothing may be there then, and nothing may go on tracing.
  std::string refusal(std::function<Tensor(const Tensor&)> function, const ckpt::onnx::ExportOptions& options = {}) {
    Outer outer(std::move(function));
    const std::string said = test::message_of([&] { export_model(outer, {core::rand({2, 6})}, path_, options); });
    EXPECT_TRUE(std::filesystem::is_empty(dir_.path())) << said;
    EXPECT_EQ(core::detail::tracing.load(), 0);
    EXPECT_FALSE(core::detail::profiling.load());
    return said;
  }
};

const ckpt::onnx::DynamicAxes kBatch = {{"input", {{0, "batch"}}}};

TEST_F(OnnxExport, HoldsOperatorsInTheirModulesAndTheState) {
  Net net;
  core::uniform_(net.bn.running_var, 0.5, 1.5);
  export_model(net, {core::rand({1, 3, 6, 6})}, path_, {.dynamic_axes = kBatch});
  const Model model = read(path_);
  EXPECT_THAT(model.ops, ElementsAre("Conv", "BatchNormalization", "Relu", "Reshape", "Gemm", "Identity"));
  EXPECT_THAT(model.nodes,
              ElementsAre("/conv/Conv", "/bn/BatchNormalization", "/Relu", "/Reshape", "/fc/Gemm", "/Identity"));
  EXPECT_THAT(model.inputs, ElementsAre("input:batch,3,6,6"));
  EXPECT_THAT(model.outputs, ElementsAre("output:batch,5"));
  EXPECT_EQ(model.opset, 17U);
  std::map<std::string, std::vector<float>> values;
  for (const ckpt::NamedEntry& each : ckpt::list_entries(ckpt::open(path_).root)) {
    values[each.name] = ckpt::to_tensor(*each.entry, core::Device("cpu")).to(core::DType::f32).to_vector<float>();
  }
  for (const auto& [name, tensor] : net.state_dict()) {
    if (name == "bn.num_batches_tracked") continue;  // no operator reads it
    EXPECT_EQ(values[name], tensor.to_vector<float>()) << name;
  }
}

TEST_F(OnnxExport, IsOfFixedSizesUnlessToldOtherwise) {
  Net net;
  export_model(net, {core::rand({2, 3, 6, 6})}, path_,
               {.input_names = {"image"}, .output_names = {"logits"}, .opset = 18});
  const Model model = read(path_);
  EXPECT_THAT(model.inputs, ElementsAre("image:2,3,6,6"));
  EXPECT_THAT(model.outputs, ElementsAre("logits:2,5"));
  EXPECT_EQ(model.opset, 18U);
}

TEST_F(OnnxExport, RunsInEvaluationModeAndLeavesTheModesAlone) {
  Net net;
  net.bn.eval();
  export_model(net, {core::rand({2, 3, 6, 6})}, path_);
  EXPECT_TRUE(net.is_training());
  EXPECT_TRUE(net.dropout.is_training());
  EXPECT_FALSE(net.bn.is_training());
  EXPECT_EQ(read(path_).ops.size(), 6U);
}

TEST_F(OnnxExport, PutsValuesInAFileBesideOnDemand) {
  Net net;
  export_model(net, {core::rand({2, 3, 6, 6})}, path_, {.external_data = true});
  EXPECT_TRUE(std::filesystem::exists(dir_.path() / "net.onnx.data"));
  EXPECT_LT(std::filesystem::file_size(path_), 4096U);
  const ckpt::Value weight = ckpt::value_at(ckpt::open(path_).root, "fc.weight");
  EXPECT_EQ(ckpt::to_tensor(weight.as_entry(), core::Device("cpu")).to_vector<float>(),
            net.fc.weight.to_vector<float>());
}

TEST_F(OnnxExport, NamesTheOperationAndModuleThatItCannotWrite) {
  EXPECT_EQ(refusal([](const Tensor& x) { return core::cumprod(x, 1); }),
            "ONNX export: module 'inner' calls 'cumprod': it has no operator in ONNX here");
  EXPECT_EQ(refusal([](const Tensor& x) { return core::erfinv(x); }),
            "ONNX export: module 'inner' calls 'erfinv': it has no operator in ONNX here");
  EXPECT_EQ(refusal([](const Tensor& x) {
              return x.as_strided({2, 2}, {6, 2});
            }),
            "ONNX export: module 'inner' calls an operation that has no operator in ONNX here ('as_strided')");
}

TEST_F(OnnxExport, NamesWhatAnOperatorDoesNotTake) {
  const Tensor index = core::zeros({2, 6}, {.dtype = core::DType::i64});
  EXPECT_EQ(refusal([&](const Tensor& x) { return core::scatter_reduce(x, 1, index, x, "mean"); }),
            "ONNX export: module 'inner' calls 'scatter_reduce': a mean has no operator");
  EXPECT_EQ(refusal([&](const Tensor& x) { return core::scatter_reduce(x, 1, index, x, "sum", false); }),
            "ONNX export: module 'inner' calls 'scatter_reduce': only with what stood there (include_self) it has an "
            "operator");
  EXPECT_EQ(refusal([&](const Tensor& x) { return core::scatter_reduce(x, 1, index, x, "amax"); }),
            "ONNX export: module 'inner' calls 'scatter_reduce': an extreme has an operator from opset 18 on");
  EXPECT_EQ(refusal([](const Tensor& x) { return core::bitwise_not(x.to_long()); }),
            "ONNX export: module 'inner' calls 'bitwise_not': whole numbers have an operator from opset 18 on");
  EXPECT_EQ(refusal([](const Tensor& x) {
              return core::interpolate(x.view({1, 1, 2, 6}), {.size = {1, 3}, .mode = "bilinear", .antialias = true});
            }),
            "ONNX export: module 'inner' calls 'interpolate': antialias has no operator with these numbers");
  EXPECT_EQ(refusal([](const Tensor& x) { return core::nonzero(x) * 2; }),
            "ONNX export: module 'inner' calls an operation that has no operator in ONNX here ('nonzero')");
}

/// The casts are within operations, where no trace sees them.
TEST_F(OnnxExport, RefusesAutocast) {
  core::Linear fc(6, 3);
  const auto within = [&](const Tensor& x) {
    const core::autocast guard("cpu");
    return fc(x);
  };
  const std::string text =
      "ONNX export: the model runs under autocast, whose casts a trace does not see: export it outside of the guard";
  EXPECT_EQ(refusal(within), text);
  const core::autocast guard("cpu");
  EXPECT_EQ(refusal([&](const Tensor& x) { return fc(x); }), text);
  EXPECT_EQ(test::message_of([&] { export_model(fc, {core::rand({2, 6})}, path_); }), text);
}

TEST_F(OnnxExport, RefusesWhatFollowsTheValuesOfTheInputs) {
  EXPECT_EQ(refusal([](const Tensor& x) { return x.sum().item<float>() > 0 ? x * 2 : x; }),
            "ONNX export: module 'inner' decides by the values of its inputs ('item')");
  // Behind the trace's back: what comes out differs between the passes.
  EXPECT_EQ(refusal([](const Tensor& x) { return x + core::full({1}, x.data<float>()[0] + 1); }),
            "ONNX export: module 'inner' calls 'full': its value follows the inputs");
}

TEST_F(OnnxExport, RefusesAValueThatChangedThroughAnotherTensor) {
  EXPECT_THAT(refusal([](const Tensor& x) {
                const Tensor y = x * 2;
                y.select(0, 0).mul_(3);
                return y + 1;
              }),
              HasSubstr("was changed in place through another tensor by 'mul'"));
}

TEST_F(OnnxExport, KeepsTheFileThatIsThereWhenItFails) {
  std::ofstream(path_) << "before";
  Outer outer([](const Tensor& x) { return core::cumprod(x, 1); });
  EXPECT_THROW(export_model(outer, {core::rand({2, 6})}, path_), core::Error);
  EXPECT_EQ(std::filesystem::file_size(path_), 6U);
}

TEST_F(OnnxExport, SaysWhichOptionDoesNotFit) {
  const auto same = [](const Tensor& x) { return x * 2; };
  EXPECT_EQ(refusal(same, {.opset = 16}), "ONNX export: opset 16 is not written: 17 and 18 are");
  EXPECT_EQ(refusal(same, {.dynamic_axes = {{"x", {{0, "batch"}}}}}),
            "ONNX export: dynamic_axes names the input 'x', which is not there");
  EXPECT_EQ(refusal(same, {.dynamic_axes = {{"input", {{2, "batch"}}}}}), "ONNX export: input 'input' has no axis 2");
  EXPECT_EQ(refusal(same, {.output_names = {"a", "b"}}), "ONNX export: 2 names are given for 1 outputs");
}

TEST_F(OnnxExport, KeepsNamesApartWhoseExamplesAreOfOneSize) {
  Outer unused([](const Tensor& x) { return x; });
  const auto both = [](core::Module&, const std::vector<Tensor>& in) {
    return std::vector<Tensor>{in[0].reshape({in[0].size(1), 1}), in[1].reshape({in[1].size(1), 1})};
  };
  const Tensor text = core::zeros({1, 7}, {.dtype = core::DType::i64});
  export_model(
      unused, {text, text}, path_,
      {.input_names = {"a", "b"}, .dynamic_axes = {{"a", {{1, "read"}}}, {"b", {{1, "written"}}}}, .forward = both});
  EXPECT_THAT(read(path_).outputs, ElementsAre("output_0:read,1", "output_1:written,1"));
}

TEST_F(OnnxExport, TellsWhichSizeANumberFollows) {
  Outer unused([](const Tensor& x) { return x; });
  const auto shapes = [](core::Module&, const std::vector<Tensor>& in) {
    const std::int64_t rows = in[0].size(0), length = in[0].size(1);
    return std::vector<Tensor>{in[0].slice(1, 0, length - 1), core::arange(0, length + 6),
                               core::arange(0, length * length), core::arange(0, 2 * rows * length + 3),
                               in[0].slice(1, 0, 20)};
  };
  const ckpt::onnx::DynamicAxes axes = {{"input", {{0, "batch"}, {1, "length"}}}};
  for (const Tensor& example : {core::rand({1, 6}), core::zeros({1, 6}, {.dtype = core::DType::i64})}) {
    const auto written = export_model(unused, {example}, path_, {.dynamic_axes = axes, .forward = shapes});
    EXPECT_THAT(written.outputs,
                ElementsAre("output_0 (batch, length-1)", "output_1 (length+6)", "output_2 (length*length)",
                            "output_3 (2*batch*length+3)", "output_4 (batch, length)"));
  }
}

TEST_F(OnnxExport, RefusesASizeThatIsNoProduct) {
  const auto half = [](const Tensor& x) { return x + core::arange(0, x.size(1) / 2).sum(); };
  EXPECT_EQ(refusal(half, {.dynamic_axes = {{"input", {{0, "batch"}, {1, "length"}}}}}),
            "ONNX export: module 'inner' calls 'arange': a number of it is 3, 3, 6 for several sizes of the inputs, "
            "which is no product of them and whole numbers");
}

TEST_F(OnnxExport, RefusesPartsOfASize) {
  const auto halves = [](const Tensor& x) { return x.chunk(2, 0)[0] * 2; };
  EXPECT_THAT(refusal(halves, {.dynamic_axes = kBatch}),
              HasSubstr("calls 'split': a number of it is 1, 2 for several"));
  for (const std::int64_t length : {6, 7}) {
    Outer outer([](const Tensor& x) { return core::arange(0, x.size(1) / 2); });
    const Tensor text = core::zeros({1, length}, {.dtype = core::DType::i64});
    EXPECT_THAT(test::message_of([&] {
                  export_model(outer, {text}, path_, {.dynamic_axes = {{"input", {{1, "length"}}}}});
                }),
                HasSubstr("which is no product of them and whole numbers"))
        << length;
  }
}

TEST_F(OnnxExport, RefusesAnOutputThatChangedThroughAnotherTensor) {
  EXPECT_EQ(refusal([](const Tensor& x) {
              Tensor y = x * 2;
              y.select(0, 0).mul_(3);
              return y;
            }),
            "ONNX export: output 'output' was changed in place through another tensor by 'mul'");
  EXPECT_EQ(refusal([](const Tensor& x) {
              const Tensor signs = core::zeros({6}, {.dtype = core::DType::i64});
              signs.slice(0, 0, 3).copy_((x.select(0, 0) > -1).slice(0, 0, 3));  // of the same bytes in every pass
              return signs;
            }),
            "ONNX export: output 'output' was changed in place through another tensor by 'copy'");
}

TEST_F(OnnxExport, RefusesNumbersReadOutOfIntegers) {
  Outer outer([](const Tensor& x) { return x + core::full({1}, x.data<std::int64_t>()[0]); });
  EXPECT_EQ(test::message_of([&] { export_model(outer, {core::arange(0, 4)}, path_); }),
            "ONNX export: module 'inner' calls 'full': its value follows the inputs");
}

TEST_F(OnnxExport, SaysWhichOutputsAndNamesDoNotFit) {
  const auto same = [](const Tensor& x) { return x * 2; };
  EXPECT_EQ(refusal(same, {.input_names = {"x"}, .output_names = {"x"}}),
            "ONNX export: two inputs or outputs are called 'x'");
  EXPECT_EQ(refusal(same, {.input_names = {""}}), "ONNX export: an input or output has an empty name");
  const auto giving = [&](std::vector<Tensor> outputs) {
    return refusal(same, {.forward = [=](core::Module&, const std::vector<Tensor>&) { return outputs; }});
  };
  EXPECT_EQ(giving({}), "ONNX export: the model gives no output");
  EXPECT_EQ(giving({core::ones({2}), Tensor()}), "ONNX export: output 1 of the model is an undefined tensor");
}

TEST_F(OnnxExport, CallsAParameterOtherwiseWhoseNameIsTaken) {
  Net net;
  export_model(net, {core::rand({2, 3, 6, 6})}, path_, {.input_names = {"fc.weight"}, .output_names = {"fc.bias"}});
  EXPECT_THAT(read(path_).initializers, testing::IsSupersetOf({"fc.weight_1", "fc.bias_1"}));
  EXPECT_THAT(read(path_).outputs, ElementsAre("fc.bias:2,5"));
}

TEST_F(OnnxExport, LeavesOutWhatNoOutputNeeds) {
  Outer outer([](const Tensor& x) {
    const Tensor unused = core::erfinv(x);
    return core::relu(x);
  });
  export_model(outer, {core::rand({2, 6})}, path_);
  EXPECT_THAT(read(path_).ops, ElementsAre("Relu", "Identity"));
}

TEST(OpTrace, LetsAProfilerGoOn) {
  core::Linear net(3, 2);
  test::TempDir dir;
  core::profiler::profile profile;
  export_model(net, {core::rand({2, 3})}, dir.path() / "net.onnx");
  const Tensor y = net(core::rand({2, 3}));
  profile.stop();
  std::size_t linears = 0;
  for (const auto& event : profile.events()) linears += event.name == "aten::linear" ? 1 : 0;
  EXPECT_EQ(linears, 3U);  // two passes, and one behind them
  EXPECT_FALSE(core::detail::profiling.load());
}

}  // namespace
