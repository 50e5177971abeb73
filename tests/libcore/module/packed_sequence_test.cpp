// Padded and packed sequences: what users write, printing and errors. Numbers beside PyTorch's are golden_sequences.
#include "libcore/module/packed_sequence.h"

#include <gtest/gtest.h>

#include <sstream>

#include "libcore/core.h"
#include "tests/support/message_of.h"

namespace {

using core::Tensor;
using test::message_of;

TEST(PackedSequence, PrintsAsPyTorch) {
  const Tensor x = core::tensor({{1, 2, 0}, {3, 0, 0}, {4, 5, 6}});
  const core::PackedSequence packed =
      core::pack_padded_sequence(x, {2, 1, 3}, {.batch_first = true, .enforce_sorted = false});
  std::ostringstream text;
  text << packed;
  EXPECT_EQ(text.str(),
            "PackedSequence(data=tensor([4, 1, 3, 5, 2, 6]), batch_sizes=tensor([3, 2, 1]), "
            "sorted_indices=tensor([2, 0, 1]), unsorted_indices=tensor([1, 2, 0]))");
  const auto [padded, lengths] = core::pad_packed_sequence(packed, true);
  EXPECT_TRUE(padded.equal(x));
  EXPECT_EQ(lengths.to_vector<std::int64_t>(), (std::vector<std::int64_t>{2, 1, 3}));
}

TEST(PackedSequence, LayersGiveWhatEachSequenceAloneGives) {
  core::manual_seed(0);
  core::LSTM lstm(3, 4, {.num_layers = 2, .bidirectional = true});
  const std::vector<Tensor> sequences{core::randn({2, 3}), core::randn({5, 3}), core::randn({3, 3})};
  const auto [out, state] = lstm(core::pack_sequence(sequences, false));
  const std::vector<Tensor> each = core::unpack_sequence(out);
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const auto [y, last] = lstm(sequences[i]);
    EXPECT_TRUE(each[i].allclose(y, 1e-5, 1e-6));
    EXPECT_TRUE(std::get<0>(state).select(1, static_cast<std::int64_t>(i)).allclose(std::get<0>(last), 1e-5, 1e-6));
    EXPECT_TRUE(std::get<1>(state).select(1, static_cast<std::int64_t>(i)).allclose(std::get<1>(last), 1e-5, 1e-6));
  }
}

TEST(PackedSequence, HooksSeeTheRows) {
  core::GRU gru(3, 4);
  std::vector<core::Shape> seen;
  gru.register_forward_hook([&](core::Module&, const std::vector<Tensor>&, const std::vector<Tensor>& outputs) {
    for (const Tensor& output : outputs) seen.push_back(output.sizes());
    return std::vector<Tensor>();
  });
  gru(core::pack_padded_sequence(core::randn({3, 2, 3}), {3, 1}));
  EXPECT_EQ(seen, (std::vector<core::Shape>{{4, 4}, {1, 2, 4}}));
}

TEST(PackedSequence, MovesItsDataAndKeepsItsSizes) {
  const core::PackedSequence packed = core::pack_padded_sequence(core::ones({3, 2}), {1, 3}, {.enforce_sorted = false});
  const core::PackedSequence wide = packed.to(core::DType::f64);
  EXPECT_EQ(wide.data.dtype(), core::DType::f64);
  EXPECT_EQ(wide.sorted_indices.dtype(), core::DType::i64);
  EXPECT_TRUE(wide.batch_sizes.equal(core::tensor({2, 1, 1})));
}

TEST(PackedSequence, RefusesWhatDoesNotFit) {
  const Tensor x = core::ones({4, 2, 3});
  EXPECT_EQ(message_of([&] {
              core::pack_padded_sequence(x, {5, 1});
            }),
            "Expected lengths of at most 4 (steps of the input), but got 5");
  EXPECT_EQ(message_of([&] {
              core::pack_padded_sequence(x, core::ones({2, 1}));
            }),
            "'lengths' argument should be a 1D CPU int64 tensor, but got 2D cpu Long tensor");
  for (const Tensor& sizes : {core::tensor({2, 1}), core::tensor({1, 3}), core::tensor({3, 3}), core::tensor({4, 0})}) {
    const core::PackedSequence odd(core::ones({4, 3}), sizes);
    const std::string wanted =
        "batch_sizes of a PackedSequence begin above 0, never grow and add up to the rows of "
        "data, but got " +
        core::to_list(core::Shape(sizes.to_vector<std::int64_t>())) + " for data of size [4, 3]";
    EXPECT_EQ(message_of([&] { core::GRU(3, 4)(odd); }), wanted);
    EXPECT_EQ(message_of([&] { core::pad_packed_sequence(odd); }), wanted);
  }
  const core::PackedSequence none(core::ones({4, 3}), core::zeros({0}, {.dtype = core::DType::i64}));
  EXPECT_NE(message_of([&] { core::pad_packed_sequence(none); }), "no error");
  EXPECT_NE(message_of([&] { core::LSTM(3, 4)(core::PackedSequence()); }), "no error");
  EXPECT_NE(message_of([&] { core::pack_padded_sequence(core::ones({5}), {1}); }), "no error");
  EXPECT_EQ(message_of([&] { core::pad_sequence({core::tensor(1.0)}); }),
            "Dimension specified as 0 but tensor has no dimensions");
  EXPECT_EQ(message_of([&] { core::pack_sequence({}); }), "received an empty list of sequences");
  const core::PackedSequence packed = core::pack_padded_sequence(x, {4, 1});
  EXPECT_EQ(message_of([&] { core::LSTM(2, 4)(packed); }),
            "input.size(-1) must be equal to input_size. Expected 2, got 3");
  EXPECT_EQ(message_of([&] {
              core::GRU(3, 4)(packed, core::ones({1, 3, 4}));
            }),
            "Expected hidden size (1, 2, 4), got [1, 3, 4]");
}

TEST(Recurrent, RefusesNoSteps) {
  const core::Tensor none = core::zeros({0, 2, 3});
  const std::string text = "Expected sequence length to be larger than 0 in RNN";
  EXPECT_EQ(message_of([&] { core::LSTM(3, 4)(none); }), text);
  EXPECT_EQ(message_of([&] { core::GRU(3, 4, {.batch_first = true})(none.transpose(0, 1)); }), text);
  EXPECT_EQ(message_of([&] { core::RNN(3, 4)(core::zeros({0, 3})); }), text);
  EXPECT_EQ(std::get<0>(core::LSTM(3, 4)(core::zeros({2, 0, 3}))).sizes(), (core::Shape{2, 0, 4}));
}

}  // namespace
