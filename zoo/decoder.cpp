#include "zoo/decoder.h"

#include "libcore/base/error.h"
#include "libcore/ops/index.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"
#include "zoo/gpt2.h"
#include "zoo/gpt_neox.h"
#include "zoo/llama.h"
#include "zoo/nanogpt.h"
#include "zoo/recurrent.h"

namespace zoo {

using core::Tensor;

namespace {

/// Calls `use` with the model as what it is. False for none of those that continue texts.
template <class Use>
bool as_known(core::Module& model, const Use& use) {
  const auto attempt = [&](auto* typed) {
    if (typed != nullptr) use(*typed);
    return typed != nullptr;
  };
  return attempt(dynamic_cast<NanoGPT*>(&model)) || attempt(dynamic_cast<GPT2LMHeadModel*>(&model)) ||
         attempt(dynamic_cast<LlamaForCausalLM*>(&model)) || attempt(dynamic_cast<GPTNeoXForCausalLM*>(&model)) ||
         attempt(dynamic_cast<CharLSTM*>(&model)) || attempt(dynamic_cast<CharGRU*>(&model)) ||
         attempt(dynamic_cast<EncoderDecoder*>(&model));
}

std::int64_t positions_of(const NanoGPT& model) {
  return model.block_size;
}
std::int64_t positions_of(const GPT2LMHeadModel& model) {
  return model.transformer.wpe.weight.size(0);
}
template <class Model>
std::int64_t positions_of(const Model&) {
  return 0;
}

}  // namespace

Decoder::Decoder(core::Module& model, const Tensor& source) : model_(model) {
  if (!as_known(model, [&](const auto& typed) { positions_ = positions_of(typed); })) {
    throw core::Error(core::ErrorCode::usage, "a " + model.class_name() + " continues no texts");
  }
  auto* reader = dynamic_cast<EncoderDecoder*>(&model);
  if ((reader != nullptr) != source.defined()) {
    throw core::Error(core::ErrorCode::usage, "a " + model.class_name() +
                                                  (reader != nullptr ? " writes about a source, and none was given"
                                                                     : " reads no source beside the text"));
  }
  if (reader != nullptr) states_ = reader->encoded(source);
}

/// Logits (n, t, vocabulary) of tokens (n, t) that follow those read before.
Tensor Decoder::read(const Tensor& tokens) {
  Tensor logits;
  as_known(model_, [&](auto& typed) {
    using Model = std::remove_reference_t<decltype(typed)>;
    if constexpr (std::is_same_v<Model, CharLSTM>) {
      auto [states, memory] = typed.lstm(typed.embedding(tokens), lstm_state_);
      lstm_state_ = memory;
      logits = typed.fc(states);
    } else if constexpr (std::is_same_v<Model, CharGRU>) {
      auto [states, memory] = typed.gru(typed.embedding(tokens), gru_state_);
      gru_state_ = memory;
      logits = typed.fc(states);
    } else if constexpr (std::is_same_v<Model, EncoderDecoder>) {
      logits = typed.decoded(tokens, states_, &cache_);
    } else {
      logits = typed.forward(tokens, cache_);
    }
  });
  return logits;
}

void Decoder::select_rows(const std::vector<std::int64_t>& rows) {
  const Tensor numbers = core::from_values(rows);
  const auto select = [&](Tensor& x, std::int64_t dim) {
    if (x.defined()) x = core::index_select(x, dim, numbers.to(x.device()));
  };
  for (std::vector<DecoderCache::Layer>* layers : {&cache_.layers, &cache_.sources}) {
    for (DecoderCache::Layer& layer : *layers) {
      select(layer.keys, 0);
      select(layer.values, 0);
    }
  }
  select(states_, 0);
  select(std::get<0>(lstm_state_), 1);
  select(std::get<1>(lstm_state_), 1);
  select(gru_state_, 1);
}

Tensor Decoder::next(const Tensor& tokens) {
  const std::int64_t length = tokens.size(1);
  if (positions_ > 0 && length > positions_) {
    cache_ = {};
    read_ = 0;
    Tensor logits;
    logits = read(tokens.slice(1, length - positions_, length));
    cache_ = {};
    return logits.select(1, -1);
  }
  if (length <= read_) throw core::Error(core::ErrorCode::usage, "there are no more tokens than at the call before");
  const Tensor logits = read(tokens.slice(1, read_, length));
  read_ = length;
  return logits.select(1, -1);
}

}  // namespace zoo
