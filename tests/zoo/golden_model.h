#pragma once
// A model of the zoo as its golden file describes it: built, filled, fed and compared.
// Use: auto net = test::build_golden_model(golden); test::fill_by_rules(*net, golden); auto y = test::run_model(*net,
// x);

#include <memory>
#include <string>
#include <vector>

#include "libcore/base/error.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "tests/support/golden_json.h"
#include "zoo/zoo.h"

namespace test {

/// The model that a file's constructor, configuration and arguments stand for. Errors: those of zoo::make().
std::shared_ptr<core::Module> build_golden_model(Json golden);
/// Whether the zoo has what the constructor names.
bool has_golden_model(Json golden);
/// Sets the probability of every dropout below `module` to 0.
void silence_dropout(core::Module& module);

/// Throws std::runtime_error(what) unless `ok`.
void require(bool ok, const std::string& what);
void require_close(double got, double want, double tolerance, const std::string& what);

/// The members "inputs" or "input" (one), the same for outputs.
std::vector<Json> inputs_of(Json holder);
std::vector<Json> outputs_of(Json holder);
/// One input by its description; floating ones in `dtype`.
core::Tensor make_input(Json input, core::DType dtype);
std::vector<core::Tensor> make_inputs(Json holder, core::DType dtype, core::Device device);

/// Every entry by the rule beside it; the module is cast when `dtype` is f64.
void fill_by_rules(core::Module& module, Json golden, core::DType dtype);

/// The outputs of one call. `extra`: noise of an autoencoder, label of a capsule network.
std::vector<core::Tensor> run_model(core::Module& module, const std::vector<core::Tensor>& inputs,
                                    const core::Tensor& extra = {});
/// The same under DataParallel over all logical devices, split along `dim`.
std::vector<core::Tensor> run_parallel_model(core::Module& module, const std::vector<core::Tensor>& inputs,
                                             const core::Tensor& extra, std::int64_t dim);

/// How near results in f64 have to come, relative. Models whose reference takes softmax and norms in f32 whatever the
/// dtype cannot be met more closely than that.
double wide_tolerance(Json golden);
/// Shape, first values, sum and weighted sum of an output block.
void check_output(const core::Tensor& output, Json block, double tolerance);
/// [i, sum, sum of magnitudes] of a tensor, which is named in the message.
void check_sums(const core::Tensor& tensor, double sum, double magnitude, double tolerance, const std::string& name);

/// Parameters and buffers by their place in the state, undefined gradients included.
std::vector<std::pair<std::string, core::Tensor>> state_in_order(core::Module& module);

/// Six losses and the state behind them, for every optimizer of the file, in f64 and f32, on 1 to 4 logical devices.
void check_training(Json golden);
/// Models with batch norm: each replica normalises by its own part, the statistics of the first device survive.
void check_parallel_statistics(Json golden);

}  // namespace test
