#pragma once
// What the tests of parallel modules share. Use: struct Comm : test::Devices<3> {}; TEST_F(Comm, ...)

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "libcore/backend/logical_devices.h"
#include "libcore/base/error.h"
#include "libcore/base/warning.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace test {

/// N logical devices on host memory during a test.
template <int kCount>
struct Devices : testing::Test {
  Devices() { core::set_logical_devices(kCount); }
  ~Devices() override { core::set_logical_devices(0); }
};

/// What an Error says that leaves `body`.
inline std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const core::Error& error) {
    return error.message();
  }
  return "no error";
}

/// Collects warnings instead of printing them.
class Warnings {
 public:
  Warnings() : before_(core::set_warning_handler([this](const std::string& text) { texts.push_back(text); })) {}
  ~Warnings() { core::set_warning_handler(before_); }
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;

  std::vector<std::string> texts;

 private:
  core::WarningHandler before_;
};

inline std::vector<float> floats(const core::Tensor& tensor) {
  return tensor.detach().cpu().to_vector<float>();
}

inline std::string place_of(const core::Tensor& tensor) {
  return tensor.device().str();
}

}  // namespace test
