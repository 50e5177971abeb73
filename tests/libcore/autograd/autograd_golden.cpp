// What small programs about graphs print, compared line by line with autograd.json.
#include <sstream>

#include "tests/libcore/autograd/autograd_cases.h"
#include "tests/support/golden_device.h"
#include "tests/support/golden_json.h"

int main() {
  return test::golden_main("autograd", "runtime/autograd.json", [](test::Json root, test::GoldenRun& run) {
    test::compute_on_golden_device();
    test::AutogradCases cases;
    test::add_graph_cases(cases);
    test::add_kink_cases(cases);
    test::add_module_cases(cases);
    for (test::Json c : test::items(test::member(root, "cases"))) {
      std::string id = test::text(test::member(c, "id"));
      auto found = cases.find(id);
      if (found == cases.end()) {
        run.skip(id, "no such feature yet");
        continue;
      }
      test::guarded(run, id, [&] {
        core::manual_seed(0);
        std::ostringstream out;
        found->second(out);
        std::string want = test::text(test::member(c, "stdout"));
        if (test::drew_on_golden_device()) return run.skip(id, "it draws on the device");
        run.check(id, out.str() == want, "got\n" + out.str() + "want\n" + want);
      });
    }
  });
}
