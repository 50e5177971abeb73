#include "tools/train/generate.h"

#include <algorithm>
#include <limits>

#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/softmax.h"
#include "libcore/ops/sort.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"
#include "zoo/decoder.h"

namespace train {
namespace {

using core::Error;
using core::ErrorCode;
using core::Tensor;
using Codes = std::vector<std::int64_t>;

Tensor row_of(const Codes& codes) {
  const Tensor row = core::empty({1, static_cast<std::int64_t>(codes.size())}, {.dtype = core::DType::i64});
  std::copy(codes.begin(), codes.end(), row.mutable_data<std::int64_t>());
  return row;
}

std::int64_t draw(Tensor logits, const GenerateOptions& o) {
  if (o.temperature == 0) return logits.argmax().item<std::int64_t>();
  if (o.top_k > 0 && o.top_k < logits.size(0)) {
    const Tensor least = core::topk(logits, o.top_k).values[-1];
    logits = core::masked_fill(logits, core::lt(logits, least), -std::numeric_limits<double>::infinity());
  }
  return core::multinomial(core::softmax(logits / o.temperature, -1), {.num_samples = 1}).item<std::int64_t>();
}

}  // namespace

std::string generate(core::Module& model, const Symbols& symbols, const GenerateOptions& o) {
  if (o.length < 0) throw Error(ErrorCode::usage, "--length is not negative");
  if (!(o.temperature >= 0)) throw Error(ErrorCode::usage, "--temperature is not negative");
  if (o.top_k < 0) throw Error(ErrorCode::usage, "--top-k is not negative");
  core::NoGradGuard no_grad;
  model.eval();
  Codes codes = o.prompt.empty() ? Codes{0} : symbols.encode(o.prompt);
  zoo::Decoder decoder(model);
  for (std::int64_t i = 0; i < o.length; ++i) codes.push_back(draw(decoder.next(row_of(codes))[0], o));
  return symbols.decode(codes);
}

}  // namespace train
