// Rules are data: here a model's names and layout become those of another, and back again. The same text in a file
// works with `ckpt rename --map rules.toml`.
// usage: sample_write_a_rule IN OUT
#include <cstdio>

#include "libckpt/ckpt.h"
#include "libcore/base/error.h"

constexpr char kRules[] = R"toml(
[[rule]]
rename = "module.fc{#i}.*"      # {#i} is a number, * the rest
to = "layers.{i}.*"

[[rule]]
transpose = "layers.1.weight"

[[rule]]
cast = "*.bias"
dtype = "float64"
was = "float32"                 # so that it can be undone
)toml";

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: sample_write_a_rule IN OUT\n");
    return 2;
  }
  try {
    ckpt::Rules rules = ckpt::parse_rules(kRules, "the rules");
    ckpt::Checkpoint before = ckpt::open(argv[1]);
    ckpt::RuleReport report;
    ckpt::Checkpoint after = ckpt::apply_rules(before, rules, {}, &report);  // nothing is read yet
    for (const ckpt::RuleReport::Step& step : report.steps) {
      std::printf("%s: %zu\n", step.rule.c_str(), static_cast<std::size_t>(step.matched));
    }
    ckpt::save(after, argv[2], {.overwrite = false});  // transposed and cast while being written
    ckpt::Checkpoint back = ckpt::apply_rules(ckpt::open(argv[2]), ckpt::reversed(rules));
    std::printf("and back: %s\n", ckpt::diff(before, back).equal() ? "the same" : "different");
  } catch (const core::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
