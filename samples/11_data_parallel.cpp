// DataParallel on random data: every batch is split over the devices. Tutorial 000, second program.
#include "libcore/core.h"
#include "samples/support/program.h"
#include "samples/support/say.h"

namespace {

using samples::print;

struct RandomDataset {
  core::Tensor data;
  RandomDataset(std::int64_t size, std::int64_t length) : data(core::randn({length, size})) {}
  core::Tensor get(std::int64_t index) const { return data[index]; }
  std::int64_t size() const { return data.size(0); }
};

struct Model : core::ModuleOf<Model> {
  core::Linear fc;
  Model(std::int64_t input_size, std::int64_t output_size) : fc(input_size, output_size) {}
  void members(core::Members& m) override { m.child("fc", fc); }

  core::Tensor forward(const core::Tensor& input) {
    core::Tensor output = fc(input);
    print("\tIn Model: input size", input.sizes(), "output size", output.sizes());
    return output;
  }
};

void run(samples::Program& program) {
  core::manual_seed(static_cast<std::uint64_t>(program.integer("seed")));
  std::int64_t input_size = program.integer("input_size"), output_size = program.integer("output_size");
  core::DataLoader rand_loader(RandomDataset(input_size, program.integer("data_size")),
                               {.batch_size = program.integer("batch_size"), .shuffle = true});

  std::shared_ptr<core::Module> model = std::make_shared<Model>(input_size, output_size);
  core::Device device(core::cuda::is_available() ? "cuda:0" : "cpu");
  if (core::cuda::device_count() > 1) {
    print("Let's use", core::cuda::device_count(), "GPUs!");
    // dim = 0 [30, xxx] -> [10, ...], [10, ...], [10, ...] on 3 GPUs
    model = std::make_shared<core::DataParallel<core::Module>>(model);
  }
  model->to(device);

  std::int64_t step = 0;
  for (const core::Tensor& data : rand_loader) {
    core::Tensor input = data.to(device);
    core::Tensor output = model->call(input);
    print("Outside: input size", input.sizes(), "output_size", output.sizes());
    program.keep("input" + std::to_string(step), input);
    program.keep("output" + std::to_string(step), output);
    ++step;
  }
  program.keep("weight", model->parameters()[0]);
  program.keep("bias", model->parameters()[1]);
}

}  // namespace

int main(int argc, char** argv) {
  return samples::run_program(argc, argv,
                              {.about = "DataParallel on random data",
                               .options = {{"seed", 0, "of all random numbers"},
                                           {"input_size", 5, "features of a row", 1},
                                           {"output_size", 2, "values the model gives for a row", 1},
                                           {"batch_size", 30, "rows a step, over all devices", 1},
                                           {"data_size", 100, "rows", 1}}},
                              run);
}
