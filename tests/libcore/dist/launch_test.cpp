// What launchers say of a process, read from the environment.
#include "libcore/dist/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "tests/support/message_of.h"

namespace {

namespace dist = core::distributed;

TEST(Launch, ReadsListsOfSlurm) {
  EXPECT_EQ(dist::first_host("gpu[03-07,9],login"), "gpu03");
  EXPECT_EQ(dist::first_host("gpu[3,9]-ib"), "gpu3-ib");
  EXPECT_EQ(dist::first_host("a1,a2"), "a1");
  EXPECT_EQ(dist::first_host("single"), "single");
  EXPECT_EQ(dist::first_host("broken["), "broken[");
}

/// The environment of a launcher for one scope.
class Environment {
 public:
  explicit Environment(std::map<std::string, std::string> values) : values_(std::move(values)) {
    for (const auto& [name, value] : values_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, value] : values_) ::unsetenv(name.c_str());
  }

 private:
  std::map<std::string, std::string> values_;
};

TEST(Launch, KnowsItsLaunchers) {
  EXPECT_FALSE(dist::is_launched());
  {
    const Environment mpirun({{"OMPI_COMM_WORLD_RANK", "1"},
                              {"OMPI_COMM_WORLD_SIZE", "4"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                              {"PMIX_NAMESPACE", "3141"}});
    const dist::LaunchFacts facts = dist::launch_facts();
    EXPECT_EQ(facts.by, dist::LaunchFacts::By::open_mpi);
    EXPECT_EQ(facts.rank, 1);
    EXPECT_EQ(facts.world_size, 4);
    EXPECT_EQ(facts.master_addr, "127.0.0.1");
    EXPECT_TRUE(facts.master_port.has_value());
    EXPECT_TRUE(dist::is_launched());
  }
  {
    const Environment srun(
        {{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "3"}, {"SLURM_JOB_ID", "77"}, {"SLURM_JOB_NODELIST", "n[1-3]"}});
    const dist::LaunchFacts facts = dist::launch_facts();
    EXPECT_EQ(facts.by, dist::LaunchFacts::By::slurm);
    EXPECT_EQ(facts.master_addr, "n1");
    EXPECT_EQ(facts.rank, 2);
  }
}

TEST(Launch, CountsTheProcessesOfAMachineOfSlurm) {
  using Count = std::optional<std::int64_t>;
  const auto here = [](std::map<std::string, std::string> values) {
    values.insert({{"SLURM_PROCID", "0"}, {"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "7"}});
    const Environment srun(std::move(values));
    return dist::launch_facts().local_world_size;
  };
  const auto listed = [&](const std::string& machine) {
    return here({{"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"}, {"SLURM_NODEID", machine}});
  };
  EXPECT_EQ(listed("0"), Count(2));
  EXPECT_EQ(listed("2"), Count(2));
  EXPECT_EQ(listed("3"), Count(1));
  EXPECT_EQ(listed("4"), std::nullopt);
  const std::string many = "5,1(x9223372036854775807),3(x9223372036854775807)";
  EXPECT_EQ(here({{"SLURM_TASKS_PER_NODE", many}, {"SLURM_NODEID", "9223372036854775807"}}), Count(1));
  EXPECT_EQ(here({{"SLURM_TASKS_PER_NODE", "4"}}), Count(4));
  EXPECT_EQ(here({{"SLURM_NTASKS_PER_NODE", "4"}}), Count(4));
  EXPECT_EQ(here({{"SLURM_NTASKS_PER_NODE", "16"}}), Count(7));
  EXPECT_EQ(here({}), std::nullopt);
  // The step before the job, and before what was asked for.
  EXPECT_EQ(here({{"SLURM_STEP_TASKS_PER_NODE", "3"}, {"SLURM_TASKS_PER_NODE", "4"}}), Count(3));
  EXPECT_EQ(here({{"SLURM_TASKS_PER_NODE", "1,3"}, {"SLURM_NTASKS_PER_NODE", "2"}}), Count(1));
}

TEST(Launch, NamesAListOfSlurmThatIsNone) {
  for (const std::string text : {"", "two", "0", "-1", "2(x3", "2(3)", "2(x)", "2(x0)", "2,", "2(x3),1.5", "2 ", "2x3)",
                                 "99999999999999999999"}) {
    const Environment srun({{"SLURM_PROCID", "0"}, {"SLURM_JOB_ID", "7"}, {"SLURM_STEP_TASKS_PER_NODE", text}});
    EXPECT_EQ(
        test::message_of([] { dist::launch_facts(); }),
        "SLURM_STEP_TASKS_PER_NODE=" + text + " does not say how many processes each machine has, as 4 and 2(x3),1 do");
  }
}

TEST(Launch, NamesAVariableThatIsNoNumber) {
  const auto said = [](std::map<std::string, std::string> values) {
    const Environment torchrun(std::move(values));
    return test::message_of([] { dist::launch_facts(); });
  };
  EXPECT_EQ(said({{"RANK", "one"}, {"WORLD_SIZE", "2"}}), "RANK=one is no number");
  EXPECT_EQ(said({{"RANK", "0"}, {"WORLD_SIZE", "2 ranks"}}), "WORLD_SIZE=2 ranks is no number");
  EXPECT_EQ(said({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_PORT", "70000"}}),
            "MASTER_PORT=70000 is no port: 0 to 65535 are");
  EXPECT_EQ(said({{"SLURM_PROCID", "x"}, {"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "2"}}), "SLURM_PROCID=x is no number");
  EXPECT_EQ(said({{"SLURM_PROCID", "0"}, {"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS_PER_NODE", ""}}),
            "SLURM_NTASKS_PER_NODE= is no number");
}

}  // namespace
