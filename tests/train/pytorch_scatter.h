#pragma once
// How far PyTorch's own results lie apart in the recorded training runs that make rounding grow: the same program of
// PyTorch 2.15 with 1 and 2 threads, with the kernels of its AVX2 and its plain build, without oneDNN, and with the
// initial weights disturbed by one part in ten million. Other sums of the same numbers are other rounding, so a right
// implementation is one more draw from this. In the recorded runs that are not here all of these give the same numbers
// to seven digits. Thread safety: constants. Use: for (const test::ScatterRow& row : test::kScatter) ...

#include <array>
#include <cstdint>

namespace test {

struct Spread {
  double mean = 0;
  double deviation = 0;  ///< of one run
};

/// Behind an epoch; accuracies in percent. Of 29 runs, 8 of the capsule network.
struct ScatterRow {
  const char* run;
  std::int64_t epoch;
  Spread train_loss, train_accuracy, test_loss, test_accuracy;
};
inline constexpr ScatterRow kScatter[] = {
    {"fashion_mlp_sgd_ordered", 1, {1.00664, 7.8e-06}, {65.7931, 0.0047}, {0.743591, 0.0004}, {73.269, 0.047}},
    {"fashion_mlp_sgd_ordered", 2, {0.633838, 6.6e-05}, {77.4876, 0.027}, {0.689631, 0.00061}, {74.7224, 0.014}},
    {"fashion_lenet5_sgd", 1, {1.32791, 0.0018}, {49.1276, 0.088}, {0.720739, 0.039}, {72.0934, 2}},
    {"fashion_lenet5_sgd", 2, {0.627487, 0.0079}, {75.4103, 0.45}, {0.612641, 0.029}, {76.7338, 0.97}},
    {"fashion_lenet5_sgd_ordered", 1, {1.3416, 0.0057}, {48.7928, 0.25}, {0.92084, 0.082}, {61.9759, 4.4}},
    {"fashion_lenet5_sgd_ordered", 2, {0.637409, 0.012}, {75.1331, 0.58}, {0.58356, 0.028}, {77.2431, 1.5}},
    {"fashion_lenet5_adam", 1, {1.09571, 0.00024}, {61.2283, 0.069}, {0.732817, 0.0022}, {72.8886, 0.15}},
    {"fashion_lenet5_adam", 2, {0.642649, 0.0028}, {74.7955, 0.098}, {0.636665, 0.0054}, {75.9445, 0.13}},
    {"fashion_capsnet", 1, {0.285405, 2.1e-06}, {64.345, 0.0053}, {}, {75.9475, 0.0089}},
    {"fashion_capsnet", 2, {0.170911, 1.3e-05}, {79.2537, 0.011}, {}, {79.9387, 0.0099}},
};

constexpr std::int64_t kTestRows = 10000;

/// How many of the test rows are right in the end, with the seeds 0 to 15.
struct SeedRow {
  const char* run;
  std::array<std::int64_t, 16> right;
};
inline constexpr SeedRow kSeeds[] = {
    {"fashion_mlp_sgd",
     {7397, 7209, 7113, 7939, 7784, 6774, 7301, 7127, 7364, 7189, 7796, 7082, 7158, 7294, 6968, 7285}},
    {"fashion_mlp_sgd_ordered",
     {7474, 7516, 7474, 7502, 7518, 7565, 7526, 7559, 7496, 7550, 7529, 7500, 7520, 7562, 7529, 7462}},
    {"fashion_mlp_adam",
     {8225, 8180, 8164, 8185, 8198, 8003, 7988, 8098, 8032, 8052, 8099, 7907, 8094, 7976, 8092, 8085}},
    {"fashion_lenet5_sgd",
     {7839, 7939, 7654, 7721, 7765, 7573, 8074, 7897, 7995, 7698, 7669, 7907, 8047, 8000, 7986, 7691}},
    {"fashion_lenet5_sgd_ordered",
     {7788, 8005, 7437, 7805, 7408, 7815, 8038, 8017, 8043, 7760, 1000, 7982, 7994, 7975, 7608, 7482}},
    {"fashion_lenet5_adam",
     {7589, 7391, 7482, 7669, 7470, 7466, 7497, 7522, 7496, 7516, 7524, 7331, 7610, 7389, 7439, 7113}},
};

}  // namespace test
