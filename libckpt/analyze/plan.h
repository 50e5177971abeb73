#pragma once
// plan: the memory that a model needs to run or to be trained: weights, gradients and the state of an optimizer, by
// element type, on each device and on the host. What depends on the input (activations) is counted where the caller
// has measured it; what libraries keep for themselves is not. All sizes are bytes.
// Thread safety: pure functions. Use: ckpt::MemoryPlan plan = ckpt::plan_memory(parameters, {.optimizer = "adamw"});

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/dtype.h"
#include "libcore/base/shape.h"

namespace ckpt {

/// A tensor of the model as it is in memory; those that share their memory are one.
struct PlanTensor {
  std::string name;
  core::DType dtype = core::DType::f32;
  core::Shape shape = {};
  bool parameter = true;                     ///< trained; else a buffer
  std::optional<std::uint64_t> packed = {};  ///< bytes of quantised blocks, which are not trained as they are
  std::string packed_type = {};              ///< "Q4_0"
};

/// How several devices share the work.
enum class Parallel : std::uint8_t {
  data_parallel,  ///< torch.nn.DataParallel: copies on every step, gradients and state on the first device
  distributed,    ///< DistributedDataParallel: one process a device, each with everything
  zero,           ///< the same around ZeroRedundancyOptimizer (ZeRO stage 1): each has a share of the state
};
/// "DataParallel", "DistributedDataParallel", "DistributedDataParallel and ZeroRedundancyOptimizer".
std::string_view name(Parallel parallel);

/// What a pass over one device's share of a batch takes beside weights and their gradients.
struct PlanPass {
  std::uint64_t kept = 0;     ///< the input, and what forward keeps for backward
  std::uint64_t between = 0;  ///< what comes to it at most
};

struct PlanOptions {
  /// As optimizer_names() lists them, in any letter case, with "+momentum", "+amsgrad" or "+centered" where it has that
  /// option. "" for a model that is only run.
  std::string optimizer = {};
  int devices = 1;  ///< 0: everything on the host
  Parallel parallel = Parallel::data_parallel;
  std::optional<core::DType> dtype = {};     ///< of all floating tensors, as module.to(dtype); else each has its own
  std::optional<core::DType> autocast = {};  ///< f16 or bf16: the type of the copies that autocast makes
  bool foreach_step = true;           ///< PyTorch's default step on devices, which needs room for results in between
  std::optional<PlanPass> pass = {};  ///< with the copies that autocast makes; nullopt: not counted
  std::uint64_t loaded_bytes = 0;     ///< of a file's tensors, on the host until they are in the model
};

/// One tensor of the state of one parameter.
struct StateSlot {
  std::string name;  ///< "exp_avg", as in the optimizer's state dict
  core::DType dtype = core::DType::f32;
  core::Shape shape = {};
  bool on_host = false;  ///< counters, which stay on the CPU
};

/// "sgd", "adam", "adamw", ...
std::vector<std::string> optimizer_names();

/// What an optimizer of this library, and of PyTorch, keeps for a parameter after its first step.
/// Errors: Error(usage) for an unknown name or option; Error(value) for a parameter that it does not take (muon).
std::vector<StateSlot> optimizer_state_of(const std::string& optimizer, const PlanTensor& parameter);

/// When memory is taken.
enum class PlanPhase : std::uint8_t { always, loading, pass, step, forward };
/// "always", "while loading", "forward and backward", "in step()", "forward".
std::string_view name(PlanPhase phase);

/// A row of the plan.
struct PlanPart {
  std::string what;   ///< "weights", "buffers", "gradients", the name of a state slot, or a sentence's subject
  std::string dtype;  ///< "float32"
  PlanPhase phase = PlanPhase::always;
  std::vector<std::uint64_t> bytes = {};  ///< one number a place
};

struct MemoryPlan {
  std::vector<std::string> places;     ///< "cuda:0", "cuda:1", "cpu": the host comes last
  std::vector<PlanPart> parts;         ///< none that is empty everywhere
  std::vector<std::uint64_t> lasting;  ///< of each place, what is there between two steps
  std::vector<std::uint64_t> most;     ///< with the phase that needs most there
  std::uint64_t parameters = 0;        ///< elements that are trained
  std::uint64_t untrained = 0;         ///< elements of buffers and packed weights
  std::uint64_t tensors = 0;
  std::uint64_t packed = 0;  ///< tensors in quantised blocks
};

/// Errors: those of optimizer_state_of(); Error(usage) for options that make no sense (more than 4,096 devices, a type
/// that is not floating); Error(refused) for tensors that are larger than any machine's memory.
MemoryPlan plan_memory(const std::vector<PlanTensor>& tensors, const PlanOptions& options = {});

}  // namespace ckpt
