#pragma once
// Where a golden program computes: on the CPU, or where the environment variable CKPT_GOLDEN_DEVICE says: "cuda:0",
// which is a device whose memory the host cannot touch where there is no GPU. CKPT_GOLDEN_KERNELS=cuda runs the kernels
// of CUDA devices on it, compiled as C++, instead of the CPU's. With CKPT_GOLDEN_GPU=1 it is a GPU or nothing: without
// one the program ends as a skipped test. What is drawn with a seed is drawn on the CPU, where
// the recorded numbers come from, and moved. Use: test::compute_on_golden_device(); module->to(test::golden_device());

#include <string>

#include "libcore/base/device.h"

namespace test {

core::Device golden_device();
bool on_golden_device();
/// Whether CKPT_GOLDEN_GPU=1: a case that raises a device-side assert takes the process's device with it there.
bool on_golden_gpu();
/// New tensors lie there, on devices made by set_golden_devices(0).
void compute_on_golden_device();
/// So many logical devices instead of those there are, of the kind that the program computes on; 0: none, or the one it
/// computes on. GPUs stay as they are.
void set_golden_devices(int count);
/// So many opaque devices with the kernels of CUDA devices, whatever the environment says.
void set_emulated_devices(int count);
/// Whether something was drawn on it since a seed was given last: other numbers than the CPU's.
bool drew_on_golden_device();
/// Whether it is the error text wanted. One that names a kernel which the device lacks names the device too.
bool is_same_error(const std::string& ours, const std::string& wanted);
/// Whether it is the name of the node wanted. A recurrent layer that cuDNN computes has PyTorch's name for that.
bool is_same_node(const std::string& ours, const std::string& wanted);

}  // namespace test
