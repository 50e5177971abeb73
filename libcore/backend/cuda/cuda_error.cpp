#include "libcore/backend/cuda/cuda_error.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "libcore/base/error.h"

namespace core::gpu {
namespace {

/// CUDA_LAUNCH_BLOCKING makes every launch wait, so that errors come from where they happen.
bool launches_block() {
  const char* text = std::getenv("CUDA_LAUNCH_BLOCKING");
  return text != nullptr && std::string_view(text) == "1";
}

}  // namespace

void throw_cuda_error(const CudaApi& api, int error) {
  api.last_error();
  std::string text = std::string("CUDA error: ") + api.error_text(error);
  if (error == kInvalidDevice) {
    text += "\nGPU device may be out of range, do you have enough GPUs?";
  } else {
    text += std::string("\nSearch for `") + api.error_name(error) +
            "' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.";
  }
  if (!launches_block()) {
    text +=
        "\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might "
        "be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1";
  }
  text += "\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n";
  throw Error(ErrorCode::device, std::move(text));
}

bool is_pending(const CudaApi& api, int answer) {
  if (answer != kNotReady) return false;
  api.last_error();
  return true;
}

bool is_sticky(int error) {
  constexpr int kSticky[] = {214, 220, kIllegalAddress, 702, kAssert, 714, 715, 716, 717, 718, kLaunchFailure, 721};
  return std::find(std::begin(kSticky), std::end(kSticky), error) != std::end(kSticky);
}

std::string no_device_text(const CudaApi& api, int error) {
  int version = 0;
  api.driver_version(&version);
  switch (error) {
    case kInsufficientDriver:
      if (version != 0) {
        return "The NVIDIA driver on your system is too old (found version " + std::to_string(version) +
               "). Please update your GPU driver by downloading and installing a new version from the URL: "
               "http://www.nvidia.com/Download/index.aspx";
      }
      return "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver "
             "from http://www.nvidia.com/Download/index.aspx";
    case kSuccess:
    case kNoDevice:
      return "No CUDA GPUs are available";
    case kInitializationError:
      return "CUDA driver initialization failed, you might not have a CUDA gpu.";
    case kUnknown:
      return "CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing env variable "
             "CUDA_VISIBLE_DEVICES after program start. Setting the available devices to be zero.";
    default:
      return "Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling "
             "NumCudaDevices() that might have already set an error? Error " +
             std::to_string(error) + ": " + api.error_text(error);
  }
}

void throw_no_device(const CudaApi& api, int error) {
  throw Error(ErrorCode::runtime, no_device_text(api, error));
}

}  // namespace core::gpu
