#include "libckpt/keras/family_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/io/byte_source.h"
#include "libcore/base/error.h"

namespace {

ckpt::Checkpoint file(const std::vector<ckpt::NamedShape>& keys) {
  ckpt::Dict dict;
  for (const ckpt::NamedShape& key : keys) {
    ckpt::Entry entry;
    entry.shape = key.shape;
    entry.bytes = ckpt::memory_source(core::ByteVector(entry.numel() * sizeof(float)));
    dict.items.emplace_back(ckpt::Value::text(std::string(key.name)),
                            ckpt::Value::tensor(std::make_shared<const ckpt::Entry>(std::move(entry))));
  }
  ckpt::Checkpoint out;
  out.root = ckpt::Value::dict(std::move(dict));
  return out;
}

}  // namespace

TEST(KerasFamilyRules, CountTheLayersOfKeras1) {
  const ckpt::RulePack pack = ckpt::parse_rule_pack(R"([about]
from = "Keras"
to = "torch"
[[rule]]
rename = [["layers.conv2d.vars.*", "a.*"], ["layers.conv2d_1.vars.*", "b.*"], ["layers.dense.vars.*", "c.*"]]
)",
                                                    "keras-small");
  const std::vector<ckpt::NamedShape> keys = {{"block1_conv1.block1_conv1_b_1:0", {4}},
                                              {"block1_conv1.block1_conv1_W_1:0", {3, 3, 2, 4}},
                                              {"block1_conv2.block1_conv2_W_1:0", {3, 3, 4, 5}},
                                              {"fc.fc_W_1:0", {5, 6}},
                                              {"fc.fc_c_1:0", {6}}};
  ckpt::Checkpoint keras = file(keys);
  EXPECT_THROW(ckpt::keras_family_rules(pack, keras, keys), core::Error);  // in no order that is the model's
  keras.format = "hdf5";
  std::vector<std::string> names;
  const ckpt::Checkpoint made = ckpt::apply_rules(keras, ckpt::keras_family_rules(pack, keras, keys));
  for (const ckpt::NamedEntry& named : ckpt::list_entries(made.root)) names.push_back(named.name);
  EXPECT_THAT(names, testing::ElementsAre("a.1", "a.0", "b.0", "c.0", "fc.fc_c_1:0"));
}
