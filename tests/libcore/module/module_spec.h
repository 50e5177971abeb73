#pragma once
// Builds modules from the constructor specs of the golden data.
// Use: test::BuiltModule built = test::build_module(spec); if (!built.module) skip(built.missing);

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libcore/module/module.h"
#include "tests/support/golden_json.h"

namespace test {

/// A user's class as a spec describes it: zero parameters and buffers, children called one after the other.
struct SpecModule : core::ModuleOf<SpecModule> {
  std::string class_text;
  std::string extra;
  bool chained = false;
  std::vector<std::pair<std::string, core::Parameter>> parameter_list;
  struct Buffer {
    std::string name;
    core::Tensor tensor;
    bool persistent;
  };
  std::vector<Buffer> buffer_list;
  std::vector<std::pair<std::string, std::shared_ptr<core::Module>>> child_list;

  void members(core::Members& m) override;
  std::string class_name() const override { return class_text; }
  std::string extra_repr() const override { return extra; }
  core::Tensor forward(const core::Tensor& x);
};

struct BuiltModule {
  std::shared_ptr<core::Module> module;
  std::string missing;  ///< the class or option that libcore does not have
};

BuiltModule build_module(Json spec);
/// forward of any module that build_module makes, with several inputs and results where it has them.
std::vector<core::Tensor> call_module(core::Module& module, const std::vector<core::Tensor>& inputs);

/// A tensor of the array's dtype, shape and values.
core::Tensor to_tensor(const GoldenArray& array);
/// To the tolerance of the golden data for sums of this dtype.
bool is_close(double ours, double theirs, core::DType dtype);
/// "" when all elements are close, else what differs.
std::string difference(const core::Tensor& tensor, const GoldenArray& expected);
/// Row-major bytes.
core::ByteVector bytes_of(const core::Tensor& tensor);

}  // namespace test
