#include "samples/train/generate.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/nn_ops.h"
#include "libcore/tensor/ops.h"
#include "libcore/tensor/random.h"
#include "zoo/nanogpt.h"
#include "zoo/recurrent.h"

namespace train {
namespace {

using core::Error;
using core::ErrorCode;
using core::Tensor;
using Codes = std::vector<std::int64_t>;

Tensor row_of(const Codes& codes, std::size_t begin) {
  const Tensor row = core::empty({1, static_cast<std::int64_t>(codes.size() - begin)}, {.dtype = core::DType::i64});
  std::copy(codes.begin() + static_cast<std::ptrdiff_t>(begin), codes.end(), row.mutable_data<std::int64_t>());
  return row;
}

/// Logits (symbols) of the character behind those it was given so far.
class Reader {
 public:
  explicit Reader(core::Module& model)
      : lstm_(dynamic_cast<zoo::CharLSTM*>(&model)), gpt_(dynamic_cast<zoo::NanoGPT*>(&model)) {
    if (lstm_ == nullptr && gpt_ == nullptr) throw Error(ErrorCode::usage, "this model continues no texts");
  }

  Tensor next(const Codes& codes) {
    if (gpt_ != nullptr) {
      const auto block = static_cast<std::size_t>(gpt_->block_size);
      return (*gpt_)(row_of(codes, codes.size() > block ? codes.size() - block : 0))[0][-1];
    }
    auto [states, memory] = lstm_->lstm(lstm_->embedding(row_of(codes, read_)), memory_);  // (1, t, hidden)
    memory_ = memory;
    read_ = codes.size();
    return lstm_->fc(states)[0][-1];
  }

 private:
  zoo::CharLSTM* lstm_;
  zoo::NanoGPT* gpt_;
  std::tuple<Tensor, Tensor> memory_;
  std::size_t read_ = 0;
};

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
  Reader reader(model);
  for (std::int64_t i = 0; i < o.length; ++i) codes.push_back(draw(reader.next(codes), o));
  return symbols.decode(codes);
}

}  // namespace train
