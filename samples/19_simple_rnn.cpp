// A tensor made inside forward is on the CPU unless it is told otherwise: only what is registered moves with a module.
// Tutorial 003: the error, the tutorial's two cures (runtime, constructor), and better ones (input, buffer, omitted).
// --parallel shows which of them also hold in the replicas of DataParallel: all but `constructor`, whose device is that
// of the first replica.
#include "libcore/core.h"
#include "samples/support/program.h"
#include "samples/support/say.h"

namespace {

using core::Tensor;

struct SimpleRNN : core::ModuleOf<SimpleRNN> {
  std::int64_t hidden_dim;
  core::Device device;
  std::string form;
  core::RNN rnn;
  core::Linear fc;
  Tensor start;  // (1, 1, hidden_dim)

  struct Sizes {
    std::int64_t input_dim, hidden_dim, output_dim;
  };
  SimpleRNN(const Sizes& sizes, core::Device given_device, std::string given_form)
      : hidden_dim(sizes.hidden_dim),
        device(given_device),
        form(std::move(given_form)),
        rnn(sizes.input_dim, sizes.hidden_dim),
        fc(sizes.hidden_dim, sizes.output_dim),
        start(core::zeros({1, 1, sizes.hidden_dim})) {}
  void members(core::Members& m) override { m.child("rnn", rnn).child("fc", fc).buffer("start", start, false); }

  /// The first hidden state (1, batch_size, hidden_dim).
  Tensor first_hidden(const Tensor& x) {
    std::int64_t batch_size = x.size(1);
    if (form == "input") return core::zeros({1, batch_size, hidden_dim}, {.device = x.device()});
    if (form == "buffer") return start.expand({1, batch_size, hidden_dim});  // registered, so it moves along
    if (form == "omitted") return {};                                        // zeros where x is
    Tensor hidden = core::zeros({1, batch_size, hidden_dim});                // on the CPU
    if (form == "runtime") hidden = hidden.to(parameters().front().device());
    if (form == "constructor") hidden = hidden.to(device);
    return hidden;
  }

  /// x: (seq_len, batch_size, input_dim) -> (1, batch_size, output_dim).
  Tensor forward(const Tensor& x) {
    auto [y, hidden] = rnn(x, first_hidden(x));
    return fc(hidden.squeeze(1));  // does nothing unless the batch is 1, as in the tutorial
  }
};

void check_form(const std::string& form) {
  for (const char* known : {"plain", "runtime", "constructor", "input", "buffer", "omitted"}) {
    if (form == known) return;
  }
  throw core::Error(core::ErrorCode::value,
                    "no form '" + form + "': plain, runtime, constructor, input, buffer, omitted");
}

void run(samples::Program& program) {
  check_form(program.text("form"));
  core::manual_seed(static_cast<std::uint64_t>(program.integer("seed")));
  core::Device device(core::cuda::is_available() ? "cuda:0" : "cpu");
  Tensor x = core::randn({program.integer("seq_len"), program.integer("batch_size"), program.integer("input_dim")});
  x = x.to(device);
  SimpleRNN::Sizes sizes{program.integer("input_dim"), program.integer("hidden_dim"), program.integer("output_dim")};
  SimpleRNN rnn(sizes, device, program.text("form"));
  rnn.to(device);
  Tensor output = program.flag("parallel") ? core::DataParallel(rnn, {.dim = 1})(x) : rnn(x);
  samples::print(output);
  program.keep("x", x);
  program.keep("output", output);
  for (const auto& [name, parameter] : rnn.named_parameters()) program.keep(name, parameter);
}

}  // namespace

int main(int argc, char** argv) {
  return samples::run_program(
      argc, argv,
      {.about = "A hidden state on the wrong device, and how to put it right",
       .options = {{"form", "plain", "plain (fails on a GPU), runtime, constructor, input, buffer or omitted"},
                   {"parallel", false, "under DataParallel on all devices"},
                   {"seed", 0, "of all random numbers"},
                   {"batch_size", 3, "sequences", 1},
                   {"seq_len", 4, "steps in a sequence", 1},
                   {"input_dim", 10, "features of a step", 1},
                   {"output_dim", 3, "values the model gives", 1},
                   {"hidden_dim", 5, "features of the state", 1}}},
      run);
}
