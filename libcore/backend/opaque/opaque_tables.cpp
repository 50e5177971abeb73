#include "libcore/backend/opaque/opaque_tables.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include "libcore/backend/nn_table.h"
#include "libcore/backend/op_tables.h"
#include "libcore/backend/opaque/opaque_graph.h"
#include "libcore/backend/opaque/opaque_memory.h"
#include "libcore/backend/opaque/param_pointers.h"
#include "libcore/backend/recurrent_table.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace core {
namespace {

struct Slot {
  std::string name;
  void (*inner)() = nullptr;  // of its row's type; null when the slot is not filled
  std::atomic<std::uint64_t> calls{0};
};

constexpr std::size_t kMostRows = 64;

struct State {
  std::array<std::unique_ptr<Slot[]>, kMostRows> rows;
  std::array<std::size_t, kMostRows> counts{};
  std::map<std::string, std::uint64_t> earlier_calls;  // before the tables were replaced
  ElementwiseTable elementwise;
  ReductionTable reduction;
  MatmulTable matmul;
  CopyTable copy;
  IndexingTable indexing;
  NnTable nn;
  RecurrentTable recurrent;
  RandomTable random;
  OptimizerTable optimizer;
  OpTables all;
};

/// Never destroyed: tensors of static lifetime may still need it.
State& state() {
  static auto* made = new State;
  return *made;
}

thread_local int launching = -1;

[[noreturn]] void refuse(const Slot& slot, const char* pointer, const std::string& why) {
  throw Error(ErrorCode::internal, "kernel " + slot.name + ": '" + pointer + "' " + why);
}

const OpaqueMemory& checked_memory(const Slot& slot, const char* pointer, const void* data) {
  const OpaqueMemory* memory = opaque_memory_of(data);
  const std::string here = "cuda:" + std::to_string(launching);
  if (memory == nullptr) refuse(slot, pointer, "is host memory where memory of " + here + " is needed");
  if (memory->device() != launching) {
    refuse(slot, pointer, "is memory of cuda:" + std::to_string(memory->device()) + " in a kernel of " + here);
  }
  return *memory;
}

/// What stands in the parameters themselves moves with them.
template <class Params, class T>
bool moved_along(const Params& from, Params& to, T*& pointer) {
  const auto first = reinterpret_cast<std::uintptr_t>(&from), at = reinterpret_cast<std::uintptr_t>(pointer);
  if (at < first || at >= first + sizeof(Params)) return false;
  pointer = reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(&to) + (at - first));
  return true;
}

enum class Input { on_device, on_host };

/// The graph that this kernel is to be a part of; null: it runs.
OpaqueGraph* graph_of_launch() {
  return launching >= 0 ? OpaqueGraph::of(Device(DeviceType::cuda, launching)) : nullptr;
}

template <class Params>
concept HasList = requires(const Params& p) {
  p.tensors;
};

/// Steps of optimizers, whose addresses lie in a list.
template <HasList Params>
void run(Slot& slot, const Params& params, Input, std::size_t) {
  slot.calls.fetch_add(1, std::memory_order_relaxed);
  std::vector list(params.tensors, params.tensors + params.tensor_count);
  for (auto& tensor : list) {
    each_pointer(tensor, [&](const char* name, auto*& pointer) {
      if (pointer != nullptr) pointer = checked_memory(slot, name, pointer).seen(pointer);
    });
  }
  auto start = [inner = slot.inner, step = Params(params), list = std::move(list)]() mutable {
    step.tensors = list.data();
    reinterpret_cast<void (*)(const Params&)>(inner)(step);
  };
  if (OpaqueGraph* graph = graph_of_launch()) return graph->keep(std::move(start));
  start();
}

/// Puts what kernels can touch into `seen`, a copy of `params`.
template <class Params>
void translate(const Slot& slot, const Params& params, Params& seen, Input input) {
  each_pointer(seen, [&](const char* name, auto*& pointer) {
    if (pointer == nullptr || moved_along(params, seen, pointer)) return;
    if (input == Input::on_host && std::string_view(name) == "in") {
      if (opaque_memory_of(pointer) != nullptr) refuse(slot, name, "is device memory where the host reads a number");
      return;
    }
    pointer = checked_memory(slot, name, pointer).seen(pointer);
  });
}

/// A kernel of a graph: its parameters stay where they are, as they may point into themselves. A number that it reads
/// from the host, of `bytes` bytes, is kept with them.
template <class Params>
void keep(OpaqueGraph& graph, const Slot& slot, const Params& params, Input input, std::size_t bytes) {
  struct Kept {
    Params params;
    std::array<std::byte, 16> number{};
  };
  auto kept = std::make_shared<Kept>(Kept{params, {}});
  translate(slot, params, kept->params, input);
  if constexpr (std::is_same_v<Params, CopyParams>) {
    if (input == Input::on_host) {
      std::memcpy(kept->number.data(), kept->params.in, bytes);
      kept->params.in = kept->number.data();
    }
  }
  graph.keep([inner = slot.inner, kept] { reinterpret_cast<void (*)(Params&)>(inner)(kept->params); });
}

/// `bytes`: of the number that a kernel with such an input reads.
template <class Params>
void run(Slot& slot, Params& params, Input input, std::size_t bytes) {
  using Plain = std::remove_const_t<Params>;
  slot.calls.fetch_add(1, std::memory_order_relaxed);
  if (OpaqueGraph* graph = graph_of_launch()) {
    if constexpr (requires { params.is_done; }) params.is_done = true;  // known no sooner than in a replay
    return keep<Plain>(*graph, slot, params, input, bytes);
  }
  Plain seen = params;
  translate<Plain>(slot, params, seen, input);
  reinterpret_cast<void (*)(Params&)>(slot.inner)(seen);
  if constexpr (std::is_same_v<Plain, IndexParams> && !std::is_const_v<Params>) {
    params.failed = seen.failed;
    params.bad_index = seen.bad_index;
  }
  if constexpr (std::is_same_v<Plain, NllParams> && !std::is_const_v<Params>) {
    params.failed = seen.failed;
    params.bad_target = seen.bad_target;
  }
  if constexpr (requires { params.is_done; }) params.is_done = seen.is_done;
}

template <std::size_t kRow, std::size_t kSlot, Input kInput, class Params>
void trampoline(Params& params) {
  run(state().rows[kRow][kSlot], params, kInput, kSlot);
}

/// The only slots to keep; null: all.
const std::set<std::string>* kept = nullptr;

/// Fills one row of slots, which lie side by side, with trampolines for those that `inner` has.
template <std::size_t kRow, Input kInput, class Params, std::size_t... kSlots>
void fill_row(void (**out)(Params&), void (*const* inner)(Params&), auto name_of, std::index_sequence<kSlots...>) {
  static constexpr void (*kTrampolines[])(Params&) = {trampoline<kRow, kSlots, kInput, Params>...};
  constexpr std::size_t kCount = sizeof...(kSlots);
  auto row = std::make_unique<Slot[]>(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    row[i].name = name_of(i);
    const bool fills = inner != nullptr && inner[i] != nullptr && (kept == nullptr || kept->contains(row[i].name));
    out[i] = fills ? kTrampolines[i] : nullptr;
    if (fills) row[i].inner = reinterpret_cast<void (*)()>(inner[i]);
  }
  state().rows[kRow] = std::move(row);
  state().counts[kRow] = kCount;
}

constexpr auto kTypes = static_cast<std::size_t>(kDTypeCount);

std::string type_name(std::size_t dtype) {
  return "." + std::string(name(static_cast<DType>(dtype)));
}

/// One operation, by dtype or by element size.
template <std::size_t kRow, Input kInput = Input::on_device, class Params, std::size_t kCount>
void wrap(const std::string& prefix, std::array<void (*)(Params&), kCount>& out,
          const std::array<void (*)(Params&), kCount>* inner) {
  const auto name_of = [&](std::size_t i) {
    return prefix + (kCount == kTypes ? type_name(i) : "." + std::to_string(i));
  };
  fill_row<kRow, kInput>(out.data(), inner != nullptr ? inner->data() : nullptr, name_of,
                         std::make_index_sequence<kCount>());
}

/// [outer][dtype]
template <std::size_t kRow, class Params, std::size_t kOuter>
void wrap_grid(const std::string& prefix, std::array<std::array<void (*)(Params&), kTypes>, kOuter>& out,
               const std::array<std::array<void (*)(Params&), kTypes>, kOuter>* inner, auto outer_name) {
  const auto name_of = [&](std::size_t i) { return prefix + "." + outer_name(i / kTypes) + type_name(i % kTypes); };
  fill_row<kRow, Input::on_device>(out[0].data(), inner != nullptr ? (*inner)[0].data() : nullptr, name_of,
                                   std::make_index_sequence<kOuter * kTypes>());
}

template <std::size_t kRow, class Op, class Params>
void wrap(const std::string& prefix, KernelGrid<Op, Params>& out, const KernelGrid<Op, Params>* inner) {
  static_assert(std::is_same_v<typename KernelGrid<Op, Params>::Kernel, void (*)(const Params&)>);
  wrap_grid<kRow>(prefix, out.slots, inner != nullptr ? &inner->slots : nullptr,
                  [](std::size_t op) { return std::string(name(static_cast<Op>(op))); });
}

#define CORE_WRAP(row, table, member) \
  wrap<row>(#member, state().table.member, inner.table != nullptr ? &inner.table->member : nullptr)

void wrap_operations(const OpTables& inner) {
  CORE_WRAP(0, elementwise, unary);
  CORE_WRAP(1, elementwise, predicate);
  CORE_WRAP(2, elementwise, binary);
  CORE_WRAP(3, elementwise, compare);
  CORE_WRAP(4, elementwise, ternary);
  CORE_WRAP(5, reduction, reduce);
  CORE_WRAP(6, reduction, scan);
  CORE_WRAP(7, reduction, sort);
  CORE_WRAP(8, matmul, gemm);
  wrap_grid<9>("convert", state().copy.convert, inner.copy != nullptr ? &inner.copy->convert : nullptr,
               [](std::size_t from) { return std::string(name(static_cast<DType>(from))); });
  CORE_WRAP(10, copy, move);
  wrap<11, Input::on_host>("fill", state().copy.fill, inner.copy != nullptr ? &inner.copy->fill : nullptr);
  CORE_WRAP(12, copy, range);
  wrap_grid<13>("index", state().indexing.index, inner.indexing != nullptr ? &inner.indexing->index : nullptr,
                [](std::size_t op) { return std::string(name(static_cast<IndexOp>(op))); });
}

std::string random_name(std::size_t op) {
  static constexpr const char* kNames[] = {"uniform",   "normal",        "log_normal",  "bernoulli",   "exponential",
                                           "geometric", "cauchy",        "integers",    "any_integer", "bernoulli_each",
                                           "dropout",   "normal_serial", "permutation", "samples"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(RandomOp::count_));
  return kNames[op];
}

void wrap_layers(const OpTables& inner) {
  CORE_WRAP(14, nn, conv2d);
  CORE_WRAP(15, nn, conv2d_input_grad);
  CORE_WRAP(16, nn, conv2d_weight_grad);
  CORE_WRAP(17, nn, max_pool2d);
  CORE_WRAP(18, nn, max_pool2d_2x2);
  CORE_WRAP(19, nn, scatter_picked);
  CORE_WRAP(20, nn, gather_picked);
  CORE_WRAP(21, nn, avg_pool2d);
  CORE_WRAP(22, nn, avg_pool2d_grad);
  CORE_WRAP(23, nn, adaptive_avg_pool2d);
  CORE_WRAP(24, nn, adaptive_avg_pool2d_grad);
  CORE_WRAP(25, nn, batch_stats);
  CORE_WRAP(26, nn, batch_norm);
  CORE_WRAP(27, nn, batch_norm_grad);
  CORE_WRAP(28, nn, layer_norm);
  CORE_WRAP(29, nn, layer_norm_grad);
  CORE_WRAP(30, nn, layer_norm_long);
  CORE_WRAP(31, nn, layer_norm_long_grad);
  CORE_WRAP(32, nn, gelu_tanh_grad);
  CORE_WRAP(33, nn, attention);
  CORE_WRAP(34, nn, attention_grad);
  CORE_WRAP(35, nn, softmax);
  CORE_WRAP(36, nn, log_softmax);
  CORE_WRAP(37, nn, softmax_grad);
  CORE_WRAP(38, nn, log_softmax_grad);
  CORE_WRAP(39, nn, nll);
  CORE_WRAP(40, nn, nll_grad);
  CORE_WRAP(41, recurrent, lstm);
  CORE_WRAP(42, recurrent, lstm_grad);
  wrap_grid<43>("random", state().random.fill.slots, inner.random != nullptr ? &inner.random->fill.slots : nullptr,
                random_name);
  CORE_WRAP(44, optimizer, sgd);
  CORE_WRAP(45, optimizer, adam);
  CORE_WRAP(46, optimizer, rmsprop);
  CORE_WRAP(47, optimizer, adagrad);
  CORE_WRAP(48, optimizer, adadelta);
  CORE_WRAP(49, optimizer, adamax);
  CORE_WRAP(50, optimizer, nadam);
  CORE_WRAP(51, optimizer, radam);
  CORE_WRAP(52, optimizer, asgd);
  CORE_WRAP(53, optimizer, rprop);
  CORE_WRAP(54, recurrent, gru_cell);
  CORE_WRAP(55, recurrent, gru_cell_grad);
  CORE_WRAP(56, recurrent, rnn_cell);
  CORE_WRAP(57, recurrent, rnn_cell_grad);
  CORE_WRAP(58, recurrent, whole_layer);
  CORE_WRAP(59, recurrent, whole_layer_grad);
  CORE_WRAP(60, nn, attention_kept);
  CORE_WRAP(61, nn, masked_scale);
  if (inner.recurrent == nullptr) return;
  state().recurrent.is_lstm_one_launch = inner.recurrent->is_lstm_one_launch;  // questions, which touch no memory
  state().recurrent.plan_whole_layer = inner.recurrent->plan_whole_layer;
}
#undef CORE_WRAP

void put_tables(const OpTables& inner) {
  State& s = state();
  s.all = {};
  if (inner.elementwise != nullptr) s.all.elementwise = &s.elementwise;
  if (inner.reduction != nullptr) s.all.reduction = &s.reduction;
  if (inner.matmul != nullptr) s.all.matmul = &s.matmul;
  if (inner.copy != nullptr) s.all.copy = &s.copy;
  if (inner.indexing != nullptr) s.all.indexing = &s.indexing;
  if (inner.nn != nullptr) s.all.nn = &s.nn;
  if (inner.recurrent != nullptr) s.all.recurrent = &s.recurrent;
  if (inner.random != nullptr) s.all.random = &s.random;
  if (inner.optimizer != nullptr) s.all.optimizer = &s.optimizer;
}

std::set<std::string> listed_slots(const char* path) {
  std::ifstream file(path);
  if (!file) throw Error(ErrorCode::usage, "CORE_OPAQUE_SLOTS: " + quote(path) + ": cannot be read");
  std::set<std::string> names;
  for (std::string line; std::getline(file, line);) {
    const std::string word = line.substr(0, line.find_first_of(" \t#"));
    if (!word.empty()) names.insert(word);
  }
  return names;
}

void append_calls() {
  const char* path = std::getenv("CORE_OPAQUE_COUNT");
  if (path == nullptr) return;
  std::string text;
  for (const auto& [name, calls] : opaque_calls()) text += name + " " + std::to_string(calls) + "\n";
  if (std::FILE* file = std::fopen(path, "a")) {  // one write, so that several programs may share the file
    std::fwrite(text.data(), 1, text.size(), file);
    std::fclose(file);
  }
}

std::set<std::string> names_of_slots(bool (*wanted)(const Slot&)) {
  std::set<std::string> names;
  for (std::size_t row = 0; row < kMostRows; ++row) {
    for (std::size_t i = 0; i < state().counts[row]; ++i) {
      if (wanted(state().rows[row][i])) names.insert(state().rows[row][i].name);
    }
  }
  return names;
}

void check_known(const std::set<std::string>& listed) {
  const std::set<std::string> all = names_of_slots([](const Slot&) { return true; });
  for (const std::string& name : listed) {
    if (!all.contains(name)) throw Error(ErrorCode::usage, "CORE_OPAQUE_SLOTS: " + quote(name) + ": no such slot");
  }
}

}  // namespace

const OpTables& opaque_tables() {
  return state().all;
}

void set_inner_tables(const OpTables& inner) {
  std::set<std::string> listed;
  const char* path = std::getenv("CORE_OPAQUE_SLOTS");
  if (path != nullptr) listed = listed_slots(path);
  kept = path != nullptr ? &listed : nullptr;
  state().earlier_calls = opaque_calls();
  wrap_operations(inner);
  wrap_layers(inner);
  state().nn.image = nullptr;  // the CPU's alone
  state().nn.attention_has_tiles = inner.nn != nullptr && inner.nn->attention_has_tiles;
  state().nn.takes_channels_last = inner.nn != nullptr && inner.nn->takes_channels_last;
  put_tables(inner);
  kept = nullptr;
  check_known(listed);
  static const bool counts = std::getenv("CORE_OPAQUE_COUNT") != nullptr && std::atexit(append_calls) == 0;
  static_cast<void>(counts);
}

void set_launching_device(int index) {
  launching = index;
}

std::set<std::string> opaque_slots() {
  return names_of_slots([](const Slot& slot) { return slot.inner != nullptr; });
}

std::map<std::string, std::uint64_t> opaque_calls() {
  std::map<std::string, std::uint64_t> calls = state().earlier_calls;
  for (std::size_t row = 0; row < kMostRows; ++row) {
    for (std::size_t i = 0; i < state().counts[row]; ++i) {
      const Slot& slot = state().rows[row][i];
      if (const std::uint64_t count = slot.calls.load(); count != 0) calls[slot.name] += count;
    }
  }
  return calls;
}

}  // namespace core
