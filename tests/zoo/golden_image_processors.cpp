// Images as the image processors of transformers bring them to a model: each pixel within one step of 8 bits, nearly
// all the same.

#include <filesystem>

#include "libckpt/bridge.h"
#include "libckpt/io/byte_source.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"
#include "tests/support/golden_json.h"
#include "zoo/data/image_file.h"
#include "zoo/image_processor.h"

namespace {

namespace fs = std::filesystem;
using core::Tensor;

constexpr double kRounding = 1e-3;  ///< of a step
constexpr double kMostOff = 0.05;   ///< share of the pixels that may be one step off

std::string fault_of(const fs::path& folder) {
  const zoo::ImageProcessor steps = zoo::folder_image_processor(folder);
  const core::ByteVector bytes = ckpt::read_all(*ckpt::open_file(folder / "image.png"));
  const Tensor x = zoo::process(*zoo::try_read_image(bytes), steps);
  const Tensor wanted = ckpt::load(folder / "pixels.safetensors").at("pixel_values");
  if (x.sizes() != wanted.sizes())
    return "it becomes " + core::to_list(x.sizes()) + ", not " + core::to_list(wanted.sizes());
  const Tensor std = core::from_values(std::vector<float>(steps.std.begin(), steps.std.end())).view({3, 1, 1});
  const Tensor off = core::abs(x - wanted) * std / steps.scale;  // in steps of 8 bits
  const double most = off.max().item<double>();
  if (most > 1 + kRounding) return "a pixel is off by " + std::to_string(most) + " steps";
  const double share = core::gt(off, core::Scalar(kRounding)).to(core::DType::f32).mean().item<double>();
  if (share > kMostOff) return std::to_string(100 * share) + " % of the pixels are one step off";
  return "";
}

}  // namespace

int main() {
  return test::golden_folder_main("image_processors", fault_of);
}
