// Where tensors of a file go: a file remembers the device of each tensor as a tag, map_location says what to make of
// it, and a model takes values wherever it is. Tutorial 004: saved on one device, wanted on another. Use:
// CORE_LOGICAL_DEVICES=2 sample_map_location --file a.pth; then sample_map_location --load --file a.pth without
// devices.
#include <functional>
#include <optional>

#include "libckpt/bridge.h"
#include "libcore/core.h"
#include "samples/support/program.h"
#include "samples/support/say.h"
#include "samples/support/scratch_folder.h"

namespace {

using samples::print;

void attempt(const std::string& what, const std::function<core::Tensor()>& work) {
  try {
    print(what + ":", work().device().str());
  } catch (const core::Error& e) {
    print(what + ":", std::string(core::python_name(e.code())) + ":", e.what());
  }
}

void save(const std::string& file) {
  core::Linear net(3, 2);
  net.to(core::Device("cuda:" + std::to_string(core::cuda::device_count() - 1)));
  ckpt::save(net.state_dict(), file);
  print("saved from", net.weight.device().str());
}

void load(const std::string& file) {
  (void)ckpt::open(file);  // one that is not there shows nothing
  attempt("as the file says", [&] { return ckpt::load(file).at("weight"); });
  attempt("map_location = \"cpu\"", [&] { return ckpt::load(file, {.map_location = "cpu"}).at("weight"); });
  const ckpt::MapLocation::Table first{{"cuda:1", "cuda:0"}};
  attempt("map_location = {\"cuda:1\": \"cuda:0\"}",
          [&] { return ckpt::load(file, {.map_location = first}).at("weight"); });
  attempt("into a model on the first device there is", [&] {
    core::Linear net(3, 2);
    net.to(core::try_gpu());
    ckpt::load_into(net, file, {.map_location = "cpu"});  // values are copied to where the model is
    return core::Tensor(net.weight);
  });
}

void run(samples::Program& program) {
  std::string file = program.text("file");
  std::optional<samples::ScratchFolder> scratch;
  if (file.empty() && program.flag("load")) throw core::Error(core::ErrorCode::usage, "--load needs --file FILE");
  if (file.empty()) {
    scratch.emplace();
    file = "on_cuda.pth";
  }
  if (!program.flag("load")) {
    if (core::cuda::device_count() < 1) {
      throw core::Error(core::ErrorCode::device, "saving needs a device; CORE_LOGICAL_DEVICES=2 stands in for two");
    }
    save(file);
  }
  load(file);
}

}  // namespace

int main(int argc, char** argv) {
  return samples::run_program(
      argc, argv,
      {.about = "Loading on another device than the one that saved",
       .options = {{"file", std::string(), "the state of a small model (default: a temporary file)"},
                   {"load", false, "only load it"}}},
      run);
}
