#include "tests/faults/power_cut_states.h"

#include <algorithm>
#include <random>
#include <set>
#include <unordered_set>

#include "libckpt/io/checksum.h"
#include "libcore/base/bytes.h"

namespace test::faults {
namespace {

using Kind = DiskOp::Kind;

constexpr std::size_t kSector = 512;
constexpr std::size_t kVaried = 8;    // unsafe operations whose fate is varied
constexpr std::size_t kMaxTorn = 64;  // sectors at which the last write is torn

char stale_byte(std::uint64_t seed, std::uint64_t at) {
  return static_cast<char>((at * 0x9E3779B97F4A7C15ULL + seed * 0xD1B54A32D192ED03ULL) >> 56);
}

/// Lays `op` over the content; lost parts as the choice says. What lies before `settled` was safely on the disk at the
/// start: where that is written over in place, a lost sector is the old one.
void apply_write(std::string& content, const DiskOp& op, const Survival& survival, const Choice& choice,
                 std::size_t settled) {
  std::size_t end = op.offset + op.bytes.size();
  bool whole = survival.kept && !survival.torn;
  if (!whole && choice.lost != Lost::nothing && content.size() < end) content.resize(end);
  if (!whole && choice.lost == Lost::stale) {
    for (std::size_t at = std::max<std::size_t>(op.offset, settled); at < end; ++at)
      content[at] = stale_byte(choice.seed, at);
  }
  if (!survival.kept) return;
  for (std::size_t at = 0; at < op.bytes.size();) {
    std::size_t sector = (op.offset + at) / kSector;
    std::size_t next = std::min<std::size_t>(op.bytes.size(), (sector + 1) * kSector - op.offset);
    bool there = !survival.torn || (survival.sectors >> (sector % 64) & 1U) != 0 ||
                 (survival.sectors == 0 && next <= survival.length);
    if (there) {
      if (content.size() < op.offset + next) content.resize(op.offset + next);
      content.replace(op.offset + at, next - at, op.bytes, at, next - at);
    }
    at = next;
  }
}

std::string key_of(const Folder& state, bool returned) {
  ckpt::Hasher128 hasher;
  for (const auto& [name, content] : state) {
    std::string head = name + '\0' + std::to_string(content->size()) + '\0';
    hasher.update(core::as_bytes(head));
    hasher.update(core::as_bytes(*content));
  }
  return to_hex(hasher.finish()) + (returned ? "r" : "");
}

/// One of the two disks: which operations are safe at a cut, and which choices among the others it can make.
class Disk {
 public:
  Disk(const std::vector<DiskOp>& log, bool ordered) : log_(log), ordered_(ordered) {}

  std::vector<std::size_t> unsafe_at(std::size_t cut) const {
    std::vector<std::size_t> unsafe;
    for (std::size_t i = 0; i < cut; ++i) {
      if (log_[i].kind < Kind::sync_file && !is_safe(i, cut)) unsafe.push_back(i);
    }
    return unsafe;
  }

  /// Takes back what this disk cannot have kept without something else.
  void make_possible(const std::vector<std::size_t>& unsafe, std::vector<Survival>& survivals) const {
    bool names_end = false;
    std::set<std::string> lost_names;
    for (std::size_t i : unsafe) {
      const DiskOp& op = log_[i];
      if (!op.changes_names()) continue;
      if (ordered_ ? names_end : lost_names.count(op.name) + lost_names.count(op.second_name) > 0) {
        survivals[i].kept = false;
      }
      if (survivals[i].kept) continue;
      names_end = true;
      lost_names.insert(op.name);
      if (!op.second_name.empty()) lost_names.insert(op.second_name);
    }
  }

 private:
  bool is_safe(std::size_t i, std::size_t cut) const {
    const DiskOp& op = log_[i];
    for (std::size_t j = i + 1; j < cut; ++j) {
      bool file = log_[j].kind == Kind::sync_file;
      bool folder = log_[j].kind == Kind::sync_folder;
      if (op.changes_names() && (folder || (ordered_ && file))) return true;
      if (op.changes_content() && file && log_[j].file == op.file) return true;
    }
    return false;
  }

  const std::vector<DiskOp>& log_;
  bool ordered_;
};

/// All states at one cut of one disk.
class CutStates {
 public:
  using Visit = std::function<void(const Choice&, const std::string& how)>;
  CutStates(const Disk& disk, const std::vector<DiskOp>& log, std::size_t cut, const StateOptions& options, Visit visit)
      : disk_(disk), log_(log), cut_(cut), options_(options), unsafe_(disk.unsafe_at(cut)), visit_(std::move(visit)) {
    std::size_t varied = std::min(unsafe_.size(), kVaried);
    older_.assign(unsafe_.begin(), unsafe_.end() - static_cast<std::ptrdiff_t>(varied));
    last_.assign(unsafe_.end() - static_cast<std::ptrdiff_t>(varied), unsafe_.end());
  }

  void visit_all() {
    visit_everything_lost();
    for (bool older : {true, false}) {
      if (!older && older_.empty()) continue;
      for (std::size_t n = 0; n <= last_.size(); ++n) {
        visit_range(older, 0, n, "the first ");
        visit_range(older, last_.size() - n, last_.size(), "the last ");
      }
    }
    visit_torn();
    std::mt19937_64 random(options_.seed * 1000003 + cut_);
    for (unsigned i = 0; i < options_.random_choices && !unsafe_.empty(); ++i) visit_random(random);
  }

 private:
  Choice start(bool older) const {
    Choice choice{cut_, std::vector<Survival>(log_.size()), Lost::nothing, options_.seed};
    for (std::size_t i : older_) choice.survivals[i].kept = older;
    return choice;
  }

  void visit(Choice choice, const std::string& how) {
    disk_.make_possible(unsafe_, choice.survivals);
    visit_(choice, how);
  }

  void visit_each_loss(Choice choice, const std::string& how) {
    for (Lost lost : {Lost::nothing, Lost::zeros, Lost::stale}) {
      choice.lost = lost;
      visit(choice, how + (lost == Lost::nothing ? "" : lost == Lost::zeros ? ", zeros for the rest" : ", stale rest"));
    }
  }

  void visit_everything_lost() {
    Choice choice = start(false);
    for (std::size_t i : last_) choice.survivals[i].kept = false;
    visit_each_loss(choice, "none");
  }

  void visit_range(bool older, std::size_t from, std::size_t to, const std::string& which) {
    Choice choice = start(older);
    for (std::size_t i = 0; i < last_.size(); ++i) choice.survivals[last_[i]].kept = i >= from && i < to;
    visit_each_loss(choice, which + std::to_string(to - from) + " of " + std::to_string(last_.size()) +
                                (older ? "" : ", none before"));
  }

  /// The last write, in the midst of which the power goes.
  void visit_torn() {
    if (last_.empty() || log_[last_.back()].kind != Kind::write) return;
    std::size_t size = log_[last_.back()].bytes.size();
    for (std::size_t k = 0; k <= kMaxTorn && k * kSector < size; ++k) {
      for (bool others : {true, false}) {
        Choice choice = start(others);
        for (std::size_t i : last_) choice.survivals[i].kept = others;
        choice.survivals[last_.back()] = {.torn = true, .length = k * kSector};
        visit_each_loss(choice,
                        (others ? "all, the last torn at " : "the last alone, torn at ") + std::to_string(k * kSector));
      }
    }
  }

  void visit_random(std::mt19937_64& random) {
    Choice choice = start(random() % 4 != 0);
    std::string how;
    for (std::size_t i : last_) {
      Survival& survival = choice.survivals[i];
      survival.kept = random() % 2 == 0;
      if (survival.kept && log_[i].kind == Kind::write && random() % 4 == 0) {
        survival.torn = true;
        survival.sectors = random() | (1ULL << random() % 64);
      }
      how += !survival.kept ? '-' : survival.torn ? '~' : '+';
    }
    choice.lost = static_cast<Lost>(random() % 3);
    visit(choice, how);
  }

  const Disk& disk_;
  const std::vector<DiskOp>& log_;
  std::size_t cut_;
  const StateOptions& options_;
  std::vector<std::size_t> unsafe_;
  std::vector<std::size_t> older_;
  std::vector<std::size_t> last_;
  Visit visit_;
};

}  // namespace

Folder build_state(const SimulatedDisk& disk, const Choice& choice) {
  std::vector<std::shared_ptr<const std::string>> contents = disk.start_contents();
  std::vector<std::unique_ptr<std::string>> changed(contents.size());
  std::map<std::string, std::uint32_t> names = disk.start_names();
  for (std::size_t i = 0; i < choice.cut; ++i) {
    const DiskOp& op = disk.log()[i];
    const Survival& survival = choice.survivals[i];
    if (op.changes_content()) {
      auto& content = changed[op.file];
      if (!content) content = std::make_unique<std::string>(contents[op.file] ? *contents[op.file] : "");
      const auto& start = contents[op.file];
      if (op.kind == Kind::write) apply_write(*content, op, survival, choice, start ? start->size() : 0);
      if (op.kind == Kind::resize && survival.kept) content->resize(op.offset);
    }
    if (!survival.kept) continue;
    if (op.kind == Kind::create) names[op.name] = op.file;
    auto old = names.find(op.name);
    bool mine = old != names.end() && old->second == op.file;
    if ((op.kind == Kind::rename || op.kind == Kind::unlink) && mine) names.erase(old);
    if (op.kind == Kind::rename || op.kind == Kind::link) names[op.second_name] = op.file;
  }
  Folder state;
  auto empty = std::make_shared<const std::string>();
  for (std::size_t i = 0; i < contents.size(); ++i) {
    if (changed[i]) contents[i] = std::make_shared<const std::string>(std::move(*changed[i]));
    if (!contents[i]) contents[i] = empty;
  }
  for (const auto& [name, file] : names) state[name] = contents[file];
  return state;
}

void for_each_state(const SimulatedDisk& disk, const StateOptions& options,
                    const std::function<void(const PowerCut& cut, const Folder& state)>& visit) {
  const std::vector<DiskOp>& log = disk.log();
  std::unordered_set<std::string> seen;
  for (bool ordered : {true, false}) {
    Disk model(log, ordered);
    for (std::size_t cut = 0; cut <= log.size(); ++cut) {
      CutStates states(model, log, cut, options, [&](const Choice& choice, const std::string& how) {
        Folder state = build_state(disk, choice);
        bool returned = cut == log.size();
        if (!seen.insert(key_of(state, returned)).second) return;
        visit({cut, returned, ordered ? "ordered" : "any order", how}, state);
      });
      states.visit_all();
    }
  }
}

}  // namespace test::faults
