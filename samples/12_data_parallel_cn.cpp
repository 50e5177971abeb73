// DataParallel 进行多GPU训练: the program of tutorial 001, with its Chinese messages.
#include "libcore/core.h"
#include "samples/support/program.h"
#include "samples/support/say.h"

namespace {

using samples::print;

struct RandomDataset {
  core::Tensor data;  // 随机生成维度为length×size的数据
  RandomDataset(std::int64_t size, std::int64_t length) : data(core::rand({length, size})) {}
  core::Tensor get(std::int64_t index) const { return data[index]; }
  std::int64_t size() const { return data.size(0); }
};

struct Model : core::ModuleOf<Model> {
  core::Linear fc;
  Model(std::int64_t input_size, std::int64_t output_size) : fc(input_size, output_size) {}
  void members(core::Members& m) override { m.child("fc", fc); }

  core::Tensor forward(const core::Tensor& input) {
    core::Tensor output = fc(input);
    print("模型输入大小:", input.sizes(), "输出大小", output.sizes());
    return output;
  }
};

void run(samples::Program& program) {
  core::manual_seed(static_cast<std::uint64_t>(program.integer("seed")));
  std::int64_t input_size = program.integer("input_size"), output_size = program.integer("output_size");
  core::DataLoader data_loader(RandomDataset(input_size, program.integer("data_size")),
                               {.batch_size = program.integer("batch_size"), .shuffle = true});

  core::Device device(core::cuda::is_available() ? "cuda:0" : "cpu");
  std::shared_ptr<core::Module> model = std::make_shared<Model>(input_size, output_size);
  if (core::cuda::device_count() > 1) {
    print("目前有", core::cuda::device_count(), "个GPUs可以使用.");
    model = std::make_shared<core::DataParallel<core::Module>>(model);
  }
  model->to(device);
  print(*model);

  std::int64_t step = 1;
  for (const core::Tensor& data : data_loader) {
    core::Tensor input = data.to(device);
    core::Tensor output = model->call(input);
    print("步数", step, "——输入的维度:", input.sizes(), ",输出的维度:", output.sizes());
    program.keep("input" + std::to_string(step), input);
    program.keep("output" + std::to_string(step), output);
    step += 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  return samples::run_program(argc, argv,
                              {.about = "DataParallel on random data, with Chinese messages",
                               .options = {{"seed", 0, "of all random numbers"},
                                           {"input_size", 5, "输入channel数", 1},
                                           {"output_size", 2, "输出channel数", 1},
                                           {"batch_size", 30, "batch大小", 1},
                                           {"data_size", 100, "数据大小", 1}}},
                              run);
}
