#include "libckpt/dist/save.h"

#include <unistd.h>

#include <functional>
#include <mutex>
#include <unordered_map>

#include "libckpt/bridge/tensor_entry.h"
#include "libckpt/dist/agreement.h"
#include "libckpt/dist/layouts.h"
#include "libckpt/dist/messages.h"
#include "libckpt/dist/plan.h"
#include "libckpt/format/dcp/parts_file.h"
#include "libckpt/io/atomic_folder.h"
#include "libckpt/io/checksum.h"
#include "libckpt/transform/optimizer.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/tensor/generator.h"

namespace ckpt::dist {
namespace {

using core::Error;
using core::ErrorCode;
namespace fs = std::filesystem;

std::string hash_bytes(const Hash128& hash) {
  std::string out(16, '\0');
  for (std::size_t i = 0; i < 8; ++i) {
    out[i] = static_cast<char>(hash.low >> (8 * i));
    out[8 + i] = static_cast<char>(hash.high >> (8 * i));
  }
  return out;
}

std::string hash_text(std::string_view text) {
  return hash_bytes(hash128(core::as_bytes(text)));
}

/// The plan of the last save by these ranks, which most often is that of the next one.
struct KnownPlan {
  std::string local;   ///< hash of what this rank had
  std::string merged;  ///< hash of what all ranks had
  std::shared_ptr<const Plan> plan;
};

/// By rank and number of ranks: those of one process are most often always the same. Groups of one size share a plan,
/// and one of them may save in the background.
class KnownPlans {
 public:
  KnownPlan of(const Ranks& ranks) {
    const std::lock_guard lock(mutex_);
    return plans_[key_of(ranks)];
  }
  void remember(const Ranks& ranks, KnownPlan plan) {
    const std::lock_guard lock(mutex_);
    plans_[key_of(ranks)] = std::move(plan);
  }

 private:
  static std::uint64_t key_of(const Ranks& ranks) {
    return (static_cast<std::uint64_t>(ranks.size()) << 32) + static_cast<std::uint32_t>(ranks.rank());
  }

  std::mutex mutex_;
  std::unordered_map<std::uint64_t, KnownPlan> plans_;
};

KnownPlans& known_plans() {
  static KnownPlans plans;
  return plans;
}

class Saving {
 public:
  Saving(Ranks& ranks, const fs::path& path, const SaveOptions& options)
      : ranks_(ranks), path_(path.has_filename() ? path : path.parent_path()), options_(options) {}

  SaveFacts run(const Value& state) {
    plan(state);
    std::unique_ptr<Layout> layout = layout_named(options_.layout);
    layout->check(*plan_);
    make_folder(*layout);
    write(*layout);
    return facts_;
  }

 private:
  bool leads() const { return ranks_.rank() == 0; }

  /// What this rank has fits the plan of the save before, and so it is for all: then nothing else is sent.
  void plan(const Value& state) {
    const KnownPlan known = known_plans().of(ranks_);
    std::string mine;
    std::string outcome = outcome_of([&]() -> std::string {
      local_ = local_plan(state, options_.pieces);
      MessageWriter out;
      out.text(options_.layout);
      out.text(encode_plan(local_));
      mine = out.take();
      return "";
    });
    std::string hash = hash_text(mine);
    bool knows = went_well(outcome) && known.plan != nullptr && known.local == hash;
    std::string said = knows ? hash + known.merged : std::string(32, '\0');
    facts_.exchanged = said.size();
    bool all_know = knows;
    for (const std::string& other : ranks_.exchange(said)) {
      all_know = all_know && other.size() == 32 && other.substr(16) == known.merged;
    }
    if (all_know) {
      plan_ = known.plan;
      return;
    }
    facts_.exchanged += mine.size() + 1;
    std::vector<std::string> texts = agree(ranks_, went_well(outcome) ? outcome + mine : outcome);
    std::vector<LocalPlan> plans;
    std::string all;
    for (std::size_t rank = 0; rank < texts.size(); ++rank) {
      MessageReader in(texts[rank]);
      check_layout(rank, in.text());
      plans.push_back(decode_plan(in.text()));
      all += hash_text(texts[rank]);
    }
    plan_ = std::make_shared<const Plan>(merge_plans(plans));
    known_plans().remember(ranks_, {std::move(hash), hash_text(all), plan_});
  }

  void check_layout(std::size_t rank, std::string_view layout) {
    if (rank == 0) first_layout_ = layout;
    if (layout == first_layout_) return;
    throw Error(ErrorCode::value, "rank " + std::to_string(rank) + " saves with the layout " + core::quote(layout) +
                                      " where rank 0 saves with " + core::quote(first_layout_));
  }

  /// By rank 0; the others must see it, or they write elsewhere.
  void make_folder(const Layout& layout) {
    std::string made = outcome_of([&] {
      if (!leads()) return std::string();
      auto knows = [&layout](std::string_view name) { return layout.knows(name); };
      folder_ = std::make_unique<AtomicFolder>(
          path_,
          AtomicFolder::Options{.overwrite = options_.overwrite, .durable = options_.durable, .may_replace = knows});
      return folder_->hidden().filename().string();
    });
    std::string name = agree(ranks_, made)[0];
    hidden_ = path_.parent_path() / name;
    save_id_ = detail::save_id_of(hash128(core::as_bytes(name)));
    if (ranks_.size() == 1) return;
    agree(ranks_, outcome_of([&]() -> std::string {
            std::error_code ignored;
            if (fs::is_directory(hidden_, ignored)) return "";
            throw Error(ErrorCode::io, "does not see " + hidden_.string() + " on " + host() +
                                           ", which rank 0 has made: is it on a shared file system?");
          }));
  }

  static std::string host() {
    std::string name(256, '\0');
    return ::gethostname(name.data(), name.size() - 1) == 0 ? name.c_str() : "its machine";
  }

  void write(const Layout& layout) {
    PartWork work{*plan_, local_, static_cast<std::uint32_t>(ranks_.rank()), hidden_, save_id_, {}};
    work.write.durable = options_.durable;
    work.write.threads = options_.threads;
    work.write.io = options_.io;
    std::vector<std::string> parts = agree(ranks_, outcome_of([&] { return layout.write_part(work); }));
    std::string done = agree(ranks_, outcome_of([&]() -> std::string {
                               if (!leads()) return "";
                               std::uint64_t bytes = layout.write_index(work, parts);
                               folder_->commit();
                               return std::to_string(bytes);
                             }))[0];
    facts_.bytes = std::stoull(done);
  }

  Ranks& ranks_;
  fs::path path_;
  const SaveOptions& options_;
  LocalPlan local_;
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<AtomicFolder> folder_;  ///< of rank 0; goes with its files unless it was committed
  fs::path hidden_;
  std::string save_id_;
  std::string first_layout_;
  SaveFacts facts_;
};

Value rng_states() {
  core::ByteVector bytes = core::default_generator().state();
  auto entry = std::make_shared<Entry>();
  entry->dtype = core::DType::u8;
  entry->shape = {static_cast<std::int64_t>(bytes.size())};
  entry->bytes = memory_source(std::move(bytes));
  return Value::tensor(std::move(entry));
}

}  // namespace

SaveFacts save_by(Ranks& ranks, const Value& state, const fs::path& path, const SaveOptions& options) {
  return core::with_context(path.string(), [&] { return Saving(ranks, path, options).run(state); });
}

SaveFacts save(const Value& state, const fs::path& path, const SaveOptions& options) {
  return save_by(*ranks_of(options.group), state, path, options);
}

SaveFacts save(const core::StateDict& state, const fs::path& path, const SaveOptions& options) {
  return save(to_value(state), path, options);
}

Value training_tree(const core::Module& model, const core::Optimizer& optimizer, const TrainingProgress& progress,
                    int rank, Snapshot* snapshot) {
  Checkpoint checkpoint = training_checkpoint(model, optimizer, progress, snapshot);
  checkpoint = rekey_optimizers(checkpoint, OptimizerKeys::name);
  Dict root = checkpoint.root.as_dict();
  std::erase_if(root.items, [](const auto& item) {
    return item.first == Value::text("rng_state") || item.first == Value::text("cuda_rng_state");
  });
  Value own = Value::dict({{Value::text("rng_state"), rng_states()}});
  root.items.emplace_back(Value::text("ranks"), Value::dict({{Value::text(std::to_string(rank)), own}}));
  return Value::dict(std::move(root));
}

SaveFacts save_training(const fs::path& path, const core::Module& model, const core::Optimizer& optimizer,
                        const TrainingProgress& progress, const SaveOptions& options) {
  std::unique_ptr<Ranks> ranks = ranks_of(options.group);
  Value tree;
  std::string outcome = outcome_of([&]() -> std::string {
    tree = training_tree(model, optimizer, progress, ranks->rank(), nullptr);
    return "";
  });
  core::with_context(path.string(), [&] { agree(*ranks, outcome); });
  return save_by(*ranks, tree, path, options);
}

}  // namespace ckpt::dist
