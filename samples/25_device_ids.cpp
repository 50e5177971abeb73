// device_ids and output_device, and what happens when the model or the data are somewhere else: the two questions that
// tutorial 004 leaves open, and tutorial 000's why the device is still one cuda:0. For two devices and more.
#include <functional>

#include "libcore/core.h"
#include "samples/support/program.h"
#include "samples/support/say.h"

namespace {

using core::Tensor;
using samples::print;

/// Says what came of it: a text, or the error.
void attempt(const std::string& what, const std::function<std::string()>& work) {
  try {
    print(what + ":", work());
  } catch (const core::Error& e) {
    print(what + ":", std::string(core::python_name(e.code())) + ":", e.what());
  }
}

std::string run_on(core::DataParallel<core::Linear>& net, core::Device data) {
  Tensor y = net(core::ones({4, 3}, {.device = data}));
  return "runs on " + samples::str(samples::repr(net.device_ids())) + ", result on " + y.device().str();
}

core::Linear net_on(core::Device device) {
  return core::Linear(3, 5).to(device);
}

void what_is_given() {
  core::Linear net = net_on("cuda:0");
  attempt("nothing given", [&] {
    core::DataParallel parallel(net);
    return run_on(parallel, "cuda:0");
  });
  attempt("device_ids = {0}", [&] {
    core::DataParallel parallel(net, {.device_ids = {{0}}});
    return run_on(parallel, "cuda:0");
  });
  attempt("output_device = 1", [&] {
    core::DataParallel parallel(net, {.output_device = 1});
    return run_on(parallel, "cuda:0");
  });
  attempt("device_ids = {1, 0}", [&] {
    core::DataParallel parallel(net, {.device_ids = {{1, 0}}});
    parallel.to("cuda:1");
    return run_on(parallel, "cuda:0");
  });
  attempt("device_ids = {0, 99}", [&] {
    core::DataParallel parallel(net, {.device_ids = {{0, 99}}});
    return run_on(parallel, "cuda:0");
  });
  attempt("device_ids = {\"cpu\"}", [&] {
    core::DataParallel parallel(net, {.device_ids = {{"cpu"}}});
    return run_on(parallel, "cpu");
  });
}

void model_elsewhere() {
  attempt("model on the CPU", [] {
    core::DataParallel parallel(net_on("cpu"));
    return run_on(parallel, "cuda:0");
  });
  attempt("model on cuda:1, device_ids = {0, 1}", [] {
    core::DataParallel parallel(net_on("cuda:1"), {.device_ids = {{0, 1}}});
    return run_on(parallel, "cuda:0");
  });
  attempt("the same after to(\"cuda:0\")", [] {
    core::DataParallel parallel(net_on("cuda:1"), {.device_ids = {{0, 1}}});
    parallel.to("cuda:0");
    return run_on(parallel, "cuda:0");
  });
  attempt("model on the CPU, device_ids = {1}", [] {
    core::DataParallel parallel(net_on("cpu"), {.device_ids = {{1}}});
    return run_on(parallel, "cuda:0") + ": one id alone moves the model";
  });
}

/// With a third device, for a model on none of those that are given.
void model_outside() {
  if (core::cuda::device_count() < 3) return;
  attempt("model on cuda:2, device_ids = {0, 1}", [] {
    core::DataParallel parallel(net_on("cuda:2"), {.device_ids = {{0, 1}}});
    return run_on(parallel, "cuda:0");
  });
  attempt("data on cuda:2, device_ids = {0, 1}", [] {
    core::DataParallel parallel(net_on("cuda:0"), {.device_ids = {{0, 1}}});
    return run_on(parallel, "cuda:2");
  });
}

void data_elsewhere() {
  core::DataParallel parallel(net_on("cuda:0"), {.device_ids = {{0, 1}}});
  attempt("data on the CPU", [&] { return run_on(parallel, "cpu"); });
  attempt("data on cuda:1", [&] { return run_on(parallel, "cuda:1"); });
  attempt("data on cuda:1, device_ids = {0}", [] {
    core::DataParallel alone(net_on("cuda:0"), {.device_ids = {{0}}});
    return run_on(alone, "cuda:1");
  });
  attempt("no wrapper, model on cuda:0, data on cuda:1", [] {
    return net_on("cuda:0")(core::ones({4, 3}, {.device = "cuda:1"})).device().str();
  });
  attempt("cuda:0 + cuda:1", [] {
    return (core::ones({2}, {.device = "cuda:0"}) + core::ones({2}, {.device = "cuda:1"})).device().str();
  });
}

void run(samples::Program&) {
  if (core::cuda::device_count() < 2) {
    throw core::Error(core::ErrorCode::device, "this needs two devices; CORE_LOGICAL_DEVICES=2 stands in for them");
  }
  what_is_given();
  model_elsewhere();
  data_elsewhere();
  model_outside();
}

}  // namespace

int main(int argc, char** argv) {
  return samples::run_program(argc, argv, {.about = "device_ids, output_device, and things on the wrong device"}, run);
}
