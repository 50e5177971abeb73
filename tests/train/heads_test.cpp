// Models whose auxiliary heads learn along: the loss is the sum that the papers give.

#include <gtest/gtest.h>

#include "libcore/ops/loss.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"
#include "tests/train/image_folder.h"
#include "tools/train/plan.h"
#include "tools/train/task.h"
#include "zoo/googlenet.h"
#include "zoo/inception.h"

namespace {

using core::Tensor;
using test::ImageFolder;
using test::write_grey;
using test::write_red;

/// The task of a model with auxiliary heads on two images, at the first step and without the noise of dropout.
struct HeadsRun {
  train::DataSet data;
  std::unique_ptr<train::Task> task;
  Tensor x, y;

  HeadsRun(train::RunOptions o, const train::DataRequest& request) : data(train::load_data(request)) {
    o.split = "none";
    o.in_order = true;
    fill_in(o, data);
    o.devices = "cpu";
    core::manual_seed(0);
    task = make_task(o, data);
    task->begin_epoch();
    task->module().eval();
    EXPECT_TRUE(task->next());
    x = (data.train.inputs.to(core::DType::f32) / 255.0 - data.mean) / data.deviation;
    y = data.train.targets;
  }
  double loss_of(const Tensor& logits) const { return core::cross_entropy(logits, y).item<double>(); }
};

class AuxiliaryHeads : public ImageFolder {
 protected:
  HeadsRun run(const std::string& model, std::int64_t side) {
    write_red(at("a/1.ppm"), 32, 32);
    write_grey(at("b/1.pgm"), 32, 32, 9);
    train::RunOptions o;
    o.data = dir_.path().string();
    o.model = model;
    o.resize = side;
    return {o, request(model, side)};
  }
};

TEST_F(AuxiliaryHeads, OfGoogLeNetLearnAlong) {
  HeadsRun run = this->run("googlenet", 32);
  const auto out = dynamic_cast<zoo::GoogLeNet&>(run.task->model())(run.x, zoo::WithHeads{});
  const double wanted =
      run.loss_of(out.logits) + 0.3 * run.loss_of(out.aux_logits1) + 0.3 * run.loss_of(out.aux_logits2);
  EXPECT_NEAR(run.task->forward().loss.item<double>(), wanted, 1e-5);
}

/// In training all but dropout: without statistics of the batch the sums of so many layers grow without bounds.
TEST_F(AuxiliaryHeads, OfInceptionV3LearnAlong) {
  HeadsRun run = this->run("inception_v3", 299);
  auto& net = dynamic_cast<zoo::Inception3&>(run.task->model());
  net.train();
  net.dropout.eval();
  const auto out = net(run.x, zoo::WithHeads{});
  const double wanted = run.loss_of(out.logits) + 0.4 * run.loss_of(out.aux_logits);
  EXPECT_NEAR(run.task->forward().loss.item<double>(), wanted, 1e-4);
  EXPECT_GT(run.loss_of(out.aux_logits), 0.01);
}

}  // namespace
