// What two_draws.query finds: the lines marked so, and no others. Compiled by no target.
#include <libcore/core.h>

namespace {

using namespace core;  // as users write it

void take(const Linear&, const Linear&) {}

void draws() {
  Tensor a = randn(2) + randn(2);  // found
  Tensor b = randn(2), c = randn(2);
  Tensor d = b + c * randn(2);
  Tensor e = cat(std::vector<Tensor>{randn(2), randn(2)});
  Tensor k = add(rand({2}), dropout(b) * 2);  // found
  Sequential net{Linear(3, 8), Linear(8, 2)};
  take(Linear(3, 8), Linear(8, 2));                            // found
  double r = rand(1).item<double>() - rand(1).item<double>();  // found
  Tensor m = where(b > 0, zeros({2}).normal_(), randn(2));     // found
  Tensor n = randn(2).add(randn(2));
  Tensor o = matmul(randn({2, 2}), b);
  b[0] = randn(1) * 2;
}

}  // namespace
