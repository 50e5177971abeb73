// Linear regression on the Boston housing data with Adam. Tutorial 003, both variants: tensor.to(device),
// tensor.cuda(). The tutorial forgets to move y; here it is moved. Column B of the data encodes race, and scikit-learn
// has withdrawn the set for it: it is used here to compare with the tutorial's losses and for nothing else.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "libcore/core.h"
#include "samples/support/program.h"
#include "samples/support/say.h"

namespace {

constexpr std::size_t kColumns = 14;

/// Where python3-sklearn puts its tables, or another folder with them.
std::string data_folder() {
  const char* named = std::getenv("SKLEARN_DATA_DIR");
  return named != nullptr ? named : "/usr/lib/python3/dist-packages/sklearn/datasets/data";
}

/// The numbers of one line.
std::vector<double> read_row(const std::string& line) {
  std::vector<double> row;
  std::istringstream cells(line);
  for (std::string cell; std::getline(cells, cell, ',');) {
    char* end = nullptr;
    row.push_back(std::strtod(cell.c_str(), &end));
    if (end == cell.c_str()) return {};
  }
  return row;
}

/// First line: rows and columns; second: names. The target is the last column. x: (n, 13), y: (n).
/// `hint`: what to do when the file is not there.
std::pair<core::Tensor, core::Tensor> load(const std::string& path, const std::string& hint) {
  std::ifstream file(path);
  std::string line;
  if (!file) throw core::Error(core::ErrorCode::io, path + ": " + std::strerror(errno) + hint);
  if (!std::getline(file, line) || !std::getline(file, line)) {
    throw core::Error(core::ErrorCode::corrupt, path + ": no table: a line of sizes, one of names, rows of 14 numbers");
  }
  std::vector<double> values;
  while (std::getline(file, line)) {
    std::vector<double> row = read_row(line);
    if (row.size() != kColumns) {
      throw core::Error(core::ErrorCode::corrupt, path + ": no row of 14 numbers: '" + line + "'");
    }
    values.insert(values.end(), row.begin(), row.end());
  }
  if (values.empty()) throw core::Error(core::ErrorCode::corrupt, path + ": holds no row");
  core::Tensor table = core::from_values(values, {.dtype = core::DType::f32}).view({-1, kColumns});
  return {table.slice(1, 0, 13).contiguous(), table.select(1, 13).contiguous()};
}

void run(samples::Program& program) {
  core::manual_seed(static_cast<std::uint64_t>(program.integer("seed")));
  const char* usual = "; the table comes with Debian's package python3-sklearn, or --path names it";
  auto [x, y] = load(program.text("path"), program.was_given("path") ? "" : usual);

  core::Device device(core::cuda::is_available() ? "cuda:0" : "cpu");
  core::Linear model(13, 1);
  bool forget_y = program.flag("forget_y");
  bool by_cuda = program.flag("by_cuda") && core::cuda::is_available();
  if (by_cuda) {
    model.cuda();
    if (!forget_y) y = y.cuda();
  } else {
    model.to(device);                 // in place: modules move themselves
    if (!forget_y) y = y.to(device);  // tensors do not: the result is the moved one
  }

  core::MSELoss loss;
  core::Adam optimizer(model.parameters(), {.lr = program.number("lr")});
  std::vector<core::Tensor> losses;
  for (std::int64_t epoch = 0; epoch < program.integer("n_epochs"); ++epoch) {
    x = by_cuda ? x.cuda() : x.to(device);  // from the second time on this is x itself
    core::Tensor yhat = model(x).view({-1});
    core::Tensor mse = loss(y, yhat);

    optimizer.zero_grad();
    mse.backward();
    optimizer.step();
    losses.push_back(mse.detach());
    std::printf("epoch %lld loss %.4f\n", static_cast<long long>(epoch + 1), mse.item<double>());
  }
  program.keep("losses", core::stack(losses));
  program.keep("weight", model.weight);
  program.keep("bias", model.bias);
}

}  // namespace

int main(int argc, char** argv) {
  return samples::run_program(argc, argv,
                              {.about = "Linear regression on the Boston housing data",
                               .options = {{"seed", 0, "of all random numbers"},
                                           {"path", data_folder() + "/boston_house_prices.csv", "the data"},
                                           {"n_epochs", 100, "steps, each over all rows", 1},
                                           {"lr", 1e-3, "learning rate"},
                                           {"forget_y", false, "leave the targets on the CPU, as the tutorial does"},
                                           {"by_cuda", false, "move with cuda() instead of to(device)"}}},
                              run);
}
