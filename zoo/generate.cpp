#include "zoo/generate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/index.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/scan.h"
#include "libcore/ops/scatter.h"
#include "libcore/ops/softmax.h"
#include "libcore/ops/sort.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "zoo/decoder.h"

namespace zoo {
namespace {

using core::Error;
using core::ErrorCode;
using core::Tensor;
using Ids = std::vector<std::int64_t>;

constexpr float kNever = -1e9F;  ///< the score of what is out of the race, as transformers has it

Tensor without(const Tensor& scores, const Tensor& mask) {
  return core::masked_fill(scores, mask, core::Scalar(-std::numeric_limits<double>::infinity()));
}

Tensor penalized(const Tensor& scores, const std::vector<Ids>& rows, double penalty) {
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Tensor row = scores.select(0, static_cast<std::int64_t>(i));
    const Tensor seen = core::from_values(rows[i]);
    const Tensor own = core::gather(row, 0, seen);
    const Tensor changed = core::where(own < 0.0, own * penalty, own / penalty);
    out.push_back(core::scatter(row, 0, seen, changed));
  }
  return core::stack(out);
}

Tensor top_k_of(const Tensor& scores, std::int64_t k) {
  const core::ValuesIndices top = core::topk(scores, std::min(k, scores.size(-1)));
  return without(scores, scores < top.values.slice(1, top.values.size(1) - 1, top.values.size(1)));
}

Tensor top_p_of(const Tensor& scores, double p) {
  const core::ValuesIndices sorted = core::sort(scores);
  const Tensor sums = core::cumsum(core::softmax(sorted.values, -1), -1);
  const std::int64_t last = scores.size(1) - 1;
  // The likeliest one always stays.
  const Tensor out = core::cat(
      {(sums <= 1 - p).slice(1, 0, last), core::zeros({scores.size(0), 1}, {.dtype = core::DType::boolean})}, 1);
  return without(scores, core::scatter(out, 1, sorted.indices, out));
}

/// Errors: Error(index) for a token that there is none of.
Tensor without_tokens(const Tensor& scores, const Ids& tokens) {
  Tensor mask = core::zeros({scores.size(1)}, {.dtype = core::DType::boolean});
  const Tensor yes = core::ones({static_cast<std::int64_t>(tokens.size())}, {.dtype = core::DType::boolean});
  return without(scores, core::scatter(mask, 0, core::from_values(tokens), yes));
}

bool holds(const Ids& ids, std::int64_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

Ids added_in(const Ids& row, std::size_t prompt) {
  return Ids(row.begin() + static_cast<std::ptrdiff_t>(prompt), row.end());
}

Tensor tokens_of(const std::vector<Ids>& rows) {
  std::vector<Tensor> out;
  out.reserve(rows.size());
  for (const Ids& row : rows) out.push_back(core::from_values(row));
  return core::stack(out);
}

Ids one_by_one(Decoder& decoder, const Ids& prompt, const GenerateOptions& options, const StopAfter& stop,
               const OnToken& on_token) {
  Ids row = prompt;
  for (std::int64_t i = 0; i < options.max_new_tokens; ++i) {
    const Tensor logits = decoder.next(tokens_of({row}).to(options.device)).cpu().to(core::DType::f32);
    const Tensor scores = processed_scores(logits, {row}, options).select(0, 0);
    const std::int64_t id = options.sample ? core::multinomial(core::softmax(scores, -1), {}).item<std::int64_t>()
                                           : scores.argmax().item<std::int64_t>();
    row.push_back(id);
    if (on_token) on_token(id);
    if (holds(options.ends, id) || (stop && stop(added_in(row, prompt.size())))) break;
  }
  return added_in(row, prompt.size());
}

struct Beam {
  Ids row;
  float score = kNever;
  bool done = false;  ///< it cannot go on
};

/// The `count` best, those that stand first among equals.
std::vector<Beam> best(std::vector<Beam> beams, std::size_t count) {
  std::stable_sort(beams.begin(), beams.end(), [](const Beam& a, const Beam& b) { return a.score > b.score; });
  beams.resize(std::min(count, beams.size()));
  return beams;
}

class BeamSearch {
 public:
  BeamSearch(Decoder& decoder, const Ids& prompt, const GenerateOptions& options, const StopAfter& stop)
      : decoder_(decoder),
        prompt_(prompt.size()),
        options_(options),
        stop_(stop),
        count_(static_cast<std::size_t>(options.beams)) {
    running_.assign(count_, {prompt, kNever, false});
    running_[0].score = 0;  // the others begin alike
    finished_.assign(count_, {prompt, kNever, false});
  }

  Ids run() {
    bool going = options_.max_new_tokens > 0;
    while (going) going = step();
    return added_in(finished_[0].row, prompt_);
  }

 private:
  /// False when no beam can become better than those that are finished.
  bool step();
  Tensor scores();
  std::vector<Beam> candidates();
  void go_on(const std::vector<Beam>& candidates);
  void finish(const std::vector<Beam>& candidates);
  bool can_improve() const;
  float weighed(float score, std::size_t length) const {
    return score / static_cast<float>(std::pow(static_cast<double>(length - prompt_), options_.length_penalty));
  }

  Decoder& decoder_;
  std::size_t prompt_;
  const GenerateOptions& options_;
  const StopAfter& stop_;
  std::size_t count_;
  std::vector<Beam> running_;
  std::vector<Beam> finished_;
  bool first_ = true;
};

/// What each token behind each beam would bring it to: (beams * tokens).
Tensor BeamSearch::scores() {
  std::vector<Ids> rows;
  std::vector<float> sums;
  for (const Beam& beam : running_) {
    rows.push_back(beam.row);
    sums.push_back(beam.score);
  }
  Tensor logits;
  if (first_) {  // one row is read for all
    logits = decoder_.next(tokens_of({rows[0]}).to(options_.device));
    decoder_.select_rows(Ids(count_, 0));
    logits = core::cat(std::vector<Tensor>(count_, logits), 0);
    first_ = false;
  } else {
    logits = decoder_.next(tokens_of(rows).to(options_.device));
  }
  const Tensor scores = processed_scores(core::log_softmax(logits.cpu().to(core::DType::f32), -1), rows, options_);
  return (scores + core::from_values(sums).unsqueeze(1)).flatten();
}

std::vector<Beam> BeamSearch::candidates() {
  const Tensor all = scores();
  const std::int64_t tokens = all.numel() / options_.beams;
  const auto spare = std::max<std::int64_t>(2, 1 + static_cast<std::int64_t>(options_.ends.size()));
  const core::ValuesIndices top = core::topk(all, std::min(spare * options_.beams, all.numel()));
  const auto values = top.values.to_vector<float>();
  const auto indices = top.indices.to_vector<std::int64_t>();
  std::vector<Beam> out;
  for (std::size_t i = 0; i < values.size(); ++i) {
    Beam beam{running_[static_cast<std::size_t>(indices[i] / tokens)].row, values[i], false};
    const std::int64_t id = indices[i] % tokens;
    beam.row.push_back(id);
    beam.done = holds(options_.ends, id) ||
                static_cast<std::int64_t>(beam.row.size() - prompt_) >= options_.max_new_tokens ||
                (stop_ && stop_(added_in(beam.row, prompt_)));
    out.push_back(std::move(beam));
  }
  return out;
}

void BeamSearch::go_on(const std::vector<Beam>& candidates) {
  std::vector<Beam> open = candidates;
  for (Beam& beam : open) beam.score += beam.done ? kNever : 0;
  const std::vector<Beam> before = std::move(running_);
  running_ = best(std::move(open), count_);
  Ids from;
  for (const Beam& beam : running_) {
    const Ids parent(beam.row.begin(), beam.row.end() - 1);
    const auto found = std::find_if(before.begin(), before.end(), [&](const Beam& one) { return one.row == parent; });
    from.push_back(found - before.begin());
  }
  decoder_.select_rows(from);
}

void BeamSearch::finish(const std::vector<Beam>& candidates) {
  std::vector<Beam> all = finished_;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    Beam beam = candidates[i];
    beam.done = beam.done && i < count_;  // the others are there so that enough beams go on
    beam.score = weighed(beam.score, beam.row.size()) + (beam.done ? 0 : kNever);
    all.push_back(std::move(beam));
  }
  finished_ = best(std::move(all), count_);
}

bool BeamSearch::can_improve() const {
  const float possible = weighed(running_[0].score, running_[0].row.size());
  float worst = std::numeric_limits<float>::infinity();
  for (const Beam& beam : finished_) worst = std::min(worst, beam.score);
  return std::any_of(finished_.begin(), finished_.end(),
                     [&](const Beam& beam) { return possible > (beam.done ? worst : kNever); });
}

bool BeamSearch::step() {
  const std::vector<Beam> next = candidates();
  go_on(next);
  finish(next);
  const bool all_done = std::all_of(next.begin(), next.end(), [](const Beam& beam) { return beam.done; });
  return can_improve() && !all_done;
}

Ids added_by(Decoder& decoder, const Ids& text, const GenerateOptions& options, const StopAfter& stop,
             const OnToken& on_token) {
  if (options.beams == 1) return one_by_one(decoder, text, options, stop, on_token);
  Ids added = BeamSearch(decoder, text, options, stop).run();
  if (on_token) std::for_each(added.begin(), added.end(), on_token);
  return added;
}

}  // namespace

void check_options(const GenerateOptions& options) {
  const auto wanted = [](bool good, const char* text) {
    if (!good) throw Error(ErrorCode::usage, text);
  };
  wanted(options.max_new_tokens >= 0, "the number of new tokens is negative");
  wanted(!options.sample || options.temperature > 0, "a temperature to draw with is above 0");
  wanted(options.top_k >= 0, "top_k is negative");
  wanted(options.top_p > 0 && options.top_p <= 1, "top_p is above 0 and at most 1");
  wanted(options.repetition_penalty > 0, "a repetition penalty is above 0");
  wanted(options.beams >= 1, "there is at least one beam");
  wanted(options.beams == 1 || !options.sample, "beams take the best tokens and draw none");
}

Tensor processed_scores(const Tensor& scores, const std::vector<Ids>& rows, const GenerateOptions& options) {
  Tensor out = scores;
  if (options.repetition_penalty != 1) out = penalized(out, rows, options.repetition_penalty);
  if (!options.suppressed.empty()) out = without_tokens(out, options.suppressed);
  const bool first = !rows.empty() && rows[0].size() == options.begin.size();
  if (first && !options.suppressed_first.empty()) out = without_tokens(out, options.suppressed_first);
  if (!options.sample) return out;
  if (options.temperature != 1) out = out / options.temperature;
  if (options.top_k != 0) out = top_k_of(out, options.top_k);
  if (options.top_p < 1) out = top_p_of(out, options.top_p);
  return out;
}

Ids generate(core::Module& model, const Ids& prompt, const GenerateOptions& options, const StopAfter& stop,
             const OnToken& on_token) {
  check_options(options);
  if (prompt.empty()) throw Error(ErrorCode::usage, "there is no token to go on from");
  if (dynamic_cast<EncoderDecoder*>(&model) != nullptr) {
    return generate_about(model, tokens_of({prompt}).to(options.device), options, stop, on_token);
  }
  core::NoGradGuard no_grad;
  Decoder decoder(model);
  return added_by(decoder, prompt, options, stop, on_token);
}

Ids generate_about(core::Module& model, const Tensor& source, const GenerateOptions& options, const StopAfter& stop,
                   const OnToken& on_token) {
  check_options(options);
  if (options.begin.empty()) throw Error(ErrorCode::usage, "there is no token to begin with");
  core::NoGradGuard no_grad;
  Decoder decoder(model, source);
  return added_by(decoder, options.begin, options, stop, on_token);
}

}  // namespace zoo
