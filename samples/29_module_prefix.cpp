// The error of tutorial 004 (a file of a wrapped net, a bare net) and everything that cures it. Writes wrapped.pth,
// plain.pth, inner.pth and stripped.pth into the current folder.
#include <iostream>

#include "libckpt/bridge.h"
#include "libckpt/transform/prefix.h"
#include "libcore/core.h"
#include "samples/support/program.h"
#include "samples/support/say.h"
#include "samples/support/scratch_folder.h"

namespace {

using samples::print;

struct MyModule : core::ModuleOf<MyModule> {
  core::Linear fc{3, 5};
  void members(core::Members& m) override { m.child("fc", fc); }
  core::Tensor forward(const core::Tensor& x) { return fc(x); }
};

/// Loads into a new net as `load` does, and says whether it then is the one that was saved.
template <class Load>
void cure(const std::string& what, const MyModule& saved, const Load& load) {
  MyModule net;
  try {
    load(net);
    print(what + ":", net.fc.weight.equal(saved.fc.weight) ? "loaded" : "NOT loaded, and no error");
  } catch (const core::Error& e) {
    print(what + ":", e.what());
  }
}

void cures_at_loading(const MyModule& saved) {
  cure("as it is", saved, [](MyModule& net) { net.load_state_dict(ckpt::load("wrapped.pth")); });
  cure("strict = false", saved, [](MyModule& net) { net.load_state_dict(ckpt::load("wrapped.pth"), false); });
  cure("load into a wrapper around the net", saved, [](MyModule& net) {
    core::DataParallel wrapper(net);
    wrapper.load_state_dict(ckpt::load("wrapped.pth"));
  });
  cure("consume_prefix_in_state_dict_if_present", saved, [](MyModule& net) {
    core::StateDict state = ckpt::load("wrapped.pth");
    core::consume_prefix_in_state_dict_if_present(state, "module.");
    net.load_state_dict(state);
  });
  cure("ckpt::load_into", saved, [](MyModule& net) { std::cout << ckpt::load_into(net, "wrapped.pth"); });
}

void cures_in_the_file(const MyModule& saved) {
  ckpt::save(ckpt::strip_prefix(ckpt::open("wrapped.pth")), "stripped.pth");  // ckpt strip-prefix wrapped.pth
  cure("strip the file", saved, [](MyModule& net) { net.load_state_dict(ckpt::load("stripped.pth")); });
  cure("save module().state_dict() in the first place", saved,
       [](MyModule& net) { net.load_state_dict(ckpt::load("inner.pth")); });
}

void the_other_way() {
  MyModule saved, net;
  ckpt::save(saved.state_dict(), "plain.pth");
  core::DataParallel wrapped(net);
  try {
    wrapped.load_state_dict(ckpt::load("plain.pth"));
  } catch (const core::Error& e) {
    print("a plain file, a wrapped net:", e.what());
  }
  print("module().load_state_dict:", wrapped.module().load_state_dict(ckpt::load("plain.pth")));
  std::cout << ckpt::load_into(wrapped, "plain.pth");
}

void run(samples::Program& program) {
  core::manual_seed(static_cast<std::uint64_t>(program.integer("seed")));
  MyModule saved;
  core::DataParallel paral_net(saved);
  samples::ScratchFolder scratch;  // all files of this program
  ckpt::save(paral_net.state_dict(), "wrapped.pth");
  ckpt::save(paral_net.module().state_dict(), "inner.pth");
  cures_at_loading(saved);
  cures_in_the_file(saved);
  the_other_way();
}

}  // namespace

int main(int argc, char** argv) {
  return samples::run_program(
      argc, argv, {.about = "The module. error and how to fix it", .options = {{"seed", 0, "of all random numbers"}}},
      run);
}
