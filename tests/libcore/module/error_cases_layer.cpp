// Errors and warnings of layers: recurrent ones, attention, padding, losses.
#include "libcore/module/activation.h"
#include "libcore/module/attention.h"
#include "libcore/module/conv_nd.h"
#include "libcore/module/norm.h"
#include "libcore/module/recurrent.h"
#include "libcore/ops/attention.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/resize.h"
#include "libcore/tensor/random.h"
#include "tests/libcore/module/error_cases.h"

namespace test {
namespace {

using namespace core;  // a long list of calls
using P = ErrorProgram;

const TensorOptions kMeta{.device = Device("meta")};
const TensorOptions kDouble{.dtype = DType::f64};

void add_image_cases(ErrorCases& c) {
  c["conv/rank1d"] = [](const P& p) { Conv1d(p.n(0), p.n(1), {p.n(2)})(ones({p.n(3), p.n(4), p.n(5), p.n(6)})); };
  c["conv/transpose_channels"] = [](const P& p) {
    ConvTranspose2d(p.n(0), p.n(1), {p.n(2)})(ones({p.n(3), p.n(4), p.n(5), p.n(6)}));
  };
  c["conv/transpose_outpad"] = [](const P& p) {
    ConvTranspose2d(p.n(0), p.n(1), {p.n(2)},
                    {.stride = {p.n(3)}, .output_padding = {p.n(4)}})(ones({p.n(5), p.n(6), p.n(7), p.n(8)}));
  };
  c["norm/group"] = [](const P& p) { GroupNorm(p.n(0), p.n(1)); };
  c["norm/group_input"] = [](const P& p) { GroupNorm(p.n(0), p.n(1))(ones({p.n(2), p.n(3), p.n(4)})); };
  c["norm/instance"] = [](const P& p) { InstanceNorm1d(p.n(0))(ones({p.n(1), p.n(2), p.n(3)})); };
  c["prelu/channels"] = [](const P& p) { PReLU(p.n(0))(ones({p.n(1), p.n(2)})); };
  c["glu/odd"] = [](const P& p) { glu(ones({p.n(0), p.n(1)})); };
  c["pad/reflect"] = [](const P& p) {
    pad(ones({p.n(0), p.n(1), p.n(2)}), {p.n(3), p.n(4)}, parse_padding_mode(p.s(0)));
  };
  c["upsample/none"] = [](const P& p) { interpolate(ones({p.n(0), p.n(1), p.n(2), p.n(3)}), {}); };
  c["pixel_shuffle"] = [](const P& p) { pixel_shuffle(ones({p.n(0), p.n(1), p.n(2), p.n(3)}), p.n(4)); };
}

void rnn_of_ranks_3_3(const P& p) {
  RNN(p.n(0), p.n(1))(ones({p.n(2), p.n(3), p.n(4)}), zeros({p.n(5), p.n(6), p.n(7)}));
}

void add_rnn_cases(ErrorCases& c) {
  c["mixed/rnn_hidden"] = [](const P& p) {
    RNN(p.n(0), p.n(1), {.device = Device("meta")})
    (ones({p.n(2), p.n(3), p.n(4)}, kMeta), zeros({p.n(5), p.n(6), p.n(7)}));
  };
  c["mixed/rnn_params"] = [](const P& p) { RNN(p.n(0), p.n(1))(ones({p.n(2), p.n(3), p.n(4)}, kMeta)); };
  c["rnn/input_size"] = [](const P& p) { RNN(p.n(0), p.n(1))(ones({p.n(2), p.n(3), p.n(4)})); };
  c["rnn/hidden"] = rnn_of_ranks_3_3;
  c["rnn/hidden_rank"] = [](const P& p) {
    RNN(p.n(0), p.n(1))(ones({p.n(2), p.n(3), p.n(4)}), zeros({p.n(5), p.n(6)}));
  };
  c["rnn/hidden_rank2"] = [](const P& p) {
    RNN(p.n(0), p.n(1))(ones({p.n(2), p.n(3)}), zeros({p.n(4), p.n(5), p.n(6)}));
  };
  c["rnn/rank"] = [](const P& p) { RNN(p.n(0), p.n(1))(ones({p.n(2), p.n(3), p.n(4), p.n(5)})); };
  c["rnn/nonlinearity"] = [](const P& p) { RNN(p.n(0), p.n(1), {.nonlinearity = p.s(0)}); };
  c["rnn/dropout"] = [](const P& p) { RNN(p.n(0), p.n(1), {.dropout = p.x(2)}); };
  c["warn/rnn_dropout"] = c["rnn/dropout"];
  c["rnn/hidden_size"] = [](const P& p) { RNN(p.n(0), p.n(1)); };
  c["rnn/layers"] = [](const P& p) { RNN(p.n(0), p.n(1), {.num_layers = p.n(2)}); };
  c["rnn/dtype"] = [](const P& p) { RNN(p.n(0), p.n(1))(ones({p.n(2), p.n(3), p.n(4)}, kDouble)); };
  c["rnn/proj"] = [](const P& p) { RNN(p.n(0), p.n(1), {.proj_size = p.n(2)}); };
  c["gru/rank"] = [](const P& p) { GRU(p.n(0), p.n(1))(ones({p.n(2), p.n(3), p.n(4), p.n(5)})); };
  c["gru/hidden"] = [](const P& p) {
    GRU(p.n(0), p.n(1))(ones({p.n(2), p.n(3), p.n(4)}), zeros({p.n(5), p.n(6), p.n(7)}));
  };
}

void add_lstm_and_cell_cases(ErrorCases& c) {
  c["mixed/lstm_hidden"] = [](const P& p) {
    LSTM(p.n(0), p.n(1))
    (ones({p.n(2), p.n(3), p.n(4)}),
     std::make_tuple(zeros({p.n(5), p.n(6), p.n(7)}, kMeta), zeros({p.n(8), p.n(9), p.n(10)})));
  };
  c["lstm/hidden"] = [](const P& p) {
    LSTM(p.n(0), p.n(1))
    (ones({p.n(2), p.n(3), p.n(4)}),
     std::make_tuple(zeros({p.n(5), p.n(6), p.n(7)}), zeros({p.n(8), p.n(9), p.n(10)})));
  };
  c["lstm/cell"] = c["lstm/hidden"];
  c["lstm/rank"] = [](const P& p) { LSTM(p.n(0), p.n(1))(ones({p.n(2), p.n(3), p.n(4), p.n(5)})); };
  c["lstm/hidden_rank"] = [](const P& p) {
    LSTM(p.n(0), p.n(1))
    (ones({p.n(2), p.n(3), p.n(4)}), std::make_tuple(zeros({p.n(5), p.n(6)}), zeros({p.n(7), p.n(8)})));
  };
  c["lstm/proj"] = [](const P& p) { LSTM(p.n(0), p.n(1), {.proj_size = p.n(2)}); };
  c["cell/rank"] = [](const P& p) { RNNCell(p.n(0), p.n(1))(ones({p.n(2), p.n(3), p.n(4)})); };
  c["cell/lstm_rank"] = [](const P& p) { LSTMCell(p.n(0), p.n(1))(ones({p.n(2), p.n(3), p.n(4)})); };
  c["cell/gru_size"] = [](const P& p) { GRUCell(p.n(0), p.n(1))(ones({p.n(2), p.n(3)})); };
}

void add_attention_cases(ErrorCases& c) {
  c["mha/heads"] = [](const P& p) { MultiheadAttention(p.n(0), p.n(1)); };
  c["mha/zero"] = c["mha/heads"];
  c["mha/dim"] = [](const P& p) {
    MultiheadAttention(p.n(0), p.n(1))(ones({p.n(2), p.n(3), p.n(4)}), ones({p.n(5), p.n(6), p.n(7)}),
                                       ones({p.n(8), p.n(9), p.n(10)}));
  };
  c["sdpa/mask_and_causal"] = [](const P& p) {
    const Tensor x = ones({p.n(0), p.n(1), p.n(2)});
    const Tensor mask = ones({p.n(9), p.n(10)}, {.dtype = DType::boolean});
    scaled_dot_product_attention(x, x, x, {.mask = mask, .is_causal = true});
  };
}

void add_more_loss_cases(ErrorCases& c) {
  c["loss/bce_shape"] = [](const P& p) { binary_cross_entropy(rand({p.n(0), p.n(1)}), ones({p.n(2)})); };
  c["loss/bce_range"] = [](const P& p) { binary_cross_entropy(tensor({p.x(0)}), ones({p.n(1)})); };
  c["loss/bce_logits_shape"] = [](const P& p) {
    binary_cross_entropy_with_logits(ones({p.n(0), p.n(1)}), ones({p.n(2)}));
  };
  c["loss/huber_delta"] = [](const P& p) { huber_loss(ones({p.n(0)}), ones({p.n(1)}), {.delta = p.x(2)}); };
  c["loss/smooth_beta"] = [](const P& p) { smooth_l1_loss(ones({p.n(0)}), ones({p.n(1)}), {.beta = p.x(2)}); };
  c["loss/kl_shape"] = [](const P& p) { kl_div(ones({p.n(0), p.n(1)}), ones({p.n(2), p.n(3)})); };
  c["warn/kl_mean"] = c["loss/kl_shape"];
  c["warn/l1_broadcast"] = [](const P& p) { l1_loss(ones({p.n(0), p.n(1)}), ones({p.n(2)})); };
  c["warn/smooth_l1_broadcast"] = [](const P& p) { smooth_l1_loss(ones({p.n(0), p.n(1)}), ones({p.n(2)})); };
}

}  // namespace

void add_layer_error_cases(ErrorCases& cases) {
  add_image_cases(cases);
  add_rnn_cases(cases);
  add_lstm_and_cell_cases(cases);
  add_attention_cases(cases);
  add_more_loss_cases(cases);
}

}  // namespace test
