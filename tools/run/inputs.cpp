#include "tools/run/inputs.h"

#include <algorithm>

#include "libckpt/bridge/module_state.h"
#include "libckpt/io/byte_source.h"
#include "libckpt/open_save.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/line/address.h"
#include "zoo/data/image_file.h"

namespace cli {
namespace {

using core::Error;
using core::ErrorCode;
using zoo::Input;

constexpr std::uint64_t kMaxImageBytes = 1ULL << 30;

std::string pixels_of(const zoo::Image& image) {
  return std::string(image.channels == 1 ? "grey " : "") + "image of " + std::to_string(image.width) + " x " +
         std::to_string(image.height) + " pixels";
}

/// nullopt when the file is no image.
std::optional<zoo::Image> image_in(const std::filesystem::path& path) {
  ckpt::SourcePtr file = ckpt::open_file(path);
  core::ByteVector head(static_cast<std::size_t>(std::min<std::uint64_t>(file->size(), 3)));
  file->read(0, head);
  // What no image begins with is not read whole: it may be a checkpoint larger than memory.
  const bool may_be = !core::as_text(head).starts_with("PK") && file->size() <= kMaxImageBytes;
  return may_be ? zoo::try_read_image(ckpt::read_all(*file)) : std::nullopt;
}

std::string names_of(const std::vector<ckpt::NamedEntry>& entries) {
  std::string names;
  for (std::size_t i = 0; i < std::min<std::size_t>(entries.size(), 3); ++i) {
    names += (i == 0 ? "" : ", ") + core::quote(entries[i].name);
  }
  return names + (entries.size() > 3 ? ", ..." : "");
}

core::Tensor tensor_in(const Address& address) {
  const ckpt::Checkpoint file = ckpt::open(address.path);
  const std::vector<ckpt::NamedEntry> entries = ckpt::list_entries(file.root);
  if (address.at.empty() && entries.size() == 1) return ckpt::to_tensor(*entries[0].entry, core::Device("cpu"));
  for (const ckpt::NamedEntry& named : entries) {
    if (!address.at.empty() && named.name == address.at) return ckpt::to_tensor(*named.entry, core::Device("cpu"));
  }
  if (!address.at.empty()) {
    throw Error(ErrorCode::key, "has no tensor " + core::quote(address.at) + "; it has " + names_of(entries));
  }
  throw Error(ErrorCode::unsupported, "holds " + std::to_string(entries.size()) +
                                          " tensors, where an image or one tensor is wanted; FILE::NAME picks one (" +
                                          names_of(entries) + ")");
}

/// Bytes laid out as an image.
std::optional<zoo::Image> as_image(const core::Tensor& x) {
  const bool grey = x.dim() == 2 || (x.dim() == 3 && x.size(2) == 1);
  if (x.dtype() != core::DType::u8 || !(grey || (x.dim() == 3 && x.size(2) == 3)) || x.numel() == 0) {
    return std::nullopt;
  }
  zoo::Image image = zoo::make_image(x.size(1), x.size(0), grey ? 1 : 3);
  image.pixels = x.to_vector<std::uint8_t>();
  return image;
}

[[noreturn]] void refuse(const core::Tensor& x, const std::string& wanted) {
  throw Error(ErrorCode::unsupported, "a tensor of " + std::string(core::name(x.dtype())) + " " +
                                          core::to_list(x.sizes()) + ", where the model takes " + wanted);
}

core::Tensor shaped(const core::Tensor& x, const Expected& expected) {
  if (expected.kind == Input::images) {
    const std::int64_t side = expected.steps ? expected.steps->crop : 0;
    const std::int64_t channels = expected.steps ? expected.steps->channels : 0;
    if (side != 0 && x.dim() == 2 && x.size(1) == channels * side * side) {  // rows of pixels
      return x.to(core::DType::f32).reshape({x.size(0), channels, side, side});
    }
    if (x.dim() != 3 && x.dim() != 4) {
      refuse(x, "(channels, height, width), or bytes (height, width) and (height, width, 3)");
    }
    return (x.dim() == 3 ? x.unsqueeze(0) : x).to(core::DType::f32);
  }
  if (expected.kind == Input::numbers) return x.to(core::DType::f32);
  if (x.is_floating_point() || x.dim() < 1 || x.dim() > 2 || x.numel() == 0) refuse(x, "token ids");
  return (x.dim() == 1 ? x.unsqueeze(0) : x).to(core::DType::i64);
}

ModelInput prepared(const std::string& name, const zoo::Image& image, const Expected& expected) {
  if (expected.kind != Input::images) {
    throw Error(ErrorCode::unsupported, "an " + pixels_of(image) + ", where the model takes " +
                                            (expected.kind == Input::tokens ? "text (--prompt)" : "tensors"));
  }
  const core::Tensor x =
      expected.processor ? zoo::process(image, *expected.processor) : zoo::preprocess(image, *expected.steps);
  return {name, pixels_of(image), x.unsqueeze(0)};
}

}  // namespace

ModelInput read_input(const std::string& name, const Expected& expected) {
  const Address address = parse_address(name);
  return core::with_context(address.text(), [&]() -> ModelInput {
    if (address.at.empty()) {
      if (auto image = image_in(address.path)) return prepared(name, *image, expected);
    }
    const core::Tensor tensor = tensor_in(address);
    if (expected.kind == Input::images) {
      if (auto image = as_image(tensor)) return prepared(name, *image, expected);
    }
    return {name, "tensor " + core::to_list(tensor.sizes()), shaped(tensor, expected)};
  });
}

}  // namespace cli
