#pragma once
// MapLocation: on which device a tensor of a file goes. The tag in the file is text; this turns it into a device that
// is there. Thread safety: plain value. Use: ckpt::load("net.pth", {.map_location = "cpu"});

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "libcore/base/device.h"

namespace ckpt {

class MapLocation {
 public:
  using Table = std::map<std::string, std::string>;
  using Function = std::function<std::string(std::string_view tag)>;

  /// Every tensor goes where its tag says.
  MapLocation() = default;
  /// Every tensor goes to this device.
  MapLocation(const char* device) : to_(device) {}
  MapLocation(const std::string& device) : to_(device) {}
  MapLocation(core::Device device) : to_(device.str()) {}
  /// Tags that are in the table (exactly: 'cuda' is not 'cuda:0') are replaced, others stay.
  MapLocation(Table table) : table_(std::move(table)) {}
  /// Called once a storage; an empty result leaves the tag as it is.
  MapLocation(Function function) : function_(std::move(function)) {}

  /// The tag that takes the place of `tag`.
  std::string target(std::string_view tag) const;
  /// The device for a tensor tagged `tag`. Error(device) with PyTorch's text when that device is not there or the tag
  /// names none.
  core::Device device(std::string_view tag) const;

 private:
  std::string to_;
  Table table_;
  Function function_;
};

}  // namespace ckpt
