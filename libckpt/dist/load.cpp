#include "libckpt/dist/load.h"

#include <functional>
#include <unordered_map>

#include "libckpt/bridge/tensor_entry.h"
#include "libckpt/dist/agreement.h"
#include "libckpt/entry.h"
#include "libckpt/format/dcp/part_writer.h"
#include "libckpt/open_save.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/tensor/generator.h"
#include "libcore/tensor/tensor_impl.h"

namespace ckpt::dist {
namespace {

using core::Error;
using core::ErrorCode;
using core::quote;
namespace fs = std::filesystem;

/// Runs a step on this rank; it has gone well when it has on all.
void together(const LoadOptions& options, const fs::path& path, const std::function<void()>& step) {
  std::unique_ptr<Ranks> ranks = ranks_of(options.group);
  if (ranks->size() == 1) return step();
  core::with_context(path.string(), [&] {
    agree(*ranks, outcome_of([&]() -> std::string {
      step();
      return "";
    }));
  });
}

EntryPtr cut(const std::string& name, const Entry& entry, const Piece& piece) {
  return core::with_context(quote(name), [&] {
    if (entry.shape != piece.global_shape) {
      throw Error(ErrorCode::value, "it has the shape " + core::to_list(entry.shape) + " where " +
                                        core::to_list(piece.global_shape) + " is expected");
    }
    bool fits = piece.offset.size() == entry.shape.size() && piece.sizes.size() == entry.shape.size();
    for (std::size_t d = 0; fits && d < entry.shape.size(); ++d) {
      fits = piece.offset[d] >= 0 && piece.sizes[d] >= 0 && piece.offset[d] <= entry.shape[d] &&
             piece.sizes[d] <= entry.shape[d] - piece.offset[d];
    }
    if (!fits) {
      throw Error(ErrorCode::value, "the piece " + core::to_list(piece.sizes) + " at " + core::to_list(piece.offset) +
                                        " reaches outside of the tensor " + core::to_list(entry.shape));
    }
    if (core::bit_width(entry.dtype) % 8 != 0 || entry.bytes == nullptr) {
      throw Error(ErrorCode::unsupported, "it has no bytes that could be cut");
    }
    const detail::Box box{piece.offset, piece.sizes};
    return detail::boxed_tensor(entry, box, detail::PartCheck::left_out).entry_ptr();
  });
}

/// Cuts tensors by where they stand in the tree.
class Cutting {
 public:
  explicit Cutting(const Pieces& pieces) : pieces_(pieces) {}

  Value run(const Value& root) {
    Value out = visit(root, "");
    for (const auto& [name, piece] : pieces_) {
      if (!found_.contains(name)) throw Error(ErrorCode::key, "no tensor " + quote(name) + " is in it");
    }
    return out;
  }

 private:
  static std::string below(const std::string& name, const std::string& step) {
    return name.empty() ? step : name + "." + step;
  }

  Value visit(const Value& value, const std::string& name) {
    if (value.is(Value::Kind::tensor)) {
      auto piece = pieces_.find(name);
      if (piece == pieces_.end()) return value;
      found_[name] = true;
      return Value::tensor(cut(name, value.as_entry(), piece->second));
    }
    if (value.is(Value::Kind::dict)) {
      Dict dict = value.as_dict();
      for (auto& [key, item] : dict.items) item = visit(item, below(name, step_text(key)));
      return Value::dict(std::move(dict));
    }
    if (!value.is(Value::Kind::list)) return value;
    Value::List items = value.as_list();
    for (std::size_t i = 0; i < items.size(); ++i) items[i] = visit(items[i], below(name, std::to_string(i)));
    return Value::list(std::move(items));
  }

  const Pieces& pieces_;
  std::map<std::string, bool> found_;
};

/// Pieces with the sizes of the tensors that they are read into.
Pieces with_sizes(const core::StateDict& state, const Pieces& pieces) {
  Pieces sized = pieces;
  for (auto& [name, piece] : sized) {
    const core::Tensor* tensor = state.find(name);
    if (tensor == nullptr) throw Error(ErrorCode::key, "a piece is given for " + quote(name) + ", which is no tensor");
    piece.sizes = tensor->sizes();
  }
  return sized;
}

void read_into_tensors(const Value& root, core::StateDict& state, const Pieces& pieces) {
  std::unordered_map<std::string, EntryPtr> entries;
  for (const NamedEntry& named : list_entries(cut_to_pieces(root, with_sizes(state, pieces)))) {
    entries.emplace(named.name, named.entry);
  }
  DeviceReads reads;
  for (const auto& [name, tensor] : state) {
    auto found = entries.find(name);
    if (found == entries.end()) throw Error(ErrorCode::key, "no tensor " + quote(name) + " is in it");
    const Entry& entry = *found->second;
    bool fits = entry.dtype == tensor.dtype() && entry.shape == tensor.sizes() && tensor.is_contiguous();
    if (!fits) {
      throw Error(ErrorCode::value, quote(name) + ": it is " + std::string(core::name(entry.dtype)) + " " +
                                        core::to_list(entry.shape) + " where a contiguous " +
                                        std::string(core::name(tensor.dtype())) + " " + core::to_list(tensor.sizes()) +
                                        " is to be filled");
    }
    read_into(entry, tensor, name, reads);
    tensor.impl()->bump_version();
  }
  reads.run();
}

}  // namespace

Value cut_to_pieces(const Value& root, const Pieces& pieces) {
  return Cutting(pieces).run(root);
}

Checkpoint load(const fs::path& path, const LoadOptions& options) {
  Checkpoint checkpoint;
  together(options, path, [&] { checkpoint = open(path, options.open); });
  return checkpoint;
}

Value load(const fs::path& path, const Pieces& pieces, const LoadOptions& options) {
  Value tree;
  together(options, path, [&] { tree = cut_to_pieces(open(path, options.open).root, pieces); });
  return tree;
}

void load_into(core::StateDict& state, const fs::path& path, const Pieces& pieces, const LoadOptions& options) {
  together(options, path, [&] { read_into_tensors(open(path, options.open).root, state, pieces); });
}

LoadReport load_into(core::Module& module, const fs::path& path, const LoadIntoOptions& into,
                     const LoadOptions& options) {
  LoadReport report;
  together(options, path, [&] { report = ckpt::load_into(module, path, into); });
  return report;
}

TrainingProgress load_training(const fs::path& path, core::Module& model, core::Optimizer& optimizer,
                               const LoadOptions& options) {
  int rank = ranks_of(options.group)->rank();
  TrainingProgress progress;
  together(options, path, [&] {
    ResumeOptions resume;
    resume.open = options.open;
    progress = resume_training(path, model, optimizer, resume);
    Checkpoint checkpoint = open(path, options.open);
    const Value* ranks = checkpoint.root.find("ranks");
    const Value* own = ranks == nullptr ? nullptr : ranks->find(std::to_string(rank));
    const Value* state = own == nullptr ? nullptr : own->find("rng_state");
    if (state == nullptr || !state->is(Value::Kind::tensor)) return;
    if (state->as_entry().byte_size() > core::Generator::kCpuStateSize) return;
    core::default_generator().set_state(read_all(*state->as_entry().bytes));
  });
  return progress;
}

}  // namespace ckpt::dist
