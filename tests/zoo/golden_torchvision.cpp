// Torchvision's models as the golden data of the modules record them: layout, printed text, and every initial bit.
#include "libcore/base/error.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/sparse.h"
#include "libcore/optim/options.h"
#include "libcore/tensor/memory_format.h"
#include "libcore/tensor/print.h"
#include "libcore/tensor/random.h"
#include "tests/support/golden_arrays.h"
#include "tests/support/golden_json.h"
#include "tests/support/sha256.h"
#include "zoo/googlenet.h"
#include "zoo/inception.h"
#include "zoo/zoo.h"

namespace {

using core::Tensor;
using test::Json;
using test::member;

core::ByteVector bytes_of(const Tensor& tensor) {
  const Tensor dense = tensor.detach().contiguous();
  const auto* from = static_cast<const std::byte*>(dense.raw_data());
  const auto count =
      static_cast<std::size_t>(dense.numel()) * static_cast<std::size_t>(core::bit_width(dense.dtype()) / 8);
  return core::ByteVector(from, from + count);
}

std::string sha_of_text(const std::string& text) {
  return test::sha256(std::as_bytes(std::span<const char>(text.data(), text.size())));
}

/// [["conv1.weight", "f32", [64, 3, 7, 7]], ...] as Python writes it.
std::string layout_text(const core::StateDict& state) {
  std::string text;
  for (const auto& [key, value] : state) {
    text += (text.empty() ? "[" : ", ") + ("[\"" + key + "\", \"") + std::string(core::short_name(value.dtype())) +
            "\", " + core::to_list(value.sizes()) + "]";
  }
  return text + "]";
}

std::string state_digest(const core::StateDict& state) {
  core::ByteVector all;
  for (const auto& [key, value] : state) {
    const core::ByteVector bytes = bytes_of(value);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return test::sha256(all);
}

void check_model(Json wanted, test::GoldenRun& run) {
  const std::string name = test::text(member(wanted, "name"));
  if (zoo::find(name) == nullptr) return run.skip(name, "model not in the zoo");
  // The record leaves out the slow initialisation that these two have of their own.
  if (name == "googlenet" || name == "inception_v3") core::set_default_device(core::Device("meta"));
  core::manual_seed(static_cast<std::uint64_t>(test::integer(member(wanted, "seed"))));
  const std::shared_ptr<core::Module> model = zoo::make(name);
  const bool drawn = !core::default_device().is_meta();
  core::set_default_device(core::Device());
  const core::StateDict state = model->state_dict();
  const auto same = [&](const std::string& ours, const char* key) {
    run.check(name + "/" + key, ours == test::text(member(wanted, key)), "differs");
  };
  same(sha_of_text(layout_text(state)), "layout_sha256");
  same(sha_of_text(model->str()), "repr_sha256");
  std::int64_t count = 0;
  for (const Tensor& parameter : model->parameters()) count += parameter.numel();
  run.check(name + "/parameter_count", count == test::integer(member(wanted, "parameter_count")),
            std::to_string(count));
  if (!drawn) return;
  same(test::hex_words(core::Bytes(bytes_of(core::rand({2}))), 4), "rand_after");
  same(state_digest(state), "state_bytes_sha256");
}

}  // namespace

int main() {
  return test::golden_main("torchvision", "runtime/modules.json", [](Json root, test::GoldenRun& run) {
    for (const Json wanted : member(root, "torchvision_models").get_array()) {
      test::guarded(run, test::text(member(wanted, "name")), [&] { check_model(wanted, run); });
    }
  });
}
