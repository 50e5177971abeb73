#pragma once
// What a model's output says in words: the likeliest classes, shares of pixels, next tokens.
// Thread safety: pure functions; write_answers and print_answers write to their output.
// Use: InputAnswers a = answers_of(row, zoo::Answer::classes, 5);

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "libckpt/io/json.h"
#include "libcore/tensor/tensor.h"
#include "tools/ckpt/output/output.h"
#include "zoo/zoo.h"

namespace cli {

struct RankedClass {
  std::int64_t index = 0;
  double share = 0;  ///< probability, share of the pixels, or length
  double value = 0;  ///< logit; of pixels their number
};

struct InputAnswers {
  std::string name;
  std::string what;                      ///< "image of 500 x 375 pixels"
  std::vector<RankedClass> top;          ///< best first; equal ones in the order of their index
  core::Shape shape;                     ///< of the output
  double least = 0, most = 0, mean = 0;  ///< of the output's values
  std::int64_t nan = 0;                  ///< values that are no numbers; there is no `top` then
};

/// Whether the classes of the answer are tokens of a vocabulary.
bool names_tokens(zoo::Answer answer);

/// `row`: (classes), (classes, height, width) or (tokens) by `answer`.
InputAnswers answers_of(const core::Tensor& row, zoo::Answer answer, std::int64_t top);

/// How classes are called: labels of the user, or tokens. "" where there is no name.
using NameOf = std::function<std::string(std::int64_t)>;

void write_answers(ckpt::JsonWriter& json, const InputAnswers& answers, zoo::Answer answer, const NameOf& name_of);
/// With a title line; `quiet`: one line an answer, separated by tabs, and nothing else.
void print_answers(Output& out, const InputAnswers& answers, zoo::Answer answer, const NameOf& name_of, bool quiet);

}  // namespace cli
