// Objects of unknown classes beside the weights, as Lightning keeps modules and losses among its settings: no command
// that does not need them is stopped by them, and none changes them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/files.h"

using ckpt::Value;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using namespace test;

namespace {

Value object(const std::string& symbol, Value state) {
  ckpt::Object made;
  made.symbol = symbol;
  made.form = ckpt::Object::Form::instance;
  made.args = Value::tuple({});
  made.has_state = true;
  made.state = std::move(state);
  return Value::object(std::move(made));
}

/// A pickled torch.nn.Module whose keys look like those of the model.
Value module() {
  Value parameters = dict({{"model.weight", tensor({1, 2})}, {"params", Value::list({Value::text("model.w")})}});
  return object("my.project.Net", dict({{"_parameters", parameters}, {"_buffers", dict({})}, {"_modules", dict({})}}));
}

Value lightning(Value settings) {
  return dict({{"epoch", Value::integer(3)},
               {"state_dict", state_dict({"model.w", "model.b"})},
               {"hyper_parameters", dict({{"lr", Value::real(0.1)}, {"net", std::move(settings)}})}});
}

/// last.pth holds a module among its settings.
class Carried : public testing::Test {
 protected:
  Carried() { write_checkpoint(dir_.path() / "last.pth", lightning(module())); }
  Outcome run(const std::vector<std::string>& arguments) { return run_ckpt(dir_.path(), arguments); }
  /// The module as a file has it.
  Value kept(const std::string& name) {
    ckpt::Checkpoint file = ckpt::open(dir_.path() / name, {.look_past_foreign = true});
    return ckpt::value_at(file.root, "hyper_parameters.net");
  }
  /// "Everything but tensors is equal" of two objects, whose tensors come from two files.
  static std::string outline(const Value& value) {
    if (value.is(Value::Kind::tensor)) return "tensor " + std::string(core::name(value.as_entry().dtype));
    if (value.is(Value::Kind::object)) return value.as_object().symbol + outline(value.as_object().state);
    std::string out = ckpt::type_text(value);
    if (value.is(Value::Kind::text)) out += value.as_text();
    if (value.is_sequence()) {
      for (const Value& item : value.as_list()) out += "," + outline(item);
    }
    if (!value.is(Value::Kind::dict)) return out;
    for (const auto& [key, child] : value.as_dict().items) out += "{" + outline(key) + ":" + outline(child) + "}";
    return out;
  }
  void expect_kept(const std::vector<std::string>& arguments) {
    Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << arguments[0] << ": " << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("'hyper_parameters.net' is not plain data ('my.project.Net'): it is passed on, "
                                       "and nothing of it was run"));
    EXPECT_THAT(outcome.err, Not(HasSubstr("kept as inert data")));
    EXPECT_EQ(outline(kept("out.pth")), outline(module())) << arguments[0];
    std::filesystem::remove(dir_.path() / "out.pth");
  }

  TempDir dir_;
};

}  // namespace

TEST_F(Carried, EditsOfTheWholeFilePassTheModuleOnUnchanged) {
  expect_kept({"strip-prefix", "--prefix", "model", "last.pth", "-o", "out.pth"});
  expect_kept({"rename", "--glob", "model.*=net.*", "last.pth", "-o", "out.pth"});
  expect_kept({"remap", "--to", "cuda:0", "last.pth", "-o", "out.pth"});
  expect_kept({"compact", "last.pth", "-o", "out.pth"});
  expect_kept({"select", "--exclude", "epoch", "last.pth", "-o", "out.pth"});
  expect_kept({"convert", "last.pth", "out.pth"});
  expect_kept({"add-prefix", "last.pth::state_dict", "-o", "out.pth"});
}

TEST_F(Carried, KeysInsideAModuleAreNotRenamed) {
  ASSERT_EQ(run({"strip-prefix", "--prefix", "model", "last.pth", "-o", "out.pth"}).code, 0);
  ckpt::Checkpoint file = ckpt::open(dir_.path() / "out.pth", {.look_past_foreign = true});
  EXPECT_THAT(names(file),
              ElementsAre("state_dict.w", "state_dict.b", "hyper_parameters.net._parameters.model.weight"));
}

TEST_F(Carried, WhatAttacksUseIsNotPassedOn) {
  write_checkpoint(dir_.path() / "bad.pth", lightning(object("torch.utils.collect_env.run", dict({}))));
  expect_refused(dir_, {"strip-prefix", "--prefix", "model", "bad.pth"}, 3, "bad.pth",
                 "'hyper_parameters.net' names 'torch.utils.collect_env.run', which attacks use, and is not passed on");
  EXPECT_EQ(run({"strip-prefix", "--prefix", "model", "--drop", "bad.pth", "-o", "out.pth"}).code, 0);
  EXPECT_EQ(ckpt::open(dir_.path() / "out.pth").root.find("hyper_parameters")->find("net"), nullptr);
}

TEST_F(Carried, APartialOfAFunctionIsPassedOn) {
  write_checkpoint(dir_.path() / "net.pth", lightning(object("functools.partial", dict({}))));
  EXPECT_EQ(run({"strip-prefix", "--prefix", "model", "net.pth", "-o", "out.pth"}).code, 0);
}

TEST_F(Carried, InPlaceTheModuleStays) {
  ASSERT_EQ(run({"strip-prefix", "--prefix", "model", "--in-place", "last.pth"}).code, 0);
  EXPECT_EQ(outline(kept("last.pth")), outline(module()));
}

TEST_F(Carried, ManyObjectsAreCountedAfterFive) {
  Value::List losses;
  for (int i = 0; i < 8; ++i) losses.push_back(object("my.project.Loss", dict({})));
  write_checkpoint(dir_.path() / "many.pth", lightning(Value::list(losses)));
  Outcome outcome = run({"strip-prefix", "--prefix", "model", "many.pth", "-o", "out.pth"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("'hyper_parameters.net.4' is not plain data"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("'hyper_parameters.net.5'")));
  EXPECT_THAT(outcome.err, HasSubstr("so are 3 more objects"));
}

TEST_F(Carried, OtherFormatsAreRefusedWithACommandThatWorks) {
  expect_refused(dir_, {"convert", "last.pth", "out.safetensors"}, 3, "last.pth",
                 "(ckpt convert last.pth::state_dict out.safetensors) or leave it out (--drop)");
  expect_refused(dir_, {"convert", "last.pth", "out.ckpt"}, 3, "last.pth", "unless --foreign-objects asks for it");
  EXPECT_EQ(run({"convert", "last.pth::state_dict", "out.safetensors"}).code, 0);
  EXPECT_THAT(names_in(dir_.path() / "out.safetensors"), ElementsAre("model.b", "model.w"));
  Outcome dropped = run({"convert", "--drop", "last.pth", "out.ckpt"});
  EXPECT_EQ(dropped.code, 0);
  EXPECT_THAT(dropped.out, HasSubstr("2 tensors from torch-zip"));
  EXPECT_THAT(dropped.err, HasSubstr("left out: 'hyper_parameters.net' (not plain data: 'my.project.Net')"));
  EXPECT_THAT(names_in(dir_.path() / "out.ckpt"), ElementsAre("state_dict.model.w", "state_dict.model.b"));
}

TEST_F(Carried, APartWithoutTheModuleSaysNothingOfIt) {
  for (const std::string command : {"convert", "hash", "stat"}) {
    std::vector<std::string> arguments = {command, "last.pth::state_dict"};
    if (command == "convert") arguments.emplace_back("out.pth");
    Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0);
    EXPECT_THAT(outcome.err, Not(HasSubstr("my.project"))) << command;
  }
  EXPECT_EQ(run({"select", "--include", "state_dict", "last.pth", "-o", "selected.pth"}).err, "");
}

TEST_F(Carried, AModuleThatIsNamedIsTakenAsItsStateDict) {
  Outcome outcome = run({"convert", "last.pth::hyper_parameters.net", "net.safetensors"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("'my.project.Net' is a pickled module"));
  EXPECT_THAT(names_in(dir_.path() / "net.safetensors"), ElementsAre("model.weight"));
}

TEST_F(Carried, CommandsThatReadDoTheirWork) {
  for (const char* command : {"stat", "hash", "meta"}) EXPECT_EQ(run({command, "last.pth"}).code, 0) << command;
  EXPECT_EQ(run({"diff", "last.pth", "last.pth"}).code, 0);
  EXPECT_EQ(run({"cat", "last.pth", "state_dict.model.w"}).code, 0);
  EXPECT_EQ(run({"avg", "last.pth", "last.pth", "-o", "avg.safetensors"}).code, 0);
  EXPECT_THAT(run({"verify", "last.pth"}).out, Not(HasSubstr("left out")));
}

TEST_F(Carried, PublishTakesTheStateDictAndPassesNoObjectOn) {
  Value weights = dict({{"w", tensor({1})}, {"extra", object("my.project.Extra", dict({}))}});
  Value settings = dict({{"net", module()}});
  write_checkpoint(dir_.path() / "run.pth", dict({{"state_dict", weights}, {"hyper_parameters", settings}}));
  Outcome outcome = run({"publish", "run.pth", "-o", "out.pth"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, HasSubstr("left out 'extra', which is not plain data ('my.project.Extra')"));
  EXPECT_THAT(names_in(dir_.path() / "out.pth"), ElementsAre("w"));
}

TEST_F(Carried, PublishTakesAModuleWhereThereIsNothingElse) {
  write_checkpoint(dir_.path() / "net.pth", dict({{"model", module()}, {"epoch", Value::integer(1)}}));
  Outcome outcome = run({"publish", "net.pth", "-o", "out.pth"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(names_in(dir_.path() / "out.pth"), ElementsAre("model.weight"));
}
