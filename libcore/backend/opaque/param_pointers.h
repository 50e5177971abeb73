#pragma once
// Which members of the parameters of kernels are addresses of device memory, for those who need all of them: one
// function for each struct, which calls visit(name, pointer by reference). A new struct is listed here.
// Thread safety: pure functions. Use: each_pointer(params, [&](const char* name, auto*& pointer) { ... });

#include "libcore/backend/nn_table.h"
#include "libcore/backend/op_params.h"
#include "libcore/backend/optimizer_table.h"
#include "libcore/backend/random_table.h"
#include "libcore/backend/recurrent_table.h"

namespace core {

template <class Visit>
void each_pointer(UnaryParams& p, Visit visit) {
  visit("out", p.out), visit("in", p.in);
}
template <class Visit>
void each_pointer(BinaryParams& p, Visit visit) {
  visit("out", p.out), visit("a", p.a), visit("b", p.b);
}
template <class Visit>
void each_pointer(TernaryParams& p, Visit visit) {
  visit("out", p.out), visit("a", p.a), visit("b", p.b), visit("c", p.c);
}
template <class Visit>
void each_pointer(ReduceParams& p, Visit visit) {
  visit("out", p.out), visit("indices", p.indices), visit("in", p.in);
}
template <class Visit>
void each_pointer(ScanParams& p, Visit visit) {
  visit("out", p.out), visit("in", p.in);
}
template <class Visit>
void each_pointer(SortParams& p, Visit visit) {
  visit("values", p.values), visit("indices", p.indices), visit("in", p.in);
}
template <class Visit>
void each_pointer(GemmParams& p, Visit visit) {
  visit("a", p.a), visit("b", p.b), visit("c", p.c), visit("bias", p.bias);
}
template <class Visit>
void each_pointer(CopyParams& p, Visit visit) {
  visit("out", p.out), visit("in", p.in);
}
template <class Visit>
void each_pointer(IndexParams& p, Visit visit) {
  visit("out", p.out), visit("in", p.in), visit("index", p.index);
}

template <class Visit>
void each_pointer(Conv2dParams& p, Visit visit) {
  visit("input", p.input), visit("weight", p.weight), visit("bias", p.bias), visit("output", p.output);
}
template <class Visit>
void each_pointer(Conv2dInputGradParams& p, Visit visit) {
  visit("output_grad", p.output_grad), visit("weight", p.weight), visit("input_grad", p.input_grad);
}
template <class Visit>
void each_pointer(Conv2dWeightGradParams& p, Visit visit) {
  visit("output_grad", p.output_grad), visit("input", p.input);
  visit("weight_grad", p.weight_grad), visit("bias_grad", p.bias_grad);
}
template <class Visit>
void each_pointer(MaxPool2dParams& p, Visit visit) {
  visit("input", p.input), visit("output", p.output), visit("indices", p.indices);
}
template <class Visit>
void each_pointer(PickParams& p, Visit visit) {
  visit("indices", p.indices), visit("in", p.in), visit("out", p.out);
}
template <class Visit>
void each_pointer(AvgPool2dParams& p, Visit visit) {
  visit("in", p.in), visit("out", p.out);
}
template <class Visit>
void each_pointer(AdaptivePool2dParams& p, Visit visit) {
  visit("in", p.in), visit("out", p.out);
}
template <class Visit>
void each_pointer(BatchStatsParams& p, Visit visit) {
  visit("input", p.input), visit("mean", p.mean), visit("var", p.var);
}
template <class Visit>
void each_pointer(BatchNormParams& p, Visit visit) {
  visit("input", p.input), visit("mean", p.mean), visit("inverse_std", p.inverse_std);
  visit("weight", p.weight), visit("bias", p.bias), visit("output", p.output);
}
template <class Visit>
void each_pointer(BatchNormGradParams& p, Visit visit) {
  visit("output_grad", p.output_grad), visit("input", p.input), visit("mean", p.mean);
  visit("inverse_std", p.inverse_std), visit("weight", p.weight), visit("input_grad", p.input_grad);
  visit("weight_grad", p.weight_grad), visit("bias_grad", p.bias_grad);
}
template <class Visit>
void each_pointer(LayerNormParams& p, Visit visit) {
  visit("input", p.input), visit("weight", p.weight), visit("bias", p.bias), visit("output", p.output);
  visit("mean", p.mean), visit("inverse_std", p.inverse_std);
}
template <class Visit>
void each_pointer(LayerNormGradParams& p, Visit visit) {
  visit("output_grad", p.output_grad), visit("input", p.input), visit("mean", p.mean);
  visit("inverse_std", p.inverse_std), visit("weight", p.weight), visit("input_grad", p.input_grad);
  visit("weight_grad", p.weight_grad), visit("bias_grad", p.bias_grad);
}
template <class Visit>
void each_pointer(GeluGradParams& p, Visit visit) {
  visit("output_grad", p.output_grad), visit("input", p.input), visit("input_grad", p.input_grad);
}
template <class Visit>
void each_pointer(MaskedScaleParams& p, Visit visit) {
  visit("in", p.in), visit("mask", p.mask), visit("out", p.out);
}
template <class Visit>
void each_pointer(SoftmaxParams& p, Visit visit) {
  visit("input", p.input), visit("output", p.output);
}
template <class Visit>
void each_pointer(SoftmaxGradParams& p, Visit visit) {
  visit("output_grad", p.output_grad), visit("output", p.output), visit("input_grad", p.input_grad);
}
template <class Visit>
void each_pointer(NllParams& p, Visit visit) {
  visit("log_prob", p.log_prob), visit("target", p.target), visit("weight", p.weight), visit("losses", p.losses);
  visit("total", p.total), visit("total_weight", p.total_weight);
}
template <class Visit>
void each_pointer(NllGradParams& p, Visit visit) {
  visit("loss_grad", p.loss_grad), visit("target", p.target), visit("weight", p.weight), visit("divisor", p.divisor);
  visit("log_prob_grad", p.log_prob_grad);
}
template <class Visit>
void each_pointer(AttentionParams& p, Visit visit) {
  visit("q", p.q.data), visit("k", p.k.data), visit("v", p.v.data), visit("output", p.output.data);
  visit("log_sums", p.log_sums), visit("row_maxima", p.row_maxima), visit("mask", p.mask.data);
  visit("dropout.state", p.dropout.state), visit("dropout.drawn", p.dropout.drawn);
}
template <class Visit>
void each_pointer(AttentionGradParams& p, Visit visit) {
  visit("q", p.q.data), visit("k", p.k.data), visit("v", p.v.data), visit("output", p.output.data);
  visit("output_grad", p.output_grad.data), visit("log_sums", p.log_sums), visit("q_grad", p.q_grad.data);
  visit("k_grad", p.k_grad.data), visit("v_grad", p.v_grad.data), visit("row_maxima", p.row_maxima);
  visit("mask", p.mask.data), visit("dropout.state", p.dropout.state), visit("dropout.drawn", p.dropout.drawn);
}
template <class Visit>
void each_pointer(AttentionKeptParams& p, Visit visit) {
  visit("kept", p.kept), visit("dropout.state", p.dropout.state), visit("dropout.drawn", p.dropout.drawn);
}

template <class Visit>
void each_pointer(LstmParams& p, Visit visit) {
  visit("w_hh", p.w_hh), visit("h0", p.h0), visit("c0", p.c0), visit("gates", p.gates), visit("cells", p.cells);
  visit("tanhs", p.tanhs), visit("hidden", p.hidden);
}
template <class Visit>
void each_pointer(LstmGradParams& p, Visit visit) {
  visit("w_hh", p.w_hh), visit("c0", p.c0), visit("gates", p.gates), visit("cells", p.cells), visit("tanhs", p.tanhs);
  visit("output_grad", p.output_grad), visit("sums_grad", p.sums_grad), visit("h_grad", p.h_grad);
  visit("c_grad", p.c_grad);
}

template <class Visit>
void each_pointer(GruCellParams& p, Visit visit) {
  visit("input_sums", p.input_sums), visit("hidden_sums", p.hidden_sums), visit("before", p.before);
  visit("gates", p.gates), visit("fresh", p.fresh), visit("recalled", p.recalled), visit("after", p.after);
}
template <class Visit>
void each_pointer(GruCellGradParams& p, Visit visit) {
  visit("gates", p.gates), visit("fresh", p.fresh), visit("recalled", p.recalled), visit("before", p.before);
  visit("output_grad", p.output_grad), visit("state_grad", p.state_grad);
  visit("input_sums_grad", p.input_sums_grad), visit("hidden_sums_grad", p.hidden_sums_grad);
}
template <class Visit>
void each_pointer(RnnCellParams& p, Visit visit) {
  visit("input_sums", p.input_sums), visit("hidden_sums", p.hidden_sums), visit("after", p.after);
}
template <class Visit>
void each_pointer(RnnCellGradParams& p, Visit visit) {
  visit("after", p.after), visit("output_grad", p.output_grad), visit("state_grad", p.state_grad);
  visit("sums_grad", p.sums_grad);
}

template <class Visit>
void each_pointer(WholeLayerParams& p, Visit visit) {
  visit("w_ih", p.w_ih), visit("w_hh", p.w_hh), visit("b_ih", p.b_ih), visit("b_hh", p.b_hh), visit("x", p.x);
  visit("h0", p.h0), visit("c0", p.c0), visit("y", p.y), visit("h", p.h), visit("c", p.c);
  visit("weights", p.weights), visit("work", p.work), visit("reserve", p.reserve);
}
template <class Visit>
void each_pointer(WholeLayerGradParams& p, Visit visit) {
  visit("w_ih", p.w_ih), visit("w_hh", p.w_hh), visit("b_ih", p.b_ih), visit("b_hh", p.b_hh), visit("x", p.x);
  visit("h0", p.h0), visit("c0", p.c0), visit("y", p.y), visit("y_grad", p.y_grad), visit("h_grad", p.h_grad);
  visit("c_grad", p.c_grad), visit("x_grad", p.x_grad), visit("h0_grad", p.h0_grad), visit("c0_grad", p.c0_grad);
  visit("w_ih_grad", p.w_ih_grad), visit("w_hh_grad", p.w_hh_grad), visit("b_ih_grad", p.b_ih_grad);
  visit("b_hh_grad", p.b_hh_grad), visit("weights", p.weights), visit("weights_grad", p.weights_grad);
  visit("work", p.work), visit("reserve", p.reserve);
}

template <class Visit>
void each_pointer(RandomParams& p, Visit visit) {
  visit("out", p.out), visit("state", p.state), visit("in", p.in), visit("kept", p.kept);
}

// Lists of tensors: the list itself is host memory, of the caller's to change.
template <class Visit>
void each_pointer(SgdTensor& t, Visit visit) {
  visit("param", t.param), visit("grad", t.grad), visit("momentum", t.momentum), visit("lr", t.lr);
}
template <class Visit>
void each_pointer(AdamTensor& t, Visit visit) {
  visit("param", t.param), visit("grad", t.grad), visit("exp_avg", t.exp_avg), visit("exp_avg_sq", t.exp_avg_sq);
  visit("max_exp_avg_sq", t.max_exp_avg_sq), visit("step_count", t.step_count);
  visit("lr", t.lr);
}

template <class Visit>
void each_pointer(AdaptiveTensor& t, Visit visit) {
  visit("param", t.param), visit("grad", t.grad);
  visit("state[0]", t.state[0]), visit("state[1]", t.state[1]), visit("state[2]", t.state[2]);
}

}  // namespace core
