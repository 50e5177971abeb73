#pragma once
// Sequential, ModuleList, ModuleDict: containers of modules chosen at run time; ParameterList, ParameterDict. As
// torch.nn's.
// Copying one shares the modules it holds; clone() copies them.
// Thread safety: as Module. Use: core::Sequential net{core::Linear(3, 8), core::ReLU(), core::Linear(8, 2)};

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "libcore/module/module.h"

namespace core {

/// Any module on its way into a container: a value is moved to the heap, a pointer is shared.
class AnyModule {
 public:
  template <std::derived_from<Module> M>
  AnyModule(M module) : module_(std::make_shared<M>(std::move(module))) {  // NOLINT(google-explicit-constructor)
    detail::check_module_type<M>();
  }
  template <std::derived_from<Module> M>
  AnyModule(std::shared_ptr<M> module) : module_(std::move(module)) {  // NOLINT(google-explicit-constructor)
    detail::check_module_type<M>();
  }

  const std::shared_ptr<Module>& get() const { return module_; }

 private:
  std::shared_ptr<Module> module_;
};

using NamedModule = std::pair<std::string, AnyModule>;

namespace detail {
/// Counted from the front. Error(index) "index 3 is out of range".
std::int64_t checked_index(std::int64_t index, std::int64_t size);
/// The printed form of a list: equal neighbours once.
std::string list_text(const Module& list);
}  // namespace detail

/// What the three containers share: named modules in order.
class ModuleEntries {
 public:
  std::int64_t size() const { return static_cast<std::int64_t>(entries_.size()); }
  bool empty() const { return entries_.empty(); }
  std::vector<std::string> keys() const;
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

 protected:
  using Entry = std::pair<std::string, std::shared_ptr<Module>>;

  void add(std::string name, AnyModule module);
  void put(std::int64_t index, AnyModule module);
  /// In front of the one that stands there (or behind all); the names of all are their numbers again.
  void insert_at(std::int64_t index, AnyModule module);
  void erase_at(std::int64_t index);
  void renumber();
  void list(Members& m);
  /// Negative indices count from the end. Error(index) "index 3 is out of range".
  const Entry& at(std::int64_t index) const;
  const Entry* find(std::string_view name) const;
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
};

/// Calls its modules one after the other.
struct Sequential : ModuleOf<Sequential>, ModuleEntries {
  Sequential() = default;
  /// Named "0", "1", ... Give them in braces: in parentheses C++ may make the last one first, which then draws its
  /// initial values first. A single Sequential is copied, as C++ has it; push_back nests it.
  template <class... Modules>
  requires(sizeof...(Modules) > 0 && (std::convertible_to<Modules, AnyModule> && ...) &&
           !(sizeof...(Modules) == 1 && (std::same_as<std::remove_cvref_t<Modules>, Sequential> &&
                                         ...))) explicit Sequential(Modules&&... modules) {
    (push_back(std::forward<Modules>(modules)), ...);
  }
  explicit Sequential(std::initializer_list<NamedModule> modules) {
    for (const NamedModule& module : modules) add_module(module.first, module.second);
  }

  void push_back(AnyModule module) { add(std::to_string(size()), std::move(module)); }
  void add_module(std::string name, AnyModule module) { add(std::move(name), std::move(module)); }
  /// Another module in the place of one (`seq[0] = m`), in front of one, or one out; as ModuleList's too. Negative
  /// indices count from the end. Error(index) "index 3 is out of range", from insert "Index out of range: 3".
  void set(std::int64_t index, AnyModule module) { put(index, std::move(module)); }
  void insert(std::int64_t index, AnyModule module) { insert_at(index, std::move(module)); }
  void erase(std::int64_t index) { erase_at(index); }
  void append(AnyModule module) { push_back(std::move(module)); }
  Module& operator[](std::int64_t index) const { return *at(index).second; }
  /// Modules from `begin` up to `end`, shared, under their names here.
  Sequential slice(std::int64_t begin, std::int64_t end) const;

  void members(Members& m) override { list(m); }
  Tensor forward(const Tensor& x);
};

/// Modules by number.
struct ModuleList : ModuleOf<ModuleList>, ModuleEntries {
  ModuleList() = default;
  ModuleList(std::initializer_list<AnyModule> modules) {
    for (const AnyModule& module : modules) push_back(module);
  }
  void push_back(AnyModule module) { add(std::to_string(size()), std::move(module)); }
  void append(AnyModule module) { push_back(std::move(module)); }
  void set(std::int64_t index, AnyModule module) { put(index, std::move(module)); }
  void insert(std::int64_t index, AnyModule module) { insert_at(index, std::move(module)); }
  void erase(std::int64_t index) { erase_at(index); }
  Module& operator[](std::int64_t index) const { return *at(index).second; }

  void members(Members& m) override { list(m); }
  /// Equal neighbours are printed once: "(0-1): 2 x Linear(...)".
  std::string str() const override;
};

/// A ModuleList of modules of one class, which are called and read as they are: for (auto& block : blocks) x =
/// block(x).
template <class M>
struct ModuleListOf : ModuleOf<ModuleListOf<M>> {
  ModuleListOf() = default;
  ModuleListOf(std::initializer_list<M> modules) {
    for (const M& module : modules) push_back(module);
  }
  void push_back(M module) { modules_.push_back(std::make_shared<M>(std::move(module))); }
  template <class... Args>
  M& emplace_back(Args&&... args) {
    return *modules_.emplace_back(std::make_shared<M>(std::forward<Args>(args)...));
  }
  std::int64_t size() const { return static_cast<std::int64_t>(modules_.size()); }
  /// Negative indices count from the end. Error(index) "index 3 is out of range".
  M& operator[](std::int64_t index) const {
    return *modules_[static_cast<std::size_t>(detail::checked_index(index, size()))];
  }
  auto begin() const { return Iterator{modules_.begin()}; }
  auto end() const { return Iterator{modules_.end()}; }

  void members(Members& m) override {
    for (std::size_t i = 0; i < modules_.size(); ++i) m.child(std::to_string(i), modules_[i]);
  }
  std::string class_name() const override { return "ModuleList"; }
  std::string str() const override { return detail::list_text(*this); }

 private:
  struct Iterator {
    typename std::vector<std::shared_ptr<M>>::const_iterator at;
    M& operator*() const { return **at; }
    Iterator& operator++() { return ++at, *this; }
    bool operator==(const Iterator&) const = default;
  };
  std::vector<std::shared_ptr<M>> modules_;
};

/// Modules by name.
struct ModuleDict : ModuleOf<ModuleDict>, ModuleEntries {
  ModuleDict() = default;
  ModuleDict(std::initializer_list<NamedModule> modules) {
    for (const NamedModule& module : modules) insert(module.first, module.second);
  }
  void insert(std::string name, AnyModule module) { add(std::move(name), std::move(module)); }
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  /// Error(key) with the name alone as text, as Python's KeyError.
  Module& operator[](std::string_view name) const;

  void members(Members& m) override { list(m); }
};

/// Parameters by number.
struct ParameterList : ModuleOf<ParameterList> {
  ParameterList() = default;
  ParameterList(std::initializer_list<Parameter> parameters) : parameters_(parameters) {}
  void push_back(Parameter parameter) { parameters_.push_back(std::move(parameter)); }
  std::int64_t size() const { return static_cast<std::int64_t>(parameters_.size()); }
  /// Negative indices count from the end. Error(index) "index 3 is out of range".
  Parameter& operator[](std::int64_t index);

  void members(Members& m) override;
  /// "  (0): Parameter containing: [torch.float32 of size 2x3]" and so on.
  std::string extra_repr() const override;

 private:
  std::vector<Parameter> parameters_;
};

/// Parameters by name.
struct ParameterDict : ModuleOf<ParameterDict> {
  ParameterDict() = default;
  ParameterDict(std::initializer_list<std::pair<std::string, Parameter>> parameters) : parameters_(parameters) {}
  void insert(std::string name, Parameter parameter);
  std::int64_t size() const { return static_cast<std::int64_t>(parameters_.size()); }
  bool contains(std::string_view name) const;
  /// Error(key) with the name alone as text, as Python's KeyError.
  Parameter& operator[](std::string_view name);

  void members(Members& m) override;
  std::string extra_repr() const override;

 private:
  std::vector<std::pair<std::string, Parameter>> parameters_;
};

// Made once, in the source of this header.
extern template class ModuleOf<Sequential>;
extern template class ModuleOf<ModuleList>;
extern template class ModuleOf<ModuleDict>;
extern template class ModuleOf<ParameterList>;
extern template class ModuleOf<ParameterDict>;

}  // namespace core
